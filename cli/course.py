"""What ``alphamf train`` shows: a bar with the objective, and the table of what was tried."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from alphamf.errors import AlphaMFError

if TYPE_CHECKING:
    from alphamf.training.dictionary.progress import Progress
    from alphamf.training.dictionary.selection import Selection


def numbers(option: str, text: str, kind: Callable[[str], float]) -> list[float]:
    """Return the numbers of a list such as ``20,40,60``, each once.

    Raises
    ------
    AlphaMFError
        It holds something else.
    """
    try:
        return list(dict.fromkeys(kind(part) for part in text.split(",")))
    except ValueError:
        raise AlphaMFError(
            f"{option} takes a number, or several with commas between, not {text!r}"
        ) from None


@contextmanager
def bar(name: str, quiet: bool, *, several: bool) -> Iterator[Callable[[Progress], None] | None]:
    """Show steps and objective on standard error, in a terminal only.

    Yields
    ------
    callable or None
        Takes what `alphamf.training.dictionary.fit` reports; None where nothing is shown.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Display

    display = Display(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:.0f} of {task.total:.0f} steps"),
        TextColumn("objective {task.fields[objective]:.3f}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    tasks: dict[str, TaskID] = {}

    def update(progress: Progress) -> None:
        label = f"{name}, rank {progress.rank}, alpha {progress.alpha:g}" if several else name
        if label not in tasks:
            for old in tasks.values():
                display.update(old, visible=False)
            tasks[label] = display.add_task(label, total=progress.steps, objective=0.0)
        display.update(tasks[label], completed=progress.step, objective=progress.objective)

    with display:
        yield update


def table(selection: Selection) -> str:
    """Return the scores of what was tried, the best marked; differences are of the same voices."""
    from alphamf.tools.tables import mean_and_error

    best = selection.best
    lines = ["  rank  alpha   log density of a hidden cell   less than the best"]
    for candidate in selection.candidates:
        mean, error = mean_and_error(candidate.scores)
        line = f"{candidate.rank:6}  {candidate.alpha:5g}   {mean:12.4f} ± {error:.4f}"
        if candidate is best:
            line = f"*{line[1:]}"
        else:
            less, error = mean_and_error(best.scores - candidate.scores)
            line = f"{line:48}{less:.4f} ± {error:.4f}"
        lines.append(line)
    return "\n".join(lines)
