"""``alphamf separate``: split recordings into sources, or keep some of them."""

import time
from typing import Annotated

import typer

from alphamf.cli import report
from alphamf.cli.options import NoSandbox, Quiet, check_least, seed_option
from alphamf.errors import AlphaMFError
from alphamf.tools.files import printable_name


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
    """Separate recordings into sources: voice and music, two instruments, an engine and the rest.

    Writes NAME.SOURCE.wav for each source, whose sum is the recording, or NAME.kept.wav with
    --keep. To remove noise from speech, use denoise: it has networks for that.
    """
    failed = False
    with report.user_errors():
        from alphamf.separation import files

        check_least("--seed", seed, 0)
        sources = files.parse_sources(source)
        request = files.Request(sources, files.choose_outputs(list(sources), keep), seed, overwrite)
        todo, problems = files.jobs_of(inputs, output_dir, request)
        for problem in problems:
            report.error(problem.source, problem.sentence)
        for jobs in todo:
            name, started = next(iter(jobs.values())).source, time.perf_counter()
            try:
                done = files.separate_file(jobs, request)
            except AlphaMFError as error:
                report.error(name, str(error))
                failed = True
                continue
            if done and not quiet:
                made = ", ".join(printable_name(job.output) for job in jobs.values())
                seconds = time.perf_counter() - started
                report.say(f"{printable_name(name)}: {made} in {seconds:.1f} s")
    if failed or problems:
        raise typer.Exit(2)
