"""A file that libsndfile writes to; it keeps system errors that libsndfile would ignore."""

from __future__ import annotations

import io
import os
from typing import Any

from alphamf.errors import AlphaMFError
from alphamf.tools.files import reason


class Sink(io.FileIO):
    """A binary file for writing that keeps the first error instead of raising it.

    libsndfile and its encoders ignore failed writes and seeks. After an error nothing more is
    written; `check` raises it.
    """

    def __init__(self, path: str | os.PathLike[str] | int, name: str, *, new: bool = False) -> None:
        self._called = name
        self._error: OSError | None = None
        file = path if isinstance(path, int) else os.fspath(path)
        super().__init__(file, "x+" if new else "w+")

    def write(self, data: Any) -> int:
        """Write all of `data`, and return its length."""
        left = memoryview(data)
        try:
            while len(left) and self._error is None:
                left = left[super().write(left) :]
        except OSError as error:
            self._error = error
        return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move to a position, and return it."""
        try:
            return super().seek(offset, whence)
        except OSError as error:
            self._error = self._error or error
            return 0

    def tell(self) -> int:
        """Return the position."""
        return self.seek(0, os.SEEK_CUR)

    def check(self) -> None:
        """Raise the first error, if there was one."""
        if self._error is not None:
            what = f"{self._called} cannot be written: {reason(self._error)}"
            raise AlphaMFError(what) from self._error
