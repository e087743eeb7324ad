"""Options of ``alphamf denoise`` that need more than their type checked."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alphamf.audio.inputs import STREAM, Job, Plan, exists
from alphamf.errors import AlphaMFError
from alphamf.tools.files import shown

if TYPE_CHECKING:
    from alphamf.denoising.api import Settings

Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS|local",
        help="Scheduler of a Dask cluster that does the work, or local for a cluster of --jobs "
        "workers here. All its machines must have this version of alphamf and see the same files "
        "under the same absolute paths.",
        show_default="processes of this machine, without Dask",
        rich_help_panel="Run",
    ),
]
"""The option ``--cluster``."""

_ENDINGS = {"--plot": ".png", "--uncertainty": ".npz"}


def check_least(option: str, value: int | None, least: int) -> None:
    """Refuse a number below `least`."""
    if value is not None and value < least:
        raise AlphaMFError(f"{option} must be at least {least}, not {value}")


def check_extra(outputs: Mapping[str, str | None], files: Plan, *, overwrite: bool) -> None:
    """Refuse further outputs of several files, and such as would replace something.

    Parameters
    ----------
    outputs
        Option to file, or to None where it was not given.
    files, overwrite
        The files to denoise, and whether outputs may be replaced.

    Raises
    ------
    AlphaMFError
        One sentence that names the option.
    """
    taken = {os.path.realpath(path) for job in files.jobs for path in (job.source, job.output)}
    for option, path in outputs.items():
        if path is None:
            continue
        if len(files.jobs) + len(files.problems) > 1:
            raise AlphaMFError(f"{option} {shown(path)} is for one input, and there are several")
        if path == STREAM or os.path.isdir(path):
            raise AlphaMFError(f"{option} {shown(path)} must name a file")
        if not path.lower().endswith(_ENDINGS.get(option, "")):
            raise AlphaMFError(f"{option} {shown(path)} must end in {_ENDINGS[option]}")
        if os.path.realpath(path) in taken:
            raise AlphaMFError(f"{option} {shown(path)} is also the input or another output")
        if exists(path) and not overwrite:
            raise AlphaMFError(f"{shown(path)} exists already: use --overwrite to replace it")
        taken.add(os.path.realpath(path))


def check_streams(jobs: list[Job], *, as_json: bool, cluster: str | None) -> None:
    """Refuse a terminal as a source or sink of audio, audio among JSON, and both on a cluster."""
    if cluster is not None and any(STREAM in (job.source, job.output) for job in jobs):
        raise AlphaMFError("--cluster takes files, not - for standard input or output")
    if any(job.source == STREAM for job in jobs) and sys.stdin.isatty():
        raise AlphaMFError("- reads audio from standard input, which is a terminal here")
    if any(job.output == STREAM for job in jobs):
        if as_json:
            raise AlphaMFError("--json and audio cannot both go to standard output: use -o FILE")
        if sys.stdout.isatty():
            raise AlphaMFError("audio is not written to a terminal: use -o FILE or a pipe")


def build_settings(preset: str, overrides: Mapping[str, Any]) -> Settings:
    """Return a preset with some settings changed; None changes nothing.

    Where the number of steps is changed alone, the number of steps kept changes with it.

    Raises
    ------
    AlphaMFError
        A value is out of range; the sentence speaks of options.
    """
    from alphamf.denoising.api import PRESETS

    base = PRESETS[preset]
    changes = {name: value for name, value in overrides.items() if value is not None}
    if "steps" in changes and "keep" not in changes:
        changes["keep"] = max(1, base.keep * changes["steps"] // base.steps)
    try:
        return replace(base, **changes)
    except AlphaMFError as error:
        sentence = str(error)
        for name in changes:
            sentence = sentence.replace(name, f"--{name.replace('_', '-')}", 1)
        raise AlphaMFError(sentence) from error


def check_weights(model: str, *, refiner: str, second_stage: str) -> None:
    """Refuse weights once, rather than for every file.

    Parameters
    ----------
    model, refiner, second_stage
        As for `alphamf.denoising.weights.find`; where the model is ``auto``, what fits depends on
        each file's rate, and only that the networks can be read is checked here.

    Raises
    ------
    AlphaMFError
        There is no such file, it holds something else, or the parts do not fit each other.
    """
    from alphamf.denoising.weights import find, network
    from alphamf.learnt.refiner import Refiner
    from alphamf.learnt.second_stage import SecondStage

    if model != "auto":
        find(0, model, refiner=refiner, second_stage=second_stage)
        return
    network(Refiner, refiner, 0)
    network(SecondStage, second_stage, 0)


def choose_device(wanted: str, *, quiet: bool) -> str:
    """Return ``cpu`` or ``cuda``, and say where automatic choice falls back to the CPU.

    Raises
    ------
    AlphaMFError
        CUDA is asked for and cannot be had.
    """
    from alphamf.tools.arrays import module

    found = "cpu" if module(wanted).__name__ == "numpy" else "cuda"
    if wanted == "auto" and found == "cpu" and not quiet:
        typer.echo("Note: no CUDA device answers, so the CPU does the work", err=True)
    return found
