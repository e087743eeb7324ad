"""Options that several commands share, and checks that typer's types cannot express."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alphamf.audio.decoder import helper
from alphamf.audio.times import parse_range, seconds
from alphamf.batch.inputs import STREAM, Job
from alphamf.batch.outputs import check_template
from alphamf.cli import streams
from alphamf.errors import AlphaMFError

if TYPE_CHECKING:
    from alphamf.batch.part import Part
    from alphamf.denoising.hints import TimeRanges
    from alphamf.denoising.settings import Settings

RUN = "Run"
"""Heading of the options that say how a command runs, in its help."""


class DeviceChoice(StrEnum):
    """Device that the sampler runs on."""

    cpu = "cpu"
    cuda = "cuda"
    auto = "auto"


Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS|local",
        help="Address of a Dask scheduler whose cluster does the work, or local for a "
        "cluster of --jobs workers on this machine. All machines need this version of "
        "alphamf, and must find the files at the same absolute paths.",
        show_default="processes on this machine, without Dask",
        rich_help_panel=RUN,
    ),
]
"""The option ``--cluster``."""

Clean = Annotated[
    list[str],
    typer.Argument(
        metavar="CLEAN",
        help="Recordings of clean speech: files, folders or quoted patterns.",
        show_default=False,
    ),
]
"""The argument ``CLEAN``."""

Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print errors only.", rich_help_panel=RUN)
]
"""The option ``--quiet``."""


def _decode_here(wanted: bool) -> bool:
    """Switch the sandbox off, in this process and in those that it starts."""
    if wanted:
        os.environ[helper.VARIABLE] = "off"
    return wanted


NoSandbox = Annotated[
    bool,
    typer.Option(
        "--no-sandbox",
        help="Decode recordings without a sandbox, for trusted files alone.",
        callback=_decode_here,
        rich_help_panel=RUN,
    ),
]
"""The option ``--no-sandbox``."""


def model_option(panel: str) -> Any:
    """Return the option ``--model``, listed under the help heading `panel`."""
    return typer.Option(
        metavar="NAME|FILE",
        help="Speech model: a shipped one ('alphamf models'), or a file from 'alphamf train'.",
        rich_help_panel=panel,
    )


def seed_option(what: str, panel: str = RUN) -> Any:
    """Return the option ``--seed``; `what` names what the seed determines."""
    return typer.Option(
        metavar="N",
        help=f"Seed of the random numbers; the same seed gives the same {what}.",
        rich_help_panel=panel,
    )


def json_option(what: str) -> Any:
    """Return the option ``--json``; `what` names what one JSON object describes."""
    return typer.Option("--json", help=f"Print one JSON object per {what}.", rich_help_panel=RUN)


def numbers(option: str, text: str, kind: Callable[[str], float]) -> list[float]:
    """Return the distinct numbers of a list such as ``20,40,60``.

    Parameters
    ----------
    option
        Name of the option, for the error message.
    text
        Its value.
    kind
        Makes a number of each part, or raises ValueError.

    Raises
    ------
    AlphaMFError
        It holds something else.
    """
    try:
        return list(dict.fromkeys(kind(part) for part in text.split(",")))
    except ValueError:
        raise AlphaMFError(
            f"{option} must be a number, or several separated by commas, not {text!r}"
        ) from None


def check_least(option: str, value: int | None, least: int) -> None:
    """Raise an AlphaMFError for a number below `least`.

    Parameters
    ----------
    option
        Name of the option, for the error message.
    value
        Its value; None where it was not given.
    least
        The smallest value that is allowed.
    """
    if value is not None and value < least:
        raise AlphaMFError(f"{option} must be at least {least}, not {value}")


def check_streams(jobs: list[Job], *, as_json: bool, cluster: str | None) -> None:
    """Refuse audio on a terminal, audio and JSON on one output, and a cluster with streams.

    Parameters
    ----------
    jobs
        The files to denoise.
    as_json, cluster
        Options of these names.
    """
    if cluster is not None and any(STREAM in (job.source, job.output) for job in jobs):
        raise AlphaMFError("--cluster needs files; it cannot use standard input or output (-)")
    if any(job.source == STREAM for job in jobs):
        streams.check_input()
        if sys.stdin.isatty():
            raise AlphaMFError(
                "- reads audio from standard input, but standard input is a terminal; use a "
                "pipe or a file"
            )
    if any(job.output == STREAM for job in jobs):
        streams.check_output()
        if as_json:
            raise AlphaMFError(
                "--json and audio cannot both be written to standard output; use -o FILE"
            )
        if sys.stdout.isatty():
            raise AlphaMFError("audio cannot be written to a terminal; use -o FILE or a pipe")


def name_template(suffix: str | None, name: str | None, output: str | None) -> str | None:
    """Return the template for output names given by --suffix or --name, if any.

    Raises
    ------
    AlphaMFError
        Both are given, or one of them and -o, or it makes no name.
    """
    given = {"--suffix": suffix, "--name": name}
    options = [option for option, value in given.items() if value is not None]
    if len(options) > 1 or (options and output is not None):
        both = " and ".join(["-o"] * (output is not None) + options)
        raise AlphaMFError(f"{both} all set the output name; give only one of them")
    if suffix is not None:
        name = f"{{stem}}{suffix.replace('{', '{{').replace('}', '}}')}{{ext}}"
    if name is not None:
        check_template(options[0], name)
    return name


def wanted_part(start: str | None, end: str | None) -> Part | None:
    """Return the part of a recording given by --start and --end; None for all of it.

    Raises
    ------
    AlphaMFError
        One of them is no time, or the end is not after the start.
    """
    from alphamf.batch.part import Part

    if start is None and end is None:
        return None
    first = 0.0 if start is None else seconds("--start", start)
    last = None if end is None else seconds("--end", end)
    if last is not None and last <= first:
        raise AlphaMFError(f"--end {end} must be after --start {start or 0}")
    return Part(first, last)


def wanted_stretches(
    noise_from: Sequence[str] | None, speech_from: Sequence[str] | None
) -> tuple[TimeRanges, TimeRanges]:
    """Return the time ranges given by --noise-from and --speech-from, in order.

    Raises
    ------
    AlphaMFError
        One of them is none, is too short, or overlaps another.
    """
    from alphamf.denoising.hints import OPTIONS, check_ranges

    def found(option: str, texts: Sequence[str] | None) -> list[tuple[float, float]]:
        return [parse_range(option, each) for text in texts or () for each in text.split(",")]

    noise, speech = map(found, OPTIONS, (noise_from, speech_from))
    return check_ranges(noise, speech, OPTIONS)


def wanted_loudness(normalize: str | None) -> float | None:
    """Return the loudness given by --normalize, in LUFS; None if the option is not given.

    Raises
    ------
    AlphaMFError
        It is none, or pyloudnorm is not installed.
    """
    if normalize is None:
        return None
    from alphamf.audio.loudness import target

    return target("--normalize", normalize)


def dry_share(strength: float | None) -> float | None:
    """Return the setting `dry` that --strength stands for; None where it is not given.

    Raises
    ------
    AlphaMFError
        It is out of range.
    """
    if strength is None:
        return None
    if not 0 <= strength <= 1:
        raise AlphaMFError(f"--strength must be from 0 to 1, not {strength}")
    return round(1 - strength, 9)


def build_settings(preset: str, overrides: Mapping[str, Any]) -> Settings:
    """Return a preset with some settings replaced; values of None leave the preset's.

    Where the number of steps is changed alone, the number of steps kept changes with it.

    Raises
    ------
    AlphaMFError
        A value is out of range; the sentence speaks of options.
    """
    from alphamf.denoising.settings import PRESETS

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
    """Refuse invalid weights once, before any file is processed.

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
    """Return ``cpu`` or ``cuda``, and print a note if the automatic choice falls back to the CPU.

    Raises
    ------
    AlphaMFError
        CUDA is asked for and not available.
    """
    from alphamf.tools.arrays import module

    found = "cpu" if module(wanted).__name__ == "numpy" else "cuda"
    if wanted == "auto" and found == "cpu" and not quiet:
        typer.echo("Note: no CUDA GPU was found; using the CPU", err=True)
    return found
