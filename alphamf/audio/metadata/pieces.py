"""Pieces of files, put into other files without their sound going through memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import BinaryIO, NamedTuple

_BLOCK = 1 << 20


class Piece(NamedTuple):
    """Bytes `start` to `end` of an open file."""

    file: BinaryIO
    start: int
    end: int


def length(pieces: Sequence[Piece | bytes]) -> int:
    """Return how many bytes pieces are together."""
    return sum(len(p) if isinstance(p, bytes) else p.end - p.start for p in pieces)


def splice(file: BinaryIO, start: int, end: int, pieces: Sequence[Piece | bytes]) -> None:
    """Put pieces in the place of bytes `start` to `end` of a file; what follows moves.

    Parameters
    ----------
    file
        Open for reading and writing.
    start, end
        Where the pieces go; equal to insert.
    pieces
        Bytes, and parts of other files.
    """
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
    """Move bytes within a file: from the end where they go up, from the start where down."""
    places = range(start, end, _BLOCK)
    for at in reversed(places) if shift > 0 else places if shift else ():
        file.seek(at)
        block = file.read(min(_BLOCK, end - at))
        file.seek(at + shift)
        file.write(block)
