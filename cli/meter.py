"""Level meters of a live session: bars in a terminal, otherwise a line from time to time."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from alphamf.live.duplex import LostSound
    from alphamf.live.monitor import Monitor

EVERY = 5.0
"""Seconds between two lines."""

LOWEST = -70.0
"""Level in dB at which a bar is empty."""

KEYS = "+ and - strength   b bypass   q quit"


def lost_words(lost: LostSound) -> str:
    """Describe in words how much sound has been lost so far."""
    return (
        f"xruns {lost.overflows} in, {lost.underflows} out; "
        f"late {lost.gaps} gaps, {lost.dropped} dropped"
    )


def strength_words(monitor: Monitor) -> str:
    """Describe in words how strongly the sound is denoised."""
    return "bypass" if monitor.bypass else f"strength {monitor.strength:.1f}"


def line(monitor: Monitor, lost: LostSound) -> str:
    """Format the state of a live session as one line."""
    levels = monitor.levels
    return (
        f"{monitor.seconds:.0f} s: input {levels.input:.1f} dB, output {levels.output:.1f} dB, "
        f"noise {levels.noise:.1f} dB, reduction {levels.reduction:.1f} dB, "
        f"{strength_words(monitor)}, {lost_words(lost)}"
        f"{f'; {monitor.note}' if monitor.note else ''}"
    )


def panel(monitor: Monitor, lost: LostSound, *, keys: bool) -> Any:
    """Format the state of a live session as bars, for rich."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    levels = monitor.levels
    grid = Table.grid(padding=(0, 1))
    rows = [(name, value, value - LOWEST) for name, value in levels._asdict().items()]
    rows.append(("reduction", levels.reduction, levels.reduction))
    for name, value, filled in rows:
        total = -LOWEST if name != "reduction" else 40.0
        bar = ProgressBar(total, min(max(filled, 0.0), total), width=40, finished_style="red")
        grid.add_row(name, bar, f"{value:6.1f} dB")
    seconds = int(monitor.seconds)
    clock = f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    lines = [Text(f"{clock}   {strength_words(monitor)}   {lost_words(lost)}")]
    lines += [Text(monitor.note)] if monitor.note else []
    return Group(grid, *lines, *([Text(KEYS, style="dim")] if keys else []))


@contextmanager
def live_display(
    monitor: Monitor, lost: LostSound, *, quiet: bool, keys: bool
) -> Iterator[Callable[[], None]]:
    """Yield a function that shows the current state on standard output, for frequent calls."""
    if quiet:
        yield lambda: None
    elif sys.stdout.isatty():
        from rich.live import Live

        with Live(panel(monitor, lost, keys=keys), auto_refresh=False, transient=True) as live:
            yield lambda: live.update(panel(monitor, lost, keys=keys), refresh=True)
    else:
        last = [time.monotonic()]

        def now() -> None:
            if time.monotonic() - last[0] >= EVERY:
                last[0] = time.monotonic()
                typer.echo(line(monitor, lost))

        yield now
