"""An open file, for a process that can no longer open files."""

from __future__ import annotations

import io
import os
import sys
from typing import Any, BinaryIO, Literal


class Handle:
    """An open file that can be opened again, each time at its start, without its name."""

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor, self._name = descriptor, name

    def open(self, mode: Literal["rb"], /) -> BinaryIO:
        """Return a file at its start."""
        return io.BufferedReader(_Raw(self._descriptor, self._name))


class _Raw(io.RawIOBase):
    """A file with a position of its own."""

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor, self._at = descriptor, 0
        self.name = name

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        if sys.platform == "win32":
            raise OSError
        count = os.preadv(self._descriptor, [buffer], self._at)
        self._at += count
        return count

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        start = self._size() if whence == os.SEEK_END else self._at if whence else 0
        if start + offset < 0:
            raise ValueError(f"negative position {start + offset}")
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def _size(self) -> int:
        """Return the file's size without `os.fstat`, which would give access to other files."""
        place = os.lseek(self._descriptor, 0, os.SEEK_CUR)
        size = os.lseek(self._descriptor, 0, os.SEEK_END)
        os.lseek(self._descriptor, place, os.SEEK_SET)
        return size
