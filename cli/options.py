"""Options that several commands share, and checks that typer's types cannot express."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Annotated, Any, Literal, TypeVar

import typer

from alphamf.audio.decoder import sandbox
from alphamf.batch.inputs import STREAM, Job
from alphamf.cli import report
from alphamf.errors import AlphaMFError
from alphamf.tools import pool
from alphamf.tools.outcomes import Outcome

G = TypeVar("G")

Each = Callable[..., Iterator[Outcome]]
"""A function like `alphamf.tools.pool.each`."""

RUN = "Run"
"""Heading, in a command's help, of the options that say how it runs."""


def option(panel: str, text: str, *names: str, **others: Any) -> Any:
    """Return an option, listed under the help heading `panel`."""
    return typer.Option(*names, help=text, rich_help_panel=panel, **others)


Cluster = Annotated[
    str | None,
    option(
        RUN,
        "Address of a Dask scheduler whose cluster does the work, or local for a "
        "cluster of --jobs workers on this machine. All machines need this version of "
        "alphamf, and must find the files at the same absolute paths.",
        metavar="ADDRESS|local",
        show_default="processes on this machine, without Dask",
    ),
]
"""The option ``--cluster`` of commands that process many files."""

Clean = Annotated[
    list[str],
    typer.Argument(
        metavar="CLEAN", help="Recordings of clean speech: files, folders or quoted patterns."
    ),
]
"""The argument ``CLEAN`` of ``alphamf train`` and ``alphamf mix``."""

Quiet = Annotated[bool, option(RUN, "Print no messages except errors.", "--quiet", "-q")]
"""The option ``--quiet``, which most commands have."""


def _decode_here(wanted: bool) -> bool:
    """Switch the sandbox off if `wanted`, in this process and those that it starts."""
    if wanted:
        os.environ[sandbox.VARIABLE] = "off"
    return wanted


NoSandbox = Annotated[
    bool,
    option(
        RUN,
        "Decode recordings without a sandbox; only for files that you trust.",
        "--no-sandbox",
        callback=_decode_here,
    ),
]
"""The option ``--no-sandbox`` of commands that decode recordings."""


def model_option(panel: str) -> Any:
    """Return the option ``--model``, listed under the help heading `panel`."""
    return option(
        panel,
        "Speech model: auto (by rate), speech-8k, speech-16k, or a file of 'alphamf train'.",
        metavar="NAME|FILE",
    )


def seed_option(what: str, panel: str = RUN) -> Any:
    """Return the option ``--seed``; `what` names what the seed determines."""
    return option(
        panel, f"Seed of the random numbers; the same seed gives the same {what}.", metavar="N"
    )


def json_option(what: str) -> Any:
    """Return the option ``--json``; `what` names what one JSON object describes."""
    return option(RUN, f"Print one JSON object per {what}.", "--json")


def check_least(option: str, value: int | None, least: int) -> None:
    """Raise an AlphaMFError if a number is below `least`; None is accepted."""
    if value is not None and value < least:
        raise AlphaMFError(f"{option} must be at least {least}, not {value}")


def check_streams(jobs: Iterable[Job]) -> None:
    """Raise an AlphaMFError if audio would use an unusable standard stream or a terminal."""
    for job in jobs:
        if job.source == STREAM:
            report.check_input()
            if sys.stdin.isatty():
                raise AlphaMFError(
                    "- reads audio from standard input, but standard input is a terminal; use a "
                    "pipe or a file"
                )
        if job.output == STREAM:
            report.check_output()
            if sys.stdout.isatty():
                raise AlphaMFError("audio cannot be written to a terminal; use -o FILE or a pipe")


def choose_device(wanted: str, *, quiet: bool) -> Literal["cpu", "cuda"]:
    """Return ``cpu`` or ``cuda``; print a note, unless `quiet`, if ``auto`` means the CPU."""
    from alphamf.tools.arrays import module

    found: Literal["cpu", "cuda"] = "cpu" if module(wanted).__name__ == "numpy" else "cuda"
    if wanted == "auto" and found == "cpu" and not quiet:
        typer.echo("Note: no CUDA GPU was found; using the CPU", err=True)
    return found


def choose_each(cluster: str | None, *, quiet: bool, isolated: bool = False) -> Each:
    """Return `alphamf.tools.pool.each`, or its equivalent for a Dask cluster."""
    note = None if quiet else report.note
    if cluster is None:
        return partial(pool.each, report=note, isolated=isolated)
    from alphamf.tools import cluster as dask

    return partial(dask.each, address=cluster, report=note)
