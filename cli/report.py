"""Output for the user: results, errors and progress."""

import errno
import math
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import TextIOWrapper, UnsupportedOperation
from typing import Any, BinaryIO

import typer

from alphamf.batch.inputs import STREAM
from alphamf.errors import AlphaMFError
from alphamf.tools.files import printable, printable_name, reason
from alphamf.tools.jsonlines import dumps
from alphamf.tools.outcomes import Update


class TolerantStream(TextIOWrapper):
    """A standard stream for text that drops what cannot be written and keeps the first error."""

    lost: str | None = None  # Why text was dropped; None if none was, or after a closed pipe

    def __init__(self, buffer: BinaryIO, encoding: str = "utf-8") -> None:
        super().__init__(buffer, encoding, "backslashreplace", line_buffering=True)

    def write(self, text: str) -> int:
        """Write text, or drop it if the stream fails."""
        try:
            super().write(text)
            super().flush()
        except OSError as error:
            self._drop(error)
        return len(text)

    def flush(self) -> None:
        """Flush the buffer, or drop its content if the stream fails."""
        try:
            super().flush()
        except OSError as error:
            self._drop(error)

    def _drop(self, error: OSError) -> None:
        if error.errno != errno.EPIPE:  # if the reader has left, only the text is unwanted
            self.lost = self.lost or reason(error)
        # Otherwise buffered text would be written again at the end of the process.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)


def prepare() -> TolerantStream:
    """Open the standard streams that are closed, and return standard output.

    Otherwise a file that is opened later would take the descriptor of a closed stream, and receive
    the output. Closed streams are replaced by descriptors that refuse: standard input cannot be
    read, and the others cannot be written. `sys.stdin` stays None.
    """
    for number, refusing in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_RDONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, refusing), True)
    output = _printed(sys.stdout, 1)
    sys.stdout, sys.stderr = output, _printed(sys.stderr, 2)
    return output


def _printed(stream: object, number: int) -> TolerantStream:
    if isinstance(stream, TextIOWrapper):
        return TolerantStream(stream.buffer, stream.encoding)
    return TolerantStream(open(number, "wb", closefd=False))


@contextmanager
def suppress_stderr() -> Iterator[None]:
    """Suppress what system libraries print on standard error."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def check_input() -> None:
    """Raise an AlphaMFError if standard input, from which audio is read, is closed."""
    if sys.stdin is None:
        raise AlphaMFError("- reads audio from standard input, but standard input is closed")


def check_output() -> None:
    """Raise an AlphaMFError if audio cannot be written to standard output."""
    try:
        os.write(sys.stdout.fileno(), b"")
    except UnsupportedOperation:  # what stands for it in this process has no descriptor
        return
    except OSError as error:
        why = "is closed" if error.errno == errno.EBADF else f"fails: {reason(error)}"
        raise AlphaMFError(f"audio cannot go to standard output, which {why}") from error


_ARGUMENT = re.compile(r"(?<![\w`])`([a-z][a-z0-9_]*)`(?![\w`])")

_shown: list[Any] = []
"""Consoles of the progress bars that are shown now."""

_SHORT = {"output": "-o"}
"""Options that messages call by their short name."""


def with_options(sentence: str) -> str:
    """Return a sentence of the library with its arguments in backquotes replaced by options.

    Examples
    --------
    >>> with_options("raise `max_channels`, or use `output` FILE")
    'raise --max-channels, or use -o FILE'
    """
    return _ARGUMENT.sub(
        lambda found: _SHORT.get(found[1], f"--{found[1].replace('_', '-')}"), sentence
    )


def say(text: str, *, err: bool = False) -> None:
    """Print a line on standard output, or on standard error if `err`; above any progress bar."""
    if _shown and (err or sys.stdout.isatty()):
        from rich.text import Text

        _shown[-1].print(Text(text), soft_wrap=True)
    else:
        typer.echo(text, err=err)


@contextmanager
def user_errors(*, as_json: bool = False) -> Iterator[None]:
    """Print an AlphaMFError or MemoryError on stderr (`as_json`: also stdout); exit with code 2."""
    try:
        yield
    except (AlphaMFError, MemoryError) as error:
        known = isinstance(error, AlphaMFError)
        sentence = with_options(str(error)) if known else "there is not enough memory"
        if as_json:
            json_line({"error": sentence})
        typer.echo(f"Error: {printable(sentence)}", err=True)
        raise typer.Exit(2) from error


def error(source: str, sentence: str, *, as_json: bool = False) -> None:
    """Print an error that names the file on standard error; `as_json`: also on standard output."""
    name, sentence = printable_name(source), with_options(sentence)
    if name not in sentence and source != STREAM:
        sentence = f"{name}: {sentence}"
    if as_json:
        json_line({"file": source, "error": sentence})
    say(f"Error: {printable(sentence)}", err=True)


def note(sentence: str) -> None:
    """Print a note of the library on standard error."""
    say(with_options(sentence), err=True)


def json_line(item: Mapping[str, Any]) -> None:
    """Print one JSON object as a line on standard output."""
    say(dumps(item))


def table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, hidden: Sequence[str] = ()
) -> None:
    """Print a table on standard output: as Markdown, or in a narrower form in a terminal."""
    if not sys.stdout.isatty():
        from alphamf.tools.tables import markdown

        typer.echo(markdown(headings, rows))
        return
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    columns = [k for k, heading in enumerate(headings) if heading not in hidden]
    grid = Table(box=SIMPLE, padding=0)
    for k in columns:
        grid.add_column(headings[k], justify="right" if k else "left", no_wrap=not k)
    for row in rows:
        grid.add_row(*(Text(row[k].partition(" ±")[0]) for k in columns))
    Console().print(grid)


@contextmanager
def _on_the_terminal(bars: Any) -> Iterator[None]:
    """Show progress bars in this block; `say` prints above them."""
    with bars:
        _shown.append(bars.console)
        try:
            yield
        finally:
            _shown.pop()


@contextmanager
def progress(quiet: bool, unit: str = "s", items: int = 1) -> Iterator[Update | None]:
    """Yield a callback that shows a bar per item, in `unit`; None if `quiet` or no terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[count]}"),
        TimeRemainingColumn(),
    )
    bars = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
    tasks: dict[str, TaskID] = {}
    parts: dict[str, float] = {}
    ended: set[str] = set()
    everything = bars.add_task("all", total=items, count="") if items > 1 else None

    def show_all() -> None:
        if everything is not None:
            count = f"{len(ended)} of {items} files"
            bars.update(everything, completed=len(ended) + sum(parts.values()), count=count)

    def update(name: str, done: float, total: float) -> None:
        # The last messages of a worker may come after its failure.
        if name in ended:
            return
        known = math.isfinite(total)
        if name not in tasks:
            tasks[name] = bars.add_task(name, total=total if known else None, count="")
        if done >= total:
            ended.add(name)
            parts.pop(name, None)
            bars.remove_task(tasks.pop(name))
        else:
            parts[name] = done / total if known else 0.0
            count = f"{done:.0f}{f' of {total:.0f}' if known else ''} {unit}"
            bars.update(tasks[name], completed=done, count=count)
        show_all()

    show_all()
    with _on_the_terminal(bars):
        yield update


@contextmanager
def continued_later(
    *, quiet: bool, sentence: str = "The same command continues."
) -> Iterator[None]:
    """On Ctrl-C in this block, print `sentence` unless `quiet`, and raise the interrupt again."""
    try:
        yield
    except KeyboardInterrupt:
        if not quiet:
            typer.echo(f"Stopped. {sentence}", err=True)
        raise
