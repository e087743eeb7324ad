"""Files of chunks, which are RIFF (WAV) and AIFF: whether they are whole, and without a time."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import BinaryIO, Literal

from alphamf.errors import AlphaMFError

Order = Literal["<", ">"]
"""Little or big endian, as `struct` writes it."""

_SAMPLES = (b"data", b"SSND")
"""The chunk that holds the samples, of RIFF and of AIFF."""


def check(file: BinaryIO, size: int, name: str, *, order: Order) -> int | None:
    """Check that a file holds as many bytes of samples as its header promises.

    Parameters
    ----------
    file
        The open file, after its first 12 bytes.
    size
        Its length in bytes.
    name
        Its name in error messages.
    order
        Of the bytes in numbers.

    Returns
    -------
    int or None
        Position of a data size that a program which wrote to a pipe left at 0, and which
        libsndfile would take for an empty file; None for all other files.

    Raises
    ------
    AlphaMFError
        The file is shorter than promised.
    """
    long_size = None
    while len(header := file.read(8)) == 8:
        kind, promised = struct.unpack(f"{order}4sI", header)
        start = file.tell()
        if kind == b"ds64" and len(body := file.read(16)) == 16:
            long_size = struct.unpack("<8xQ", body)[0]
        if kind in _SAMPLES:
            if promised == 0xFFFFFFFF and long_size is not None:
                promised = long_size
            if promised == 0:
                return None if _only_chunks(file, size, order) else start - 4
            if promised > size - start and not _is_placeholder(promised):
                raise AlphaMFError(
                    f"{name} is cut short: its header promises {promised} bytes of samples and "
                    f"{size - start} are there"
                )
            return None
        file.seek(start + promised + promised % 2)
    raise AlphaMFError(f"{name} is cut short: its header ends before any samples")


def _only_chunks(file: BinaryIO, size: int, order: Order) -> bool:
    """Whether whole chunks fill the rest of the file, so that no samples hide there."""
    while len(header := file.read(8)) == 8:
        kind, length = struct.unpack(f"{order}4sI", header)
        if not all(32 <= byte < 127 for byte in kind):
            return False
        file.seek(length + length % 2, os.SEEK_CUR)
    return not header and file.tell() <= size + 1


def _is_placeholder(size: int) -> bool:
    """Whether a size means "not known yet": 2^32 - 1 from ffmpeg, about 2^31 from SoX, arecord."""
    return size >= 2**32 - 2**12 or 2**31 - 2**13 <= size <= 2**31


def clear_peak_time(path: Path, order: Order) -> None:
    """Set the time, which libsndfile writes into the PEAK chunk of floating-point files, to zero.

    Parameters
    ----------
    path
        A file that libsndfile wrote.
    order
        Of the bytes in numbers.
    """
    with path.open("r+b") as file:
        file.seek(12)
        while len(header := file.read(8)) == 8:
            kind, size = struct.unpack(f"{order}4sI", header)
            if kind == b"PEAK":
                file.seek(4, 1)  # the version
                file.write(bytes(4))
                return
            if kind in _SAMPLES:
                return
            file.seek(size + size % 2, 1)
