"""What the user reads: results, errors and progress, in one place."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer

from alphamf.audio.inputs import STREAM
from alphamf.errors import AlphaMFError
from alphamf.tools.files import shown
from alphamf.tools.work import Update


@contextmanager
def user_errors(*, as_json: bool = False) -> Iterator[None]:
    """Turn an AlphaMFError into its sentence, on standard error, and exit code 2."""
    try:
        yield
    except AlphaMFError as error:
        if as_json:
            json_line({"error": str(error)})
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from error


def error(source: str, sentence: str, *, as_json: bool = False) -> None:
    """Say on standard error what is wrong with a file, in a sentence that names it."""
    name = shown(source)
    if name not in sentence and source != STREAM:
        sentence = f"{name}: {sentence}"
    if as_json:
        json_line({"file": source, "error": sentence})
    typer.echo(f"Error: {sentence}", err=True)


def json_line(item: Mapping[str, Any]) -> None:
    """Print one JSON object on a line of standard output."""
    typer.echo(json.dumps(_finite(item), allow_nan=False))


def _finite(value: Any) -> Any:
    """Replace infinities and NaN, which JSON does not have, by null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


@contextmanager
def progress(quiet: bool, unit: str = "s") -> Iterator[Update | None]:
    """Show a bar for each thing under way on standard error, in a terminal only.

    Yields
    ------
    callable or None
        Takes name, done and total, in `unit`; None where nothing is shown.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn(f"{{task.completed:.0f}} of {{task.total:.0f}} {unit}"),
        TimeRemainingColumn(),
    )
    # rich would send what is printed on standard output to its own console, standard error.
    bars = Progress(
        *columns,
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=sys.stdout.isatty(),
    )
    tasks: dict[str, TaskID] = {}
    ended: set[str] = set()

    def update(name: str, done: float, total: float) -> None:
        # The last messages of a worker may come after the news that it failed.
        if name in ended:
            return
        if name not in tasks:
            tasks[name] = bars.add_task(name, total=total)
        if done >= total:
            ended.add(name)
            bars.remove_task(tasks.pop(name))
        else:
            bars.update(tasks[name], completed=done)

    with bars:
        yield update
