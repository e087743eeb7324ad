"""Take time and chance out of a sound file, so that equal samples make equal bytes.

libsndfile writes the time into the PEAK chunk of floating-point WAV and AIFF files, and a random
serial number into every page of an Ogg file.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
_PAGE = 27
"""Bytes of an Ogg page before its table of lengths."""


def clear(path: Path, form: str) -> None:
    """Set the time of a PEAK chunk and the serial number of an Ogg stream to zero.

    Parameters
    ----------
    path
        A file that libsndfile wrote, with a single stream if it is Ogg.
    form
        Its format, as libsndfile names it.
    """
    if form in ("WAV", "WAVEX", "AIFF"):
        _clear_peak(path, ">" if form == "AIFF" else "<")
    elif form == "OGG":
        _clear_serial(path)


def checksum(page: bytes) -> int:
    """Return the checksum of an Ogg page, whose own field for it is zero.

    It is zlib's with the bits of every byte and of the result in reverse, and nothing inverted.
    """
    found = zlib.crc32(page.translate(_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{found:032b}"[::-1], 2)


def _clear_peak(path: Path, order: str) -> None:
    with path.open("r+b") as file:
        file.seek(12)
        while len(header := file.read(8)) == 8:
            kind, size = struct.unpack(f"{order}4sI", header)
            if kind == b"PEAK":
                file.seek(4, 1)  # the version
                file.write(bytes(4))
                return
            if kind in (b"data", b"SSND"):
                return
            file.seek(size + size % 2, 1)


def _clear_serial(path: Path) -> None:
    with path.open("r+b") as file:
        while len(head := file.read(_PAGE)) == _PAGE:
            table = file.read(head[26])
            body = file.read(sum(table))
            page = head[:14] + bytes(4) + head[18:22] + bytes(4) + head[26:] + table + body
            file.seek(-len(page), 1)
            file.write(page[:22] + checksum(page).to_bytes(4, "little") + page[26:])
