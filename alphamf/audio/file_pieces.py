"""Parts of a file, presented as one file, with some bytes replaced."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any, BinaryIO, Literal, NamedTuple

from alphamf.audio.layout import Pieces

_CHUNK = 1 << 20


def view(file: BinaryIO, pieces: Pieces) -> BinaryIO:
    """Return pieces of an open file as one file."""
    return io.BufferedReader(_View(file, pieces))


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

    def __init__(
        self, file: BinaryIO, pieces: Pieces, end: Callable[[], None] = lambda: None
    ) -> None:
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
        for piece, end in zip(self._pieces, self._ends, strict=True):
            if at >= end or count <= 0:
                continue
            first = at - end + len(piece)
            part = piece[first : first + count]
            if isinstance(part, range):
                self._file.seek(part.start)
                part = self._file.read(len(part))
            yield part
            if not part:
                return
            at, count = at + len(part), count - len(part)


def find(file: BinaryIO, what: bytes, start: int) -> int:
    """Return the position of the next occurrence of some bytes in a file, or -1."""
    while True:
        file.seek(start)
        data = file.read(_CHUNK + len(what) - 1)
        if (place := data.find(what)) >= 0:
            return start + place
        if len(data) < _CHUNK + len(what) - 1:
            return -1
        start += _CHUNK


def holds_sound(file: BinaryIO, start: int, size: int) -> bool:
    """Return whether the bytes after a recording are neither a tag nor zeros."""
    file.seek(start)
    if is_tag(file.read(8)):
        return False
    file.seek(start)
    while start < size and (data := file.read(min(_CHUNK, size - start))):
        if data != bytes(len(data)):
            return True
        start += len(data)
    return False


def is_tag(head: bytes) -> bool:
    """Return whether 8 bytes are the start of a tag that is written after the sound."""
    return head.startswith((b"TAG", b"APETAGEX", b"LYRICSBE", b"ID3"))


def pack(pieces: Pieces | None) -> list[Any] | None:
    """Return pieces as JSON values: ranges as two numbers, and bytes as hexadecimal digits."""
    if pieces is None:
        return None
    return [[p.start, p.stop] if isinstance(p, range) else p.hex() for p in pieces]


def unpack(packed: list[Any] | None) -> Pieces | None:
    """Return the pieces for JSON values from `pack`."""
    if packed is None:
        return None
    return [range(*p) if isinstance(p, list) else bytes.fromhex(p) for p in packed]
