"""``alphamf denoise --latency low``: pipes in real time."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from alphamf.cli import report
from alphamf.errors import AlphaMFError
from alphamf.tools.files import reason

if TYPE_CHECKING:
    from alphamf.denoising.stream_options import StreamOptions


def run(options: StreamOptions, raw: str | None, *, quiet: bool) -> None:
    """Denoise standard input to standard output in real time."""
    from alphamf.audio.pipe_stream import raw_kind
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
                options,
                raw_kind(raw) if raw is not None else None,
            )
        except OSError as error:
            raise AlphaMFError(f"cannot read standard input: {reason(error)}") from error
    if not quiet:
        lines = [f"-: {seconds:.1f} s denoised in real time", *notes]
        typer.echo("\n  ".join(lines), err=True)
