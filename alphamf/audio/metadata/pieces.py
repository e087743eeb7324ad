"""Insert pieces of one file into another without reading the samples into memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import BinaryIO, NamedTuple

_BLOCK = 1 << 20


class ByteRange(NamedTuple):
    """The bytes from `start` to `end` of an open file."""

    file: BinaryIO
    start: int
    end: int


def length(pieces: Sequence[ByteRange | bytes]) -> int:
    """Return the total length of pieces in bytes."""
    return sum(len(p) if isinstance(p, bytes) else p.end - p.start for p in pieces)


def splice(file: BinaryIO, start: int, end: int, pieces: Sequence[ByteRange | bytes]) -> None:
    """Replace the bytes `start` to `end` of a file by pieces; the rest of the file is moved."""
    size = file.seek(0, os.SEEK_END)
    shift = length(pieces) - (end - start)
    _move(file, end, size, shift)
    if shift < 0:
        file.truncate(size + shift)
    file.seek(start)
    for piece in pieces:
        if isinstance(piece, bytes):
            file.write(piece)
            continue
        piece.file.seek(piece.start)
        left = piece.end - piece.start
        while left and (block := piece.file.read(min(left, _BLOCK))):
            file.write(block)
            left -= len(block)


def _move(file: BinaryIO, start: int, end: int, shift: int) -> None:
    """Move bytes within a file; the order of copying depends on the direction."""
    places = range(start, end, _BLOCK)
    for at in reversed(places) if shift > 0 else places if shift else ():
        file.seek(at)
        block = file.read(min(_BLOCK, end - at))
        file.seek(at + shift)
        file.write(block)
