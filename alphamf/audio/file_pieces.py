"""Bytes of a file by position, and parts of a file as one file with some bytes replaced."""

from __future__ import annotations

import io
import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any, BinaryIO, Literal, NamedTuple, Self

from alphamf.audio.layout import Pieces

_BLOCK = 1 << 16
_KEPT = 4
"""Blocks in memory; a scan looks at the next frame before it moves on."""


class Scan:
    """The bytes of a file from a position on, each of which a forward scan reads about once."""

    def __init__(self, file: BinaryIO, name: str = "", size: int | None = None) -> None:
        self.name, self._start, self._file = name, 0, file
        self.size: int = file.seek(0, os.SEEK_END) if size is None else size
        self._blocks: dict[int, bytes] = {}

    def rest(self, at: int) -> Self:
        """Return the bytes from a position on."""
        new = type(self)(self._file, self.name, self.size - at)
        new._start, new._blocks = self._start + at, self._blocks
        return new

    def get(self, at: int, count: int) -> bytes:
        """Return bytes at a position; fewer at the end."""
        count = min(count, self.size - at)
        if count <= 0:
            return b""
        k, first = divmod(self._start + at, _BLOCK)
        data = self._block(k)[first : first + count]
        while len(data) < count and (more := self._block(k := k + 1)):
            data += more[: count - len(data)]
        return data

    def find(self, what: re.Pattern[bytes], width: int, at: int) -> int:
        """Return the next position of a pattern of so many bytes, or -1."""
        while at + width <= self.size:
            k, first = divmod(self._start + at, _BLOCK)
            found = what.search(self._block(k), first)
            edge = (k + 1) * _BLOCK - self._start
            if not found:  # or it lies across the end of the block
                before = max(at, edge - width + 1)
                found = what.search(self.get(before, 2 * width - 2))
                at = before if found else edge
            else:
                at = k * _BLOCK - self._start
            if found:
                at += found.start()
                return at if at + width <= self.size else -1
        return -1

    def _block(self, k: int) -> bytes:
        data = self._blocks.get(k)
        if data is None:
            self._file.seek(k * _BLOCK)
            data = self._file.read(_BLOCK)
            while len(self._blocks) >= _KEPT:
                del self._blocks[next(iter(self._blocks))]
            self._blocks[k] = data
        return data

    def holds_sound(self, at: int) -> bool:
        """Return whether the bytes after a recording are neither a tag nor zeros."""
        if is_tag(self.get(at, 8)):
            return False
        return self.find(_NOT_ZERO, 1, at) >= 0


_NOT_ZERO = re.compile(rb"[^\0]")


def is_tag(head: bytes) -> bool:
    """Return whether 8 bytes are the start of a tag that is written after the sound."""
    return head.startswith((b"TAG", b"APETAGEX", b"LYRICSBE", b"ID3"))


class PiecedFile(NamedTuple):
    """Pieces of a file as one file, which can be opened more than once."""

    source: Any  # The file: a path, or anything else that opens like one
    pieces: Pieces  # Pieces to read

    def open(self, mode: Literal["rb"] = "rb", /) -> BinaryIO:
        """Open the pieces as one file; closing it also closes the underlying file."""
        file = self.source.open(mode)
        return io.BufferedReader(_View(file, self.pieces, file.close))


class _View(io.RawIOBase):
    """A readable file made of pieces of another."""

    def __init__(self, file: BinaryIO, pieces: Pieces, end: Callable[[], None]) -> None:
        self._file, self._end = file, end
        self._pieces = [piece for piece in pieces if len(piece)]
        self._ends = list(accumulate(map(len, self._pieces)))
        self.size: int = self._ends[-1] if self._ends else 0
        self._at = 0

    def close(self) -> None:
        """Close it."""
        super().close()
        self._end()

    def readable(self) -> bool:
        """Whether it can be read: always."""
        return True

    def seekable(self) -> bool:
        """Whether it has positions: always."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a position, and return it."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer from the position on, and return how many bytes there were."""
        target = memoryview(buffer).cast("B")
        count = 0
        for data in self._from(self._at, len(target)):
            target[count : count + len(data)] = data
            count += len(data)
        self._at += count
        return count

    def _from(self, at: int, count: int) -> Iterator[bytes]:
        k = bisect_right(self._ends, at)
        while k < len(self._pieces) and count > 0:
            piece = self._pieces[k]
            first = at - self._ends[k] + len(piece)
            part = piece[first : first + count]
            if isinstance(part, range):
                self._file.seek(part.start)
                part = self._file.read(len(part))
            yield part
            if not part:
                return
            at, count = at + len(part), count - len(part)
            k += at >= self._ends[k]
