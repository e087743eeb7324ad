"""Files of chunks (WAV, RF64, AIFF, W64, CAF): whether they are whole, and without a time."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import BinaryIO, Literal

from alphamf.audio.cut import Patch, short
from alphamf.errors import AlphaMFError

Order = Literal["<", ">"]
"""Little or big endian, as `struct` writes it."""

_SAMPLES = (b"data", b"SSND", b"BODY")
"""The chunk that holds the samples, of RIFF, of AIFF and of SVX."""

_UNKNOWN = 2**62
"""A size of 64 bits that is this or more means "not known yet"."""


def check(file: BinaryIO, size: int, name: str, *, order: Order) -> Patch | None:
    """Check that a RIFF or AIFF file holds as many bytes of samples as its header promises.

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
    Patch or None
        What replaces a data size that a program which wrote to a pipe left at 0, and which
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
            unknown = is_placeholder(promised)
            if promised == 0xFFFFFFFF and long_size is not None:
                promised, unknown = long_size, long_size >= _UNKNOWN
            if promised == 0:
                empty = _only_chunks(file, size, order)
                return None if empty else Patch(start - 4, b"\xff\xff\xff\xff")
            if promised > size - start and not unknown:
                raise short(name, promised, size - start)
            return None
        file.seek(start + promised + promised % 2)
    raise _without_samples(name)


def check_w64(file: BinaryIO, size: int, name: str) -> None:
    """Check a Sony Wave64 file as `check` does; its chunks count their own headers.

    Parameters
    ----------
    file, size, name
        As for `check`.
    """
    file.seek(40)
    while len(header := file.read(24)) == 24:
        kind, promised = struct.unpack("<16sQ", header)
        start, promised = file.tell(), max(0, promised - 24)
        if kind.startswith(b"data"):
            if size - start < promised < _UNKNOWN:
                raise short(name, promised, size - start)
            return
        if promised > size:
            break
        file.seek(start + (promised + 7) // 8 * 8)
    raise _without_samples(name)


def check_caf(file: BinaryIO, size: int, name: str) -> Patch | None:
    """Check a Core Audio file as `check` does; a size of -1 means "not known yet".

    libsndfile refuses that, and sizes beyond the end of the file.

    Parameters
    ----------
    file, size, name
        As for `check`.
    """
    file.seek(8)
    while len(header := file.read(12)) == 12:
        kind, promised = struct.unpack(">4sq", header)
        start = file.tell()
        if kind == b"data":
            there = Patch(start - 8, struct.pack(">q", size - start))
            if promised > size - start:  # less 4 bytes for the number of edits
                raise short(name, promised - 4, size - start - 4, there)
            return there if promised == -1 else None
        if not 0 <= promised <= size:
            break
        file.seek(start + promised)
    raise _without_samples(name)


def _without_samples(name: str) -> AlphaMFError:
    return AlphaMFError(f"{name} is cut short: its header ends before any samples")


def _only_chunks(file: BinaryIO, size: int, order: Order) -> bool:
    """Whether whole chunks fill the rest of the file, so that no samples hide there."""
    while len(header := file.read(8)) == 8:
        kind, length = struct.unpack(f"{order}4sI", header)
        if not all(32 <= byte < 127 for byte in kind):
            return False
        file.seek(length + length % 2, os.SEEK_CUR)
    return not header and file.tell() <= size + 1


def is_placeholder(size: int) -> bool:
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
