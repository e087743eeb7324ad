"""``alphamf denoise --latency low``: check its options, and denoise pipes in real time."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from alphamf.batch.inputs import STREAM, Job
from alphamf.cli import report
from alphamf.errors import AlphaMFError
from alphamf.tools.files import reason

if TYPE_CHECKING:
    from alphamf.batch.request import Request


NOT_LOW = ("sampler", "steps", "keep", "chains", "alpha_speech", "alpha_noise", "noise_rank")
"""Settings that cannot be used at low latency."""


def check(
    jobs: Sequence[Job],
    other: Mapping[str, Any],
    whole: Mapping[str, Any],
    *,
    low: bool,
    raw: str | None,
) -> bool:
    """Return whether to denoise a pipe in real time; refuse options that cannot be combined.

    Parameters
    ----------
    jobs
        The inputs and outputs.
    other, whole
        Options that are not for low latency, and that are for whole recordings; None, False, "auto"
        and "none" where they are not given.
    low
        Whether low latency is asked for.
    raw
        What bare samples are, or None.

    Raises
    ------
    AlphaMFError
        An option is given that does not go with low latency, or --raw without a pipe to flow
        through.
    """
    flows = low and any(job.source == job.output == STREAM for job in jobs)
    if raw is not None and not flows:
        raise AlphaMFError("--raw needs a pipe at low latency: denoise - -o - --latency low")
    for option, value in {**(other if low else {}), **(whole if flows else {})}.items():
        if value not in (None, False, "auto", "none"):
            raise AlphaMFError(f"{option} cannot be combined with --latency low")
    return flows


def low_latency_request(request: Request) -> Request:
    """Return a copy of the request with the settings for low latency."""
    return replace(
        request,
        settings=replace(
            request.settings, refine=request.settings.refine and request.refiner == "auto"
        ),
        refiner="none",
        second_stage="none",
        causal="auto",
        latency="low",
    )


def run(request: Request, raw: str | None, *, quiet: bool) -> None:
    """Denoise standard input to standard output in real time."""
    from alphamf.audio.flow import raw_kind
    from alphamf.batch import pipes

    def write(data: bytes) -> None:
        try:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except BrokenPipeError as error:
            raise typer.Exit(1) from error
        except OSError as error:
            raise AlphaMFError(f"cannot write standard output: {reason(error)}") from error

    with report.user_errors():
        try:
            seconds, notes = pipes.run(
                sys.stdin.fileno(),
                write,
                request.settings,
                raw=raw_kind(raw) if raw is not None else None,
                model=request.model,
                seed=request.seed,
                max_channels=request.max_channels,
            )
        except OSError as error:
            raise AlphaMFError(f"cannot read standard input: {reason(error)}") from error
    if not quiet:
        lines = [f"-: {seconds:.1f} s denoised in real time", *notes]
        typer.echo("\n  ".join(lines), err=True)
