"""Ogg files: whether they are whole, and without the random number that their encoder writes."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import BinaryIO

from alphamf.audio.cut import Cut

_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
_HEADER = 27
"""Bytes of a page before its table of lengths."""

_LONGEST = 65307
"""Most bytes of a page."""


def check(file: BinaryIO, size: int, name: str) -> None:
    """Check that the last page is whole.

    Parameters
    ----------
    file
        The open file.
    size
        Its length in bytes.
    name
        Its name in the error message.

    Raises
    ------
    AlphaMFError
        The last page ends early.
    """
    file.seek(max(0, size - _LONGEST))
    tail = file.read()
    page = tail[max(0, tail.rfind(b"OggS")) :]
    table = page[_HEADER : _HEADER + page[26]] if len(page) >= _HEADER else b""
    if not table or len(table) < page[26] or len(page) < _HEADER + len(table) + sum(table):
        raise Cut(f"{name} is cut short: its last Ogg page is not whole")


def sound(file: BinaryIO) -> int:
    """Return where the first page begins that is not of headers, which may hold a picture.

    Parameters
    ----------
    file
        The open file.
    """
    at = 0
    while True:
        file.seek(at)
        head = file.read(_HEADER)
        if len(head) < _HEADER or int.from_bytes(head[6:14], "little") not in (0, 2**64 - 1):
            return at
        at += _HEADER + head[26] + sum(file.read(head[26]))


def clear_serial(path: Path) -> None:
    """Set the serial number, which libsndfile draws at random, to zero in every page.

    Parameters
    ----------
    path
        A file with a single stream.
    """
    with path.open("r+b") as file:
        while len(head := file.read(_HEADER)) == _HEADER:
            table = file.read(head[26])
            body = file.read(sum(table))
            page = head[:14] + bytes(4) + head[18:22] + bytes(4) + head[26:] + table + body
            file.seek(-len(page), 1)
            file.write(page[:22] + checksum(page).to_bytes(4, "little") + page[26:])


def checksum(page: bytes) -> int:
    """Return the checksum of a page, whose own field for it is zero.

    It is zlib's with the bits of every byte and of the result in reverse, and nothing inverted.
    """
    found = zlib.crc32(page.translate(_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{found:032b}"[::-1], 2)
