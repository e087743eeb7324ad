"""Files made of chunks (WAV, RF64, AIFF, W64, CAF): check lengths, and edit some fields."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from alphamf.audio.file_pieces import Extent, Pieces, Scan, replace_bytes, too_few_bytes
from alphamf.errors import AlphaMFError

Order = Literal["<", ">"]
"""Little or big endian, as `struct` writes it."""

_SAMPLES = (b"data", b"SSND", b"BODY")
"""Kinds of the chunk that holds the samples: in RIFF, in AIFF and in SVX."""

_STARTS = (b"RIFF", b"RIFX", b"RF64", b"FORM", b"caff")
"""First bytes of another file that may follow the last chunk; they are not a chunk's name."""

_AFTER = (b"LIST", b"id3 ", b"ID3 ", b"bext", b"JUNK", b"cue ", b"fact", b"PEAK", b"iXML", b"ANNO")
"""Names of chunks that often follow the samples, which are accepted even if truncated."""

MOST = 50_000
"""Maximum number of chunks that are read from a file."""

_MOST = 0xFFFFFFFE
"""Largest even number of bytes that a 32-bit size can hold."""

_UNKNOWN = 2**62
"""A 64-bit size of this value or more means "not known yet"."""


def check(data: Scan, *, order: Order) -> Extent:
    """Return a RIFF, AIFF or SVX file's extent; its `cut` says if bytes of samples are missing.

    If a program wrote to a pipe and left the size open, or if a size above 4 GiB has wrapped
    around, the actual size is used. A file without a chunk of samples raises an AlphaMFError.
    """
    for found in walk(data, order):
        if found.kind in _SAMPLES:
            return _measure(data, found)
    raise _without_samples(data.name)


class Chunk(NamedTuple):
    """A chunk: kind, position of its contents, their length in bytes by its header, byte order."""

    kind: bytes
    start: int
    length: int
    order: Order
    long_at: int = 0  # Position of the samples' length in 64 bits; 0 if there is none


def walk(data: Scan, order: Order) -> Iterator[Chunk]:
    """Yield the chunks of a RIFF or AIFF file, `MOST` at most; the last one may be incomplete."""
    at, long_at = 12, 0
    for _ in range(MOST):
        header = data.get(at, 8)
        if len(header) < 8:
            return
        found = Chunk(header[:4], at + 8, struct.unpack(f"{order}I", header[4:])[0], order)
        if found.kind == b"ds64":
            long_at = found.start + 8
        if found.kind in _SAMPLES and found.length == 0xFFFFFFFF and long_at:
            length = int.from_bytes(data.get(long_at, 8), "little")
            found = found._replace(length=length, long_at=long_at)
        yield found
        at = found.start + found.length + found.length % 2


def _measure(data: Scan, found: Chunk) -> Extent:
    """Return a file's extent, given its chunk of samples; its `pieces` replace a wrong size."""
    start, promised, order, size = found.start, found.length, found.order, data.size
    there = size - start
    end = end_of_chunks(data, start + promised, order)
    if promised and promised <= there and end == size:
        return Extent(size)
    unknown = promised >= _UNKNOWN if found.long_at else is_placeholder(promised)
    if promised == 0:
        unknown = end < size
    elif not unknown and promised > there:
        return Extent(size, cut=too_few_bytes(promised, there))
    if unknown:
        return Extent(*_sized(data, there, found))
    for wrapped in range(promised + (there - promised >> 32 << 32), promised, -(2**32)):
        if not found.long_at and end_of_chunks(data, start + wrapped, order) == size:
            return Extent(*_sized(data, wrapped, found))
    return Extent(end)


def _sized(data: Scan, length: int, found: Chunk) -> tuple[int, Pieces | None]:
    """Return the end and the pieces of a file for libsndfile, given `length` bytes of samples.

    From 4 GiB on, RIFF becomes RF64; AIFF and RIFX have no such form, so a part is left out.
    """
    start, size = found.start, data.size
    if found.long_at:
        return size, replace_bytes(size, found.long_at, struct.pack("<Q", length))
    if length < _MOST:
        return size, replace_bytes(size, start - 4, struct.pack(f"{found.order}I", length))
    if data.get(0, 4) != b"RIFF":
        return start + _MOST, replace_bytes(size, start - 4, struct.pack(f"{found.order}I", _MOST))
    head = b"RF64\xff\xff\xff\xffWAVEds64" + struct.pack("<I3QI", 28, size + 28, length, 0, 0)
    samples = range(start, size)
    return size, (head, range(12, start - 8), b"data\xff\xff\xff\xff", samples)


def count_spare_bytes(data: Scan, at: int) -> int:
    """Return how many bytes follow the WAV chunks from `at` on; 0 if they are zeros or a tag."""
    at = end_of_chunks(data, at, "<")
    return data.size - at if at < data.size and data.holds_sound(at) else 0


def check_bw64(data: Scan) -> Extent:
    """Return the extent of a BW64 file, with pieces that let libsndfile read it as RF64."""
    extent = check(data, order="<")
    first, *others = extent.pieces or (range(extent.end),)
    return extent._replace(pieces=(b"RF64", range(4, len(first)), *others))


def codec(data: Scan) -> int | None:
    """Return the codec number of a WAV file, or None if no format chunk precedes its samples."""
    for chunk in walk(data, "<"):
        if chunk.kind == b"fmt ":
            return int.from_bytes(data.get(chunk.start, 2), "little")
        if chunk.kind == b"data":
            break
    return None


def copy_mask(source: Path, output: Path) -> None:
    """Copy the channel mask of a WAV file to another, if both have one and equal channel counts."""
    with source.open("rb") as old, output.open("r+b") as new:
        places = []
        for file in (old, new):
            data = Scan(file)
            found = (chunk.start for chunk in walk(data, "<") if chunk.kind == b"fmt ")
            start = next(found, 0)
            form = data.get(start, 24) if data.get(0, 4) in (b"RIFF", b"RF64") else b""
            if len(form) < 24 or form[:2] != b"\xfe\xff":
                return
            places.append((form[2:4], start + 20, form[20:24]))
        (channels, _, mask), (same, at, _) = places
        if channels == same:
            new.seek(at)
            new.write(mask)


def check_w64(data: Scan) -> Extent:
    """Return a Sony Wave64 file's extent, like `check`; sizes of chunks include their headers."""
    at, size = 40, data.size
    for _ in range(MOST):
        header = data.get(at, 24)
        if len(header) < 24:
            break
        kind, promised = struct.unpack("<16sQ", header)
        start, promised = at + 24, max(0, promised - 24)
        at = start + (promised + 7) // 8 * 8
        if kind.startswith(b"data"):
            if size - start < promised < _UNKNOWN:
                return Extent(size, cut=too_few_bytes(promised, size - start))
            return Extent(min(at, size) if promised else size, stops=False)
    raise _without_samples(data.name)


def check_caf(data: Scan) -> Extent:
    """Return a Core Audio file's extent, like `check`; a size of -1 means "not known yet".

    libsndfile refuses -1 and sizes beyond the end of the file, so it gets the actual size.
    """
    at, size = 8, data.size
    for _ in range(MOST):
        header = data.get(at, 12)
        if len(header) < 12:
            break
        kind, promised = struct.unpack(">4sq", header)
        start = at + 12
        if kind == b"data":
            there = replace_bytes(size, start - 8, struct.pack(">q", size - start))
            if promised > size - start:  # less 4 bytes for the number of edits
                return Extent(size, there, cut=too_few_bytes(promised - 4, size - start - 4))
            end = end_of_chunks(data, start + max(0, promised), ">", long=True)
            unknown = promised == -1 or (promised == 0 and end < size)
            return Extent(size, there) if unknown else Extent(end)
        if promised < 0:
            break
        at = start + promised
    raise _without_samples(data.name)


def _without_samples(name: str) -> AlphaMFError:
    return AlphaMFError(f"{name} is truncated: its header ends before the samples start")


def end_of_chunks(data: Scan, at: int, order: Order, *, long: bool = False) -> int:
    """Return the position after all chunks from `at` on; `long`: 64-bit sizes, as in CAF."""
    size, bytes_of = data.size, 12 if long else 8
    for _ in range(MOST):
        header = data.get(at, 13)
        if not header:
            return at
        # Some programs leave out the byte that follows an odd number of others.
        padded = not long and at % 2 and not (header[:1].isalpha() and header[1:4].isalpha())
        kind, length = struct.unpack(
            f"{order}4s{'q' if long else 'I'}",
            header[padded : padded + bytes_of].ljust(bytes_of, b"\0"),
        )
        if padded and len(header) == 1:
            return size
        printable = all(32 <= byte < 127 for byte in kind) and kind not in _STARTS
        end = at + padded + bytes_of + length
        if not printable or not 0 <= length or (end > size and kind not in _AFTER):
            return at
        at = min(end, size)
    raise AlphaMFError(f"{data.name} has more than {MOST} chunks")


def is_placeholder(size: int) -> bool:
    """Return whether a size means "not known yet": about 2^32 (ffmpeg) or about 2^31 (SoX)."""
    return size >= 2**32 - 2**12 or 2**31 - 2**13 <= size <= 2**31


def clear_peak_time(path: Path, order: Order) -> None:
    """Clear the time stamp of a PEAK chunk before the samples, so that outputs are reproducible."""
    with path.open("r+b") as file:
        for chunk in walk(Scan(file), order):
            if chunk.kind == b"PEAK":
                file.seek(chunk.start + 4)  # after the version
                file.write(bytes(4))
            if chunk.kind in (b"PEAK", *_SAMPLES):
                return
