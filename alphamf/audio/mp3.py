"""MP3 files: find their end, and check that no frame is missing or incomplete."""

from __future__ import annotations

import struct
from typing import BinaryIO, NamedTuple

from alphamf.audio.file_pieces import find
from alphamf.audio.layout import Extent, Pieces, TruncationError, replace_bytes

STARTS = (b"ID3", *(bytes((0xFF, version | 0b10 | crc)) for version in (0xE0, 0xF0, 0xF8)
          for crc in (0, 1)))  # fmt: skip
"""How files start: with a tag, or with a frame of layer III of MPEG 2.5, 2 or 1."""

_RATES = (44100, 48000, 32000)
_KILOBITS = {
    1: (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    2: (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}

_LAME = 156
"""Bytes of LAME's header, which starts like a Xing header and contains the encoder's delay."""


class _Frame(NamedTuple):
    """Bytes of a frame, those from its start to an encoder's Xing header, and its rate in Hz."""

    length: int
    xing: int
    hertz: int


class _Promise(NamedTuple):
    """Numbers of frames and bytes in an encoder's header, and whether there is a header."""

    frames: int = 0
    bytes: int = 0
    at: int = 0
    known: bool = False


def check(file: BinaryIO, size: int, name: str) -> Extent:
    """Check that the last frame is complete, and that all frames in the header exist.

    If another recording follows, with its own header or sampling rate, this one ends there.
    libsndfile reads no more frames than the header counts, so a count that is too low is corrected.
    """
    first = at = tag_end(file)
    frames, gaps = 0, False
    promise, start = _Promise(), None
    shortest, longest = size, 0
    while at + 4 <= size:
        file.seek(at)
        frame = _frame(file.read(4))
        if frame is None:
            if not frames:
                return Extent(size, stops=False)
            following = _next_frame(file, at, size)
            gaps = gaps or following is not None or not _is_tag(file, at)
            if following is None:
                break
            at = following
            continue
        begins = _promise(file, at + frame.xing)
        start = start or frame
        if not frames:
            promise = begins or promise
        elif begins is not None or frame[1:] != start[1:]:
            size = at
            break
        shortest, longest = min(shortest, frame.length), max(longest, frame.length)
        at += frame.length
        if at > size:
            raise TruncationError(f"{name} is truncated: its last MP3 frame is incomplete")
        frames += 1
    # Encoders differ in whether their count holds the frame of the Xing header itself.
    cut = frames == promise.frames and at - first < promise.bytes
    if (frames < promise.frames or cut) and not gaps:
        raise TruncationError(
            f"{name} is truncated: its header promises {promise.frames} frames of MP3, "
            f"{frames} are there"
        )
    pieces: Pieces | None = None
    if promise.at and frames - 1 > promise.frames:
        pieces = replace_bytes(size, promise.at, (frames - 1).to_bytes(4, "big"))
    elif not promise.known and longest - shortest > 1:
        pieces = (range(first), _header(file, first, frames), range(first, size))
    return Extent(size, pieces, stops=False)


def _header(file: BinaryIO, at: int, frames: int) -> bytes:
    """Return an encoder's header with a number of frames, for frames like the one at a position.

    Without this header, libsndfile assumes that all frames have the bit rate of the first one.
    """
    file.seek(at)
    head = file.read(4)
    start = bytes((0xFF, head[1] | 1, 0xE0 | head[2] & 0x0C, head[3]))
    frame = _frame(start) or _Frame(0, 0, 0)
    count = b"Xing" + struct.pack(">2I", 1, frames)
    return (start.ljust(frame.xing, b"\0") + count).ljust(frame.length, b"\0")


def first_frame(file: BinaryIO) -> tuple[int, bool]:
    """Return the position of the first frame, and whether the bit rate is variable."""
    start = tag_end(file)
    file.seek(start)
    frame = _frame(file.read(4))
    if frame is None:
        return start, False
    file.seek(start + frame.xing)
    return start, file.read(4) == b"Xing"


def least_constant(rate: int, channels: int) -> int:
    """Return the lowest constant bit rate at which LAME writes its header, in kb/s.

    The header must fit into one frame. Without it, decoders return the encoder's delay as sound.
    """
    first = rate >= min(_RATES)

    def holds_header(kilobits: int) -> bool:
        frame = _sized(kilobits, rate, first=first, mono=channels == 1)
        return frame.length >= frame.xing + _LAME

    return next(filter(holds_header, _KILOBITS[1 if first else 2]))


def tag_end(file: BinaryIO, at: int = 0) -> int:
    """Return the position after an ID3 tag at `at`, or `at` if there is none."""
    file.seek(at)
    head = file.read(10)
    if len(head) < 10 or not head.startswith(b"ID3"):
        return at
    size = 0
    for byte in head[6:]:
        size = size << 7 | byte & 0x7F
    return at + 10 + size + (10 if head[5] & 0x10 else 0)


def _is_tag(file: BinaryIO, at: int) -> bool:
    """Return whether a tag or zero padding begins at a position."""
    file.seek(at)
    return file.read(8).startswith((b"TAG", b"APETAGEX", b"LYRICSBE", b"ID3", bytes(4)))


def _frame(head: bytes) -> _Frame | None:
    """Return the size of a layer III frame from its header; None if the header is not valid."""
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE6 != 0xE2:
        return None
    version = head[1] >> 3 & 3  # 3: MPEG 1, 2: MPEG 2, 0: MPEG 2.5
    bitrate, rate = head[2] >> 4, head[2] >> 2 & 3
    if version == 1 or bitrate in (0, 15) or rate == 3:
        return None
    first = version == 3
    kilobits = _KILOBITS[1 if first else 2][bitrate - 1]
    hertz = _RATES[rate] >> {3: 0, 2: 1, 0: 2}[version]
    frame = _sized(kilobits, hertz, first=first, mono=head[3] >> 6 == 3)
    return frame._replace(length=frame.length + (head[2] >> 1 & 1))


def _sized(kilobits: int, hertz: int, *, first: bool, mono: bool) -> _Frame:
    """Return the size of a frame without padding; `first` says whether it is MPEG 1."""
    side = (17 if mono else 32) if first else (9 if mono else 17)
    return _Frame((144 if first else 72) * 1000 * kilobits // hertz, 4 + side, hertz)


def _promise(file: BinaryIO, at: int) -> _Promise | None:
    """Return the contents of an encoder's header at a position; None if there is none."""
    file.seek(at)
    head = file.read(16)
    if head.startswith(b"VBRI"):
        return _Promise(known=True)
    if len(head) < 16 or not head.startswith((b"Xing", b"Info")):
        return None
    flags, first, second = struct.unpack(">4x3I", head)
    if not flags & 1:
        return _Promise()
    return _Promise(first, second if flags & 2 else 0, at + 8, known=True)


def _next_frame(file: BinaryIO, at: int, size: int) -> int | None:
    """Return the start of the next frame that is followed by another; skip other data."""
    at = tag_end(file, at)
    while (at := find(file, b"\xff", at)) >= 0 and at + 4 <= size:
        file.seek(at)
        frame = _frame(file.read(4))
        if frame is not None:
            file.seek(at + frame.length)
            after = _frame(file.read(4))
            if after is not None and after[1:] == frame[1:]:
                return at
        at += 1
    return None
