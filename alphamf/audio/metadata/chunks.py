"""Copy chunks of WAV, RF64 and AIFF files: bext, iXML, cue, LIST and all others, byte for byte."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

from alphamf.audio.chunks import end_of_chunks
from alphamf.audio.file_pieces import Scan
from alphamf.audio.metadata.pieces import ByteRange, splice

_OWN = (
    b"fmt ", b"fact", b"data", b"ds64", b"PEAK", b"levl", b"JUNK", b"FLLR", b"PAD ",
    b"COMM", b"SSND", b"FVER",
)  # fmt: skip
"""Chunks that describe the samples or fill space: the output keeps its own."""

_SAMPLES = (b"data", b"SSND")
_BEXT = 602
"""Length of a bext chunk without its history, in bytes."""


class _Chunk(NamedTuple):
    """A chunk: its name, the start of its header, and the end of its contents."""

    kind: bytes
    start: int
    end: int


def keep(source: Path | None, output: Path, order: Literal["<", ">"], history: str | None) -> None:
    """Copy the chunks of a file to another of the same type, before or after the samples."""
    with (source or output).open("rb") as old, output.open("r+b") as new:
        before: list[ByteRange | bytes] = []
        after: list[ByteRange | bytes] = []
        place, noted = before, history is None
        kinds = (b"RIFF", b"RF64") if order == "<" else (b"FORM",)
        for chunk in _chunks(old, order) if source and old.read(4) in kinds else []:
            if chunk.kind in _SAMPLES:
                place = after
            if chunk.kind in _OWN:
                continue
            if chunk.kind == b"bext" and history is not None and order == "<":
                place.append(_chunk(b"bext", _noted(_contents(old, chunk), history), order))
                noted = True
                continue
            if place and isinstance(place[-1], ByteRange) and place[-1].end == chunk.start:
                place[-1] = place[-1]._replace(end=chunk.end)
            else:
                place.append(ByteRange(old, chunk.start, chunk.end))
            if (chunk.end - chunk.start) % 2:
                place.append(b"\0")
        if history is not None and not noted:
            line = _noted(b"", history) if order == "<" else history.encode()
            before.append(_chunk(b"bext" if order == "<" else b"ANNO", line, order))
        _insert(new, order, before, after)


def _insert(
    file: BinaryIO,
    order: Literal["<", ">"],
    before: list[ByteRange | bytes],
    after: list[ByteRange | bytes],
) -> None:
    """Insert pieces before the samples and at the end, and update the size in the header."""
    samples = next((c.start for c in _chunks(file, order) if c.kind in _SAMPLES), None)
    if samples is None or not (before or after):
        return
    end = file.seek(0, os.SEEK_END)
    splice(file, end, end, [b"\0" * (end % 2), *after])
    splice(file, samples, samples, before)
    size = file.seek(0, os.SEEK_END) - 8
    file.seek(0)
    if file.read(4) == b"RF64":
        file.seek(20)
        file.write(struct.pack("<Q", size))
    else:
        file.seek(4)
        file.write(struct.pack(f"{order}I", min(size, 0xFFFFFFFF)))


def _chunks(file: BinaryIO, order: Literal["<", ">"]) -> Iterator[_Chunk]:
    """Yield the complete chunks; the samples' chunk may be truncated or of unknown length.

    If that length is wrong, samples follow, which are not chunks.
    """
    size = last = file.seek(0, os.SEEK_END)
    at, long_size = 12, None
    while at < last:
        file.seek(at)
        header = file.read(8)
        if len(header) < 8:
            return
        kind, length = struct.unpack(f"{order}4sI", header)
        if kind == b"ds64" and len(body := file.read(16)) == 16:
            long_size = struct.unpack("<8xQ", body)[0]
        if kind in _SAMPLES and length == 0xFFFFFFFF and long_size is not None:
            length = long_size
        end = at + 8 + length
        if end > size and kind not in _SAMPLES:
            return
        yield _Chunk(kind, at, end)
        if end > size:  # by more than a place in a file can be, where the header is damaged
            return
        if kind in _SAMPLES:
            last = end_of_chunks(Scan(file, size=size), end, order)
            if length == 0 and last < size:
                return
        at = end + length % 2


def _contents(file: BinaryIO, chunk: _Chunk) -> bytes:
    file.seek(chunk.start + 8)
    return file.read(chunk.end - chunk.start - 8)


def _chunk(kind: bytes, contents: bytes, order: Literal["<", ">"]) -> bytes:
    """Return a chunk with its header, padded to an even length."""
    return struct.pack(f"{order}4sI", kind, len(contents)) + contents + b"\0" * (len(contents) % 2)


def _noted(bext: bytes, line: str) -> bytes:
    """Return the contents of a bext chunk with a line added to its history."""
    fixed, history = bext[:_BEXT].ljust(_BEXT, b"\0"), bext[_BEXT:].rstrip(b"\0")
    if history and not history.endswith(b"\n"):
        history += b"\r\n"
    return fixed + history + f"T={line}\r\n".encode()
