"""Files of formats that are read and not written, and whose header has a length: whether whole.

IRCAM, PAF, PVF and SD2 have none, XI files have one that is not to be trusted, and libsndfile
itself refuses an HTK file that is cut.
"""

from __future__ import annotations

import math
import struct
from typing import Any, BinaryIO

from alphamf.audio import view
from alphamf.audio.cut import Extent, short

MAT5 = b"MATLAB 5.0 MAT-file"

_MAT4_BYTES = (8, 4, 4, 2, 2, 1)
"""Bytes of a number, by the tens digit of a matrix's type."""


def check_voc(file: BinaryIO, size: int, name: str) -> Extent:
    """Check that every block of a Creative Voice file is whole.

    Parameters
    ----------
    file
        The open file.
    size
        Its length in bytes.
    name
        Its name in error messages.

    Raises
    ------
    Cut
        The file is shorter than promised.
    """
    (at,) = _unpacked(file, 20, "<H")
    while at + 4 <= size:
        kind, *length = _unpacked(file, at, "<4B")
        promised = int.from_bytes(length, "little")
        if kind == 0:
            return Extent(at + 1, stops=False)
        if promised > size - at - 4:
            raise short(name, promised, size - at - 4)
        at += 4 + promised
    return Extent(size, stops=False)


def check_avr(file: BinaryIO, size: int, name: str) -> Extent:
    """Check an Audio Visual Research file, as `check_voc` does."""
    stereo, bits, frames = _unpacked(file, 12, ">HH10xI")
    return _extent(name, 128, frames * (bits // 8) * (2 if stereo else 1), size)


def check_mpc2k(file: BinaryIO, size: int, name: str) -> Extent:
    """Check an Akai MPC 2000 file, as `check_voc` does."""
    stereo, frames = _unpacked(file, 21, "<B8xI")
    return _extent(name, 42, 2 * frames * (2 if stereo else 1), size)


def check_wve(file: BinaryIO, size: int, name: str) -> Extent:
    """Check a Psion A-law file, as `check_voc` does."""
    (frames,) = _unpacked(file, 18, ">I")
    return _extent(name, 32, frames, size)


def check_sds(file: BinaryIO, size: int, name: str) -> Extent:
    """Check a MIDI sample dump, packets of 120 bytes with samples, as `check_voc` does."""
    bits, *length = _unpacked(file, 6, "<B3x3B")
    frames = sum(byte << 7 * k for k, byte in enumerate(length))
    each = 120 // max(2, math.ceil(bits / 7))
    packets = math.ceil(frames / max(each, 1))
    return _extent(name, 21, 127 * packets, size)._replace(stops=True)


def check_mat4(file: BinaryIO, size: int, name: str) -> Extent:
    """Check that both matrices of a MATLAB 4 file are whole, as `check_voc` does."""
    order = "<" if _unpacked(file, 0, "4s")[0] == bytes(4) else ">"
    at = 0
    for _ in range(2):
        kind, rows, columns, _, named = _unpacked(file, at, f"{order}5I")
        at += 20 + named
        promised = rows * columns * _MAT4_BYTES[min(kind // 10 % 10, 5)]
        _check(name, promised, size - at)
        at += promised
    return Extent(at)


def check_mat5(file: BinaryIO, size: int, name: str) -> Extent:
    """Check that all elements of a MATLAB 5 file are whole, as `check_voc` does."""
    order = "<" if _unpacked(file, 126, "2s")[0] == b"IM" else ">"
    end = view.find(file, MAT5, 128)
    size = end if end >= 0 else size
    at = 128
    while at + 8 <= size:
        _, promised = _unpacked(file, at, f"{order}2I")
        _check(name, max(0, promised - 8), size - at - 8)  # libsndfile leaves out padding
        at += 8 + promised
    return Extent(size, stops=False)


def _extent(name: str, start: int, promised: int, size: int) -> Extent:
    """Check and return where samples end of which libsndfile reads more if there are more."""
    _check(name, promised, size - start)
    return Extent(start + promised, stops=False)


def _check(name: str, promised: int, there: int) -> None:
    if promised > there:
        raise short(name, promised, there)


def _unpacked(file: BinaryIO, at: int, form: str) -> tuple[Any, ...]:
    """Return what `struct` reads at a place of a file, with zeros beyond its end."""
    file.seek(at)
    length = struct.calcsize(form)
    return struct.unpack(form, file.read(length).ljust(length, b"\0"))
