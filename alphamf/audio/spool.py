"""Copy a pipe to a temporary file, so that its writer never has to wait."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from alphamf.errors import AlphaMFError
from alphamf.tools.files import reason, temporary_place
from alphamf.tools.stopping import finish_requested
from alphamf.tools.stopwatch import Stopwatch

_LAST = 1.0
"""Time that the writing process has after a Ctrl-C that asks to finish, in seconds."""

_WAKE = 0.1
"""Maximum time between this thread's checks whether to finish, in seconds."""


class Spool:
    """The data read from a pipe so far; made by `spool_pipe`."""

    def __init__(self, path: Path, name: str) -> None:
        self.path: Path = path
        self._name = name
        self._changed = threading.Condition()
        self._size = 0
        self._ended = False
        self._error: OSError | None = None
        self._asked: Stopwatch | None = None

    def copy(self, pipe: int) -> None:
        """Read a pipe to its end and close its descriptor; runs in a thread."""
        try:
            with self.path.open("wb", buffering=0) as file:
                while data := os.read(pipe, 1 << 16):
                    left = memoryview(data)
                    while left:
                        left = left[file.write(left) :]
                    with self._changed:
                        self._size += len(data)
                        self._changed.notify()
        except OSError as error:
            self._error = error
        os.close(pipe)
        with self._changed:
            self._ended = True
            self._changed.notify()

    def wait(self, size: float) -> int:
        """Wait for `size` bytes or the end of the pipe; return the number of bytes."""
        with self._changed:
            while self._size < size and not (self._ended or self._given_up()):
                self._changed.wait(_WAKE)
            if self._error is not None:
                raise AlphaMFError(
                    f"{self._name} cannot be copied to {temporary_place()}: {reason(self._error)}"
                ) from self._error
            return self._size

    def _given_up(self) -> bool:
        """Return whether the time that the pipe's writer has after Ctrl-C is over."""
        if not finish_requested():
            return False
        self._asked = self._asked or Stopwatch()
        return self._asked.seconds() > _LAST


@contextmanager
def spool_pipe(stream: BinaryIO, name: str) -> Iterator[Spool]:
    """Start copying a pipe to a temporary file in a thread."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="alphamf-", ignore_cleanup_errors=True)
    except OSError as error:
        raise AlphaMFError(
            f"{name} cannot be copied to {temporary_place()}: {reason(error)}"
        ) from error
    with folder as parent:
        spool = Spool(Path(parent, "audio"), name)
        # A read of a pipe that gives nothing cannot be ended; a daemon ends with the process.
        pipe = os.dup(stream.fileno())
        threading.Thread(target=spool.copy, args=(pipe,), daemon=True).start()
        yield spool
