"""Media containers that can be read: their first bytes, and checks for truncation.

FFmpeg gets the name of the container and an open file: it does not guess the format, or a file
could pass for a playlist that names other files, and it does not open files itself.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from typing import BinaryIO, Literal, NamedTuple, Protocol

from alphamf.audio import chunks, file_pieces
from alphamf.audio.layout import Extent, TruncationError, replace_bytes, truncation_error
from alphamf.errors import AlphaMFError


class Kind(NamedTuple):
    """The container format of a file."""

    format: str  # Its name in `alphamf.audio.formats`
    demuxer: str  # FFmpeg's name of what reads it
    # Takes the open file, its size, and its name for messages; raises `TruncationError`.
    check: Callable[[BinaryIO, int, str], Extent]
    timed: bool = True  # Whether packets have time stamps; otherwise they follow each other
    codec: str = ""  # Words for its codec where the container alone needs no PyAV


class Openable(Protocol):
    """A file that can be opened more than once, such as a `pathlib.Path`."""

    def open(self, mode: Literal["rb"], /) -> BinaryIO:
        """Return the file, open at its start."""
        ...


def find(path: Openable) -> Kind | None:
    """Identify the container of a file by its first bytes; None if it is not a media file."""
    with path.open("rb") as file:
        return kind_of(file)


def kind_of(file: BinaryIO) -> Kind | None:
    """Return the container of an open file by its first bytes; None if it is not a media file."""
    head = file.read(64)
    if head[4:8] in _ATOMS:
        brand = head[8:12] if head[4:8] == b"ftyp" else b"qt  "
        return Kind(_BRANDS.get(brand[:3], "MP4"), "mov", _check_atoms)
    if head.startswith(_EBML):
        return Kind("WEBM" if b"webm" in head else "MATROSKA", "matroska", _check_matroska)
    if head.startswith(_ASF):
        return Kind("ASF", "asf", _check_asf)
    if head.startswith(b"#!AMR\n"):
        return Kind("AMR", "amr", _check_amr, timed=False)
    if head.startswith(b"#!AMR-WB\n"):
        return Kind("AMR-WB", "amr", _check_amr, timed=False)
    if len(head) > 1 and head[0] == 0xFF and head[1] & 0xF6 == 0xF0:
        return Kind("ADTS", "aac", _check_adts, timed=False)
    if head.startswith(b"RIFF") and head[8:12] == b"WAVE" and chunks.codec(file) not in _DIRECT:
        return Kind("WAV", "wav", _check_wav, timed=False, codec=" of a compressed codec")
    return None


def index_first(path: Openable) -> bool:
    """Return whether the index of an MP4 comes first, so that it plays while it downloads."""
    with path.open("rb") as file:
        at = 0
        while len(header := file.read(8)) == 8:
            length, kind = struct.unpack(">I4s", header)
            if kind in (b"moov", b"mdat") or length < 8:
                return bool(kind == b"moov")
            at += length
            file.seek(at)
    return False


_EBML = b"\x1a\x45\xdf\xa3"
_SEGMENT = b"\x18\x53\x80\x67"
_ATOMS = (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot")
_BRANDS = {b"qt ": "MOV", b"M4A": "M4A", b"M4B": "M4A", b"3gp": "3GP", b"3g2": "3GP"}
_ASF = bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c")
_ASF_PROPERTIES = bytes.fromhex("a1dcab8c47a9cf118ee400c00c205365")
_ASF_DATA = bytes.fromhex("3626b2758e66cf11a6d900aa0062ce6c")
_ASF_OBJECT = bytes.fromhex("cf11")
"""The seventh and eighth byte of the name of most objects, and of all that follow the samples."""

_DIRECT = (None, 0x01, 0x02, 0x03, 0x06, 0x07, 0x11, 0x31, 0x38, 0x40, 0xFFFE)
"""Codecs in WAV that libsndfile decodes, by their numbers."""

_AMR_BYTES = {
    b"#!AMR\n": (13, 14, 16, 18, 20, 21, 27, 32, 6),
    b"#!AMR-WB\n": (18, 24, 33, 37, 41, 47, 51, 59, 61, 6),
}
"""Bytes of a frame by its type, the first byte among them."""


def _check_wav(file: BinaryIO, size: int, name: str) -> Extent:
    """Check a WAV file of a codec that only FFmpeg decodes."""
    file.seek(12)
    return chunks.check(file, size, name, order="<")


def _check_atoms(file: BinaryIO, size: int, name: str) -> Extent:
    """Check that no atom of MP4 or QuickTime exceeds the file, and that it has an index.

    A file type after the index and the samples starts another recording.
    """
    at, index, samples = 0, False, False
    while at + 8 <= size:
        file.seek(at)
        length, kind = struct.unpack(">I4s", file.read(8))
        if kind == b"ftyp" and index and samples:
            return Extent(at, stops=False)
        if length == 1:
            length = int.from_bytes(file.read(8), "big")
        length = size - at if length == 0 else max(8, length)
        index |= kind == b"moov"
        samples |= kind == b"mdat"
        if at + length > size:
            if not index:
                break
            raise truncation_error(name, length, size - at)
        at += length
    if not index:
        raise AlphaMFError(f"{name} is truncated: its index (moov) is missing")
    return Extent(size, stops=False)


def _check_matroska(file: BinaryIO, size: int, name: str) -> Extent:
    """Check that the segment of a Matroska file is complete, and find its end.

    A size that ends neither at the end of the file nor before another file is not trusted.
    """
    file.seek(4)
    header = _number(file) or 0
    if header > size:
        raise truncation_error(name, header, size - file.tell())
    file.seek(header, os.SEEK_CUR)
    if file.read(4) != _SEGMENT:
        return Extent(size, stops=False)
    at = file.tell()
    length = _number(file)
    start = file.tell()
    if length is not None and length > size - start:
        raise truncation_error(name, length, size - start)
    if length is not None and (start + length == size or _at(file, start + length, _EBML)):
        return Extent(start + length, stops=False)
    end = _find_next(file, _EBML, start, size, _is_header)
    if length is None or not file_pieces.holds_sound(file, start + length, end):
        return Extent(end, stops=False)
    unknown = (1 << 7 * (start - at) | (1 << 7 * (start - at)) - 1).to_bytes(start - at, "big")
    return Extent(end, replace_bytes(end, at, unknown), stops=False)


def _is_header(file: BinaryIO, at: int) -> bool:
    """Return whether a complete Matroska file starts at a position."""
    file.seek(at)
    head = file.read(64)
    return b"webm" in head or b"matroska" in head


def _at(file: BinaryIO, at: int, what: bytes) -> bool:
    """Return whether some bytes are at a position."""
    file.seek(at)
    return file.read(len(what)) == what


def _find_next(
    file: BinaryIO,
    what: bytes,
    at: int,
    size: int,
    holds: Callable[[BinaryIO, int], bool] = lambda *_: True,
) -> int:
    """Return the next position of some bytes that fulfil a condition; the size if there is none."""
    while (at := file_pieces.find(file, what, at)) >= 0:
        if holds(file, at):
            return at
        at += 1
    return size


def _number(file: BinaryIO) -> int | None:
    """Read an EBML number at the current position; None for "not known"."""
    first = file.read(1)
    if not first or not first[0]:
        return None
    more = 8 - first[0].bit_length()
    rest = file.read(more)
    value = int.from_bytes(bytes([first[0] & (1 << 7 - more) - 1]) + rest, "big")
    return None if value == (1 << 7 * (more + 1)) - 1 else value


def _check_asf(file: BinaryIO, size: int, name: str) -> Extent:
    """Check an ASF file against the lengths in its header; a broadcast has none.

    If no object follows the stated length of the samples, they continue to the end.
    """
    end = _find_next(file, _ASF, 16, size)
    file.seek(0)
    head = file.read(1 << 16)
    at = head.find(_ASF_PROPERTIES)
    if at < 0 or len(head) < at + 92:
        return Extent(end, stops=False)
    promised = int.from_bytes(head[at + 40 : at + 48], "little")
    live = head[at + 88] & 1
    if not live and promised > size:
        raise truncation_error(name, promised, size)
    start = int.from_bytes(head[16:24], "little")
    file.seek(min(start, size))
    data = file.read(24)
    length = int.from_bytes(data[16:24], "little")
    if live or not data.startswith(_ASF_DATA):
        return Extent(end, stops=False)
    after = min(start + length, size + 1)
    if length >= 50 and (after == end or _at(file, after + 6, _ASF_OBJECT)):
        return Extent(end, stops=False)
    if after > end == size:
        raise truncation_error(name, length, size - start)
    return Extent(end, replace_bytes(end, start + 16, bytes(8)), stops=False)


def _check_amr(file: BinaryIO, size: int, name: str) -> Extent:
    """Check that the last frame of an AMR file is complete; a header starts another file."""
    file.seek(0)
    start = b"#!AMR-WB\n" if file.read(9) == b"#!AMR-WB\n" else b"#!AMR\n"
    lengths, at = _AMR_BYTES[start], len(start)
    while at < size:
        file.seek(at)
        head = file.read(len(start))
        if head == start:
            return Extent(at, stops=False)
        kind = head[0] >> 3 & 15
        at += lengths[kind] if kind < len(lengths) else 1
    if at > size:
        raise TruncationError(f"{name} is truncated: its last AMR frame is incomplete")
    return Extent(size, stops=False)


def _check_adts(file: BinaryIO, size: int, name: str) -> Extent:
    """Check that the last AAC frame is complete; another rate starts another stream."""
    at, form = 0, b""
    while at + 7 <= size:
        file.seek(at)
        head = file.read(6)
        length = (head[3] & 3) << 11 | head[4] << 3 | head[5] >> 5
        if head[0] != 0xFF or head[1] & 0xF6 != 0xF0 or length < 7:
            return Extent(size, stops=False)
        now = bytes((head[1] & 8, head[2] & 0xFD, head[3] & 0xC0))
        if form and now != form:
            return Extent(at, stops=False)
        form = now
        at += length
    if at > size:
        raise TruncationError(f"{name} is truncated: its last AAC frame is incomplete")
    return Extent(size, stops=False)
