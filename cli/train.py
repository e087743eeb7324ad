"""``alphamf train``: a speech model from clean recordings."""

from __future__ import annotations

import os
import time
from typing import Annotated

import typer

from alphamf.audio.inputs import STREAM, exists, find
from alphamf.cli import report
from alphamf.cli.course import bar, numbers, table
from alphamf.cli.info import describe
from alphamf.errors import AlphaMFError
from alphamf.tools.files import shown


def train(
    clean: Annotated[
        list[str],
        typer.Argument(
            metavar="CLEAN",
            help="Recordings of clean speech: files, folders, patterns in quotes.",
            show_default=False,
        ),
    ],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="MODEL.npz", help="Where the model goes.")
    ],
    rate: Annotated[
        int, typer.Option(metavar="8000|16000", help="Sampling rate of the model in Hz.")
    ] = 8000,
    rank: Annotated[
        str,
        typer.Option(
            metavar="K[,K...]",
            help="Number of spectra to learn; of several, the one that foretells unheard speech "
            "best is kept.",
        ),
    ] = "60",
    alpha: Annotated[
        str,
        typer.Option(
            metavar="A[,A...]",
            help="Tail index, 0.5 to 2; several as for --rank, though about 1 denoises best, "
            "whatever the score.",
        ),
    ] = "1.0",
    held_out: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Voices that only the score hears (0.1 where there is something to choose).",
            show_default=False,
        ),
    ] = None,
    voices: Annotated[
        str,
        typer.Option(
            metavar="file|folder|prefix",
            help="What tells voices apart: the file, the first folder in which paths differ, or "
            "the file's name up to - or _.",
        ),
    ] = "file",
    seconds: Annotated[
        float, typer.Option(metavar="S", help="The most that is taken of a voice.")
    ] = 5.0,
    stream: Annotated[
        bool | None,
        typer.Option(
            "--stream/--no-stream",
            help="Hear one voice after the other, in constant memory, or hold all speech in "
            "memory (up to 30 minutes of it).",
            show_default=False,
        ),
    ] = None,
    sampler: Annotated[str, typer.Option(metavar="NAME", help="Sampler, or em.")] = "em",
    steps: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Steps of the chain (200; of a stream, 800 and one for each voice).",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="The same seed, the same model.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the model.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")] = False,
) -> None:
    """Learn a speech model from clean recordings.

    Unfinished work lies in MODEL.npz.checkpoint, and the same command goes on with it.
    """
    from alphamf.training.dictionary.selection import select
    from alphamf.training.dictionary.settings import TrainingSettings
    from alphamf.training.dictionary.unfinished import clear

    started = time.perf_counter()
    problems: list[str] = []

    def skipped(sentence: str) -> None:
        problems.append(sentence)
        typer.echo(f"Error: {sentence}", err=True)

    with report.user_errors():
        if STREAM in clean:
            raise AlphaMFError("- is no place for clean speech: name files")
        _check_output(output, overwrite=overwrite)
        ranks = [int(number) for number in numbers("--rank", rank, int)]
        alphas = numbers("--alpha", alpha, float)
        several = len(ranks) * len(alphas) > 1
        folder = f"{output}.checkpoint"
        with bar(shown(output), quiet, several=several) as progress:
            selection = select(
                find(clean),
                TrainingSettings(
                    rate=rate,
                    sampler=sampler,
                    steps=steps,
                    seconds=seconds,
                    voices=voices,
                    stream=stream,
                    seed=seed,
                ),
                ranks=ranks,
                alphas=alphas,
                held_out=held_out,
                folder=folder,
                progress=progress,
                skipped=skipped,
            )
        model = selection.model
        model.save(output)
        clear(folder)
    if not quiet:
        if selection.candidates:
            typer.echo(table(selection))
        by_voice = f" in {model.about['voices']} voices" if "voices" in model.about else ""
        typer.echo(
            f"{shown(output)}: {describe(model)}, from {model.about['files']} files{by_voice} "
            f"({model.about['seconds']:.0f} s of speech) in {time.perf_counter() - started:.1f} s"
        )
    if problems or "unusable" in model.about:
        raise typer.Exit(2)


def _check_output(output: str, *, overwrite: bool) -> None:
    """Refuse, before the work and not after it, an output that cannot be written."""
    if not output.lower().endswith(".npz"):
        raise AlphaMFError(f"-o {shown(output)} must end in .npz")
    folder = os.path.dirname(output) or os.curdir
    if not os.access(folder, os.W_OK):
        raise AlphaMFError(
            f"-o {shown(output)}: the folder does not exist or is not yours to write"
        )
    if exists(output) and not overwrite:
        raise AlphaMFError(f"{shown(output)} exists already: use --overwrite to replace it")
