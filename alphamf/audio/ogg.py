"""Ogg files: find their end, check that they are complete, and clear random serial numbers."""

import re
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

from alphamf.audio.file_pieces import Extent, Scan

_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
_START = re.compile(b"OggS")
_HEADER = 27
"""Bytes of a page before its table of lengths."""

# Indices that put channels of Vorbis and Opus in WAV's order, by their number (Vorbis I, 4.3.9)
ORDER = {3: "021", 5: "02134", 6: "021534", 7: "0216534", 8: "02175634"}


def order(channels: int, head: bytes = b"") -> list[int] | None:
    """Return indices that sort a file's channels as in WAV; None: no change; `head`: its start."""
    placed = head[28:36] != b"OpusHead" or head[46:47] == b"\1"
    return [*map(int, ORDER[channels])] if placed and channels in ORDER else None


def check(data: Scan) -> Extent:
    """Return an Ogg recording's extent; `cut` says if its last page is incomplete or too early."""
    at, end, time, clock = 0, data.size, _Time(), 0
    begun = False
    while at < data.size:
        page = _page(data, at)
        if page is None:
            at = data.find(_START, 4, at + 1)
            if at < 0:
                break
            continue
        if page.begins and begun:
            end = at
            break
        begun = begun or not page.begins
        if page.begins and not clock:
            time, clock = _Time(page.serial), _clock(data, at)
        if at + page.length > data.size:
            return Extent(end, stops=False, cut="is truncated: its last Ogg page is incomplete")
        if page.serial == time.serial and page.granule >= 0:
            time = time._replace(last=page.granule, highest=max(time.highest, page.granule))
        at += page.length
    cut = None
    if clock and time.last < time.highest:
        cut = (
            f"jumps back in time from {time.highest / clock:.2f} s to "
            f"{time.last / clock:.2f} s; {(time.highest - time.last) / clock:.2f} s are left out"
        )
    return Extent(end, stops=False, cut=cut)


class _Page(NamedTuple):
    """A page: length in bytes, its stream's number, whether it begins that stream, and time."""

    length: int
    serial: int
    begins: bool
    granule: int


class _Time(NamedTuple):
    """Times of a stream's pages, in units of the stream: the last and the highest so far."""

    serial: int = -1
    last: int = 0
    highest: int = 0


def _page(data: Scan, at: int) -> _Page | None:
    """Return the page at a position, or None; its length is the full one even if truncated."""
    head = data.get(at, _HEADER + 255)
    if not head.startswith(b"OggS"):
        return None
    head = head.ljust(_HEADER, b"\xff")
    table = head[_HEADER : _HEADER + head[26]].ljust(head[26], b"\xff")
    granule, serial = struct.unpack("<qI", head[6:18])
    return _Page(_HEADER + len(table) + sum(table), serial, bool(head[5] & 2), granule)


def _clock(data: Scan, at: int) -> int:
    """Return time units per second of the stream that begins at a position; 0 if unknown."""
    head = data.get(at + _HEADER + 1, 64)
    if head.startswith(b"OpusHead"):
        return 48000
    if head.startswith(b"\x01vorbis"):
        return int.from_bytes(head[12:16], "little")
    if head.startswith(b"\x7fFLAC"):
        return int.from_bytes(head[27:30], "big") >> 4
    return 0


def first_sound_page(data: Scan) -> int:
    """Return the position of the first page after the headers, which may contain a picture."""
    at = 0
    while (page := _page(data, at)) is not None and page.granule in (0, -1):
        at += page.length
    return at


def clear_serial(path: Path) -> None:
    """Set the serial number, which libsndfile draws at random, to zero, and adapt the checksums."""
    with path.open("r+b") as file:
        while len(head := file.read(_HEADER)) == _HEADER:
            table = file.read(head[26])
            body = file.read(sum(table))
            page = head[:14] + bytes(4) + head[18:22] + bytes(4) + head[26:] + table + body
            file.seek(-len(page), 1)
            file.write(page[:22] + checksum(page).to_bytes(4, "little") + page[26:])


def checksum(page: bytes) -> int:
    """Return the checksum of a page whose checksum field is zero.

    It is zlib's checksum with the bits of every byte and of the result reversed, and without
    inversion.
    """
    found = zlib.crc32(page.translate(_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{found:032b}"[::-1], 2)
