"""Files made of chunks (WAV, RF64, AIFF, W64, CAF): find their end, and clear time stamps."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

from alphamf.audio.file_pieces import holds_sound
from alphamf.audio.layout import Extent, Pieces, replace_bytes, truncation_error
from alphamf.errors import AlphaMFError

Order = Literal["<", ">"]
"""Little or big endian, as `struct` writes it."""

_SAMPLES = (b"data", b"SSND", b"BODY")
"""The chunk that holds the samples, of RIFF, of AIFF and of SVX."""

_STARTS = (b"RIFF", b"RIFX", b"RF64", b"FORM", b"caff")
"""How files begin that may follow and are not chunks."""

_AFTER = (b"LIST", b"id3 ", b"ID3 ", b"bext", b"JUNK", b"cue ", b"fact", b"PEAK", b"iXML", b"ANNO")
"""Chunks that often follow the samples; if one is truncated, the file ends there."""

_MOST = 0xFFFFFFFE
"""Maximum number of bytes of samples that 32 bits count."""

_UNKNOWN = 2**62
"""A size of 64 bits that is this or more means "not known yet"."""


def check(file: BinaryIO, size: int, name: str, *, order: Order) -> Extent:
    """Check that a RIFF or AIFF file has as many bytes of samples as its header promises.

    If a program wrote to a pipe and left the size open, or if a size above 4 GiB has wrapped
    around, the actual size is used.
    """
    long_at = 0
    while len(header := file.read(8)) == 8:
        kind, promised = struct.unpack(f"{order}4sI", header)
        start = file.tell()
        if kind == b"ds64":
            long_at = start + 8
        if kind in _SAMPLES:
            data = _Data(start, promised, order)
            if promised == 0xFFFFFFFF and long_at:
                file.seek(long_at)
                data = data._replace(length=struct.unpack("<Q", file.read(8))[0], long_at=long_at)
            return _measure(file, size, name, data)
        file.seek(start + promised + promised % 2)
    raise _without_samples(name)


class _Data(NamedTuple):
    """The chunk of the samples: where they begin, their bytes by the header, and its byte order."""

    start: int
    length: int
    order: Order
    long_at: int = 0  # Position of their length in 64 bits; 0 if there is none


def _measure(file: BinaryIO, size: int, name: str, data: _Data) -> Extent:
    """Return where a file ends, and how libsndfile sees all of its samples."""
    start, promised = data.start, data.length
    there = size - start
    end = end_of_chunks(file, start + promised, size, data.order)
    if promised and promised <= there and end == size:
        return Extent(size)
    unknown = promised >= _UNKNOWN if data.long_at else is_placeholder(promised)
    if promised == 0:
        unknown = end < size
    elif not unknown and promised > there:
        raise truncation_error(name, promised, there)
    if unknown:
        return Extent(*_sized(file, size, there, data))
    for wrapped in range(promised + (there - promised >> 32 << 32), promised, -(2**32)):
        if not data.long_at and end_of_chunks(file, start + wrapped, size, data.order) == size:
            return Extent(*_sized(file, size, wrapped, data))
    return Extent(end)


def _sized(file: BinaryIO, size: int, length: int, data: _Data) -> tuple[int, Pieces | None]:
    """Return where a file ends for libsndfile, and its pieces, if it has so many bytes of samples.

    More than 4 GiB become RF64; AIFF and RIFX have no such form, so a part is left out.
    """
    start = data.start
    if data.long_at:
        return size, replace_bytes(size, data.long_at, struct.pack("<Q", length))
    if length < _MOST:
        return size, replace_bytes(size, start - 4, struct.pack(f"{data.order}I", length))
    file.seek(0)
    if file.read(4) != b"RIFF":
        return start + _MOST, replace_bytes(size, start - 4, struct.pack(f"{data.order}I", _MOST))
    head = b"RF64\xff\xff\xff\xffWAVEds64" + struct.pack("<I3QI", 28, size + 28, length, 0, 0)
    samples = range(start, size)
    return size, (head, range(12, start - 8), b"data\xff\xff\xff\xff", samples)


def count_spare_bytes(file: BinaryIO, at: int, size: int) -> int:
    """Return the number of bytes after a WAV file's samples that are neither chunks nor zeros."""
    at = end_of_chunks(file, at, size, "<")
    return size - at if at < size and holds_sound(file, at, size) else 0


def codec(file: BinaryIO) -> int | None:
    """Return the codec number of a WAV file, or None if it has none."""
    file.seek(12)
    while len(header := file.read(8)) == 8:
        kind, length = struct.unpack("<4sI", header)
        if kind == b"fmt ":
            return int.from_bytes(file.read(2), "little")
        if kind == b"data":
            break
        file.seek(length + length % 2, 1)
    return None


def check_w64(file: BinaryIO, size: int, name: str) -> Extent:
    """Check a Sony Wave64 file as in `check`; chunk sizes include the chunk headers."""
    file.seek(40)
    while len(header := file.read(24)) == 24:
        kind, promised = struct.unpack("<16sQ", header)
        start, promised = file.tell(), max(0, promised - 24)
        if kind.startswith(b"data"):
            if size - start < promised < _UNKNOWN:
                raise truncation_error(name, promised, size - start)
            end = start + (promised + 7) // 8 * 8
            return Extent(min(end, size) if promised else size, stops=False)
        if promised > size:
            break
        file.seek(start + (promised + 7) // 8 * 8)
    raise _without_samples(name)


def check_caf(file: BinaryIO, size: int, name: str) -> Extent:
    """Check a Core Audio file as in `check`; a size of -1 means "not known yet".

    libsndfile refuses that, and sizes beyond the end of the file.
    """
    file.seek(8)
    while len(header := file.read(12)) == 12:
        kind, promised = struct.unpack(">4sq", header)
        start = file.tell()
        if kind == b"data":
            there = replace_bytes(size, start - 8, struct.pack(">q", size - start))
            if promised > size - start:  # less 4 bytes for the number of edits
                raise truncation_error(name, promised - 4, size - start - 4, there)
            end = end_of_chunks(file, start + max(0, promised), size, ">", long=True)
            unknown = promised == -1 or (promised == 0 and end < size)
            return Extent(size, there) if unknown else Extent(end)
        if not 0 <= promised <= size:
            break
        file.seek(start + promised)
    raise _without_samples(name)


def _without_samples(name: str) -> AlphaMFError:
    return AlphaMFError(f"{name} is truncated: its header ends before the samples start")


def end_of_chunks(file: BinaryIO, at: int, size: int, order: Order, *, long: bool = False) -> int:
    """Return the end of the last complete chunk, given the position of the first."""
    while at < size:
        file.seek(at)
        header = file.read(13)
        # Some programs leave out the byte that follows an odd number of others.
        padded = not long and at % 2 and not (header[:1].isalpha() and header[1:4].isalpha())
        kind, length = struct.unpack(
            f"{order}4s{'q' if long else 'I'}",
            header[padded : padded + (12 if long else 8)].ljust(12 if long else 8, b"\0"),
        )
        if padded and len(header) == 1:
            return size
        printable = all(32 <= byte < 127 for byte in kind) and kind not in _STARTS
        end = at + padded + (12 if long else 8) + length
        if not printable or not 0 <= length or (end > size and kind not in _AFTER):
            break
        at = min(end, size)
    return at


def is_placeholder(size: int) -> bool:
    """Return whether a size means "not known yet": 2^32 - 1 (ffmpeg), about 2^31 (SoX)."""
    return size >= 2**32 - 2**12 or 2**31 - 2**13 <= size <= 2**31


def clear_peak_time(path: Path, order: Order) -> None:
    """Set the time stamp in the PEAK chunk to zero, so that outputs are reproducible."""
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
