"""``alphamf train``: a speech model from clean recordings."""

from __future__ import annotations

import os
import time
from typing import Annotated

import typer

from alphamf.cli import report
from alphamf.cli.info import describe
from alphamf.errors import AlphaMFError
from alphamf.files import shown
from alphamf.inputs import STREAM, exists, find


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
    rank: Annotated[int, typer.Option(metavar="K", help="Number of spectra to learn.")] = 60,
    alpha: Annotated[float, typer.Option(metavar="A", help="Tail index, 0.5 to 2.")] = 1.0,
    sampler: Annotated[str, typer.Option(metavar="NAME", help="Sampler, or em.")] = "em",
    steps: Annotated[int, typer.Option(metavar="N", help="Steps of the chain.")] = 200,
    seed: Annotated[int, typer.Option(metavar="N", help="The same seed, the same model.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the model.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")] = False,
) -> None:
    """Learn a speech model from clean recordings."""
    from alphamf import training as learning

    started = time.perf_counter()
    with report.user_errors(), report.progress(quiet, "steps") as update:
        if STREAM in clean:
            raise AlphaMFError("- is no place for clean speech: name files")
        _check_output(output, overwrite=overwrite)

        def progress(step: int) -> None:
            if update is not None:
                update(shown(output), step, steps)

        model = learning.train(
            find(clean),
            rate=rate,
            rank=rank,
            alpha=alpha,
            sampler=sampler,
            steps=steps,
            seed=seed,
            progress=progress,
        )
        model.save(output)
    if not quiet:
        typer.echo(
            f"{shown(output)}: {describe(model)}, from {model.about['files']} files "
            f"({model.about['seconds']:.0f} s of speech) in {time.perf_counter() - started:.1f} s"
        )


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
