"""Standard streams, each of which may be closed or fail when it is written to."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper, UnsupportedOperation
from typing import BinaryIO

from alphamf.errors import AlphaMFError
from alphamf.tools.files import reason


class TolerantStream(TextIOWrapper):
    """A standard stream for text that drops what cannot be written and keeps the first error."""

    lost: str | None = None  # Why text was dropped; None while all of it went out.

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
        if error.errno != errno.EPIPE:  # a reader that has left wants no more, but the files
            self.lost = self.lost or reason(error)
        # What is still held back would be tried again at the end of the process.
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
    """Raise an AlphaMFError if audio is to be read from a closed standard input."""
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
