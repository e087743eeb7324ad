"""``alphamf denoise --latency low``: what goes with it, and pipes that are done as they flow."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from alphamf.audio.inputs import STREAM, Job
from alphamf.cli import report
from alphamf.errors import AlphaMFError
from alphamf.tools.files import reason

if TYPE_CHECKING:
    from alphamf.denoising.request import Request


NOT_LOW = ("sampler", "steps", "keep", "chains", "alpha_speech", "alpha_noise", "noise_rank")
"""Settings that low latency does not have."""


def check(
    jobs: Sequence[Job],
    other: Mapping[str, Any],
    whole: Mapping[str, Any],
    *,
    low: bool,
    raw: str | None,
) -> bool:
    """Return whether a pipe flows through, and refuse what does not go together.

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
        raise AlphaMFError("--raw is for a pipe at low latency: denoise - -o - --latency low")
    for option, value in {**(other if low else {}), **(whole if flows else {})}.items():
        if value not in (None, False, "auto", "none"):
            raise AlphaMFError(f"{option} does not go with --latency low")
    return flows


def lowered(request: Request) -> Request:
    """Return the same request at low latency."""
    from alphamf.denoising.flow import estimate

    return replace(
        request,
        settings=replace(
            request.settings, refine=request.settings.refine and request.refiner == "auto"
        ),
        refiner="none",
        second_stage="none",
        causal="auto",
        estimate=estimate,
    )


def run(request: Request, raw: str | None, *, quiet: bool) -> None:
    """Denoise standard input to standard output while it comes in."""
    from alphamf.audio.flow import raw_kind
    from alphamf.denoising import flow

    def write(data: bytes) -> None:
        try:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except BrokenPipeError as error:
            raise typer.Exit(1) from error
        except OSError as error:
            raise AlphaMFError(f"standard output cannot be written: {reason(error)}") from error

    with report.user_errors():
        try:
            seconds, notes = flow.run(
                sys.stdin.fileno(),
                write,
                request.settings,
                raw=raw_kind(raw) if raw is not None else None,
                model=request.model,
                seed=request.seed,
                max_channels=request.max_channels,
            )
        except OSError as error:
            raise AlphaMFError(f"standard input cannot be read: {reason(error)}") from error
    if not quiet:
        typer.echo("\n  ".join([f"-: {seconds:.1f} s denoised as they came", *notes]), err=True)
