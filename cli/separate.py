"""``alphamf separate``: split recordings into sources, or keep some of them."""

from typing import Annotated

import typer

from alphamf.cli import report
from alphamf.cli.options import NoSandbox, Quiet, check_least, seed_option


def separate(
    inputs: Annotated[
        list[str],
        typer.Argument(metavar="INPUT", help="Recordings: files, folders or quoted patterns."),
    ],
    source: Annotated[
        list[str],
        typer.Option(
            "--source",
            "-s",
            metavar="NAME=WHAT",
            help="A source; give two or more. WHAT is a model (speech-16k, or a file of 'alphamf "
            "train'), a sound file in which this source is alone, or the number of spectra to "
            "learn from the recording itself.",
        ),
    ],
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME,...",
            help="Write one file with these sources; by default, a file for each source.",
        ),
    ] = None,
    output_dir: Annotated[
        str | None,
        typer.Option(
            "--output-dir",
            "-o",
            metavar="DIR",
            help="Folder for the results; by default, that of each recording.",
        ),
    ] = None,
    seed: Annotated[int, seed_option("result on the same machine")] = 0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Overwrite results that exist.")
    ] = False,
    no_sandbox: NoSandbox = False,
    quiet: Quiet = False,
) -> None:
    """Separate recordings into sources, such as a voice and music; their sum is the recording.

    Writes NAME.SOURCE.wav for each, or NAME.kept.wav. For speech in noise, denoise is better.
    """
    failed = False
    with report.user_errors():
        from alphamf.separation.files import parse_sources, separate_files

        check_least("--seed", seed, 0)
        for found in separate_files(
            inputs, parse_sources(source), keep, output_dir, seed=seed, overwrite=overwrite
        ):
            if not isinstance(found, str):
                report.error(found.source, found.sentence)
                failed = True
            elif not quiet:
                report.say(found)
    if failed:
        raise typer.Exit(2)
