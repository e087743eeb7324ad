"""MP3 files: find their end, and check that no frame is missing or incomplete."""

import re
import struct
from typing import NamedTuple

from alphamf.audio.file_pieces import Extent, Scan, is_tag

STARTS = (b"ID3", *(bytes((0xFF, version | 0b10 | crc)) for version in (0xE0, 0xF0, 0xF8)
          for crc in (0, 1)))  # fmt: skip
"""First bytes of MP3 files: a tag, or a frame of layer III of MPEG 2.5, 2 or 1."""

_RATES = (44100, 48000, 32000)
_KILOBITS = {
    1: (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    2: (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}

_JUNK = 1 << 16
"""Maximum number of bytes before the first frame of a file that nothing else identifies."""

_HEAD = re.compile(b"\xff[\xe2\xe3\xf2\xf3\xfa\xfb][\x10-\xef]", re.DOTALL)
"""First bytes of the frames that `_frame` accepts, and of some that it does not."""

_LAME = 156
"""Length of LAME's header in bytes; it starts like a Xing header and gives the encoder's delay."""


class _Frame(NamedTuple):
    """A frame: length in bytes, position of a Xing header in it, and sampling rate in Hz."""

    length: int
    xing: int
    hertz: int


class _Promise(NamedTuple):
    """What an encoder's header (Xing, Info or VBRI) says about the length of a recording."""

    frames: int = 0  # Number of frames; 0 if the header is VBRI or does not count them
    bytes: int = 0  # Number of bytes; 0 if that is not given
    at: int = 0  # Position of the number of frames; 0 if that is not given
    known: bool = False  # Whether the header counts frames, as VBRI always does


def check(data: Scan) -> Extent:
    """Return a recording's extent; `cut` says if frames are missing, where a header counts them.

    If another recording follows, with its own header or another format, this one ends there.
    libsndfile reads no more frames than the header counts, and fails at bytes that are no frame, so
    the pieces of the extent are tags, frames, and a header with the right count.
    """
    lead = tag_end(data)
    first = lead if _frame(data.get(lead, 4)) else _next_frame(data, lead)
    start = _frame(data.get(first, 4)) if first is not None else None
    if start is None or first is None:
        return Extent(data.size, stops=False)
    promise = _promise(data, first + start.xing) or _Promise()
    runs, begin, at, frames = [], first, first, 0
    lengths = set[int]()
    gaps, end, cut = first > lead, data.size, None
    while frame := _frame(data.get(at, 4)):
        if frames and (_promise(data, at + frame.xing) or frame[1:] != start[1:]):
            end = at
            break
        if at + frame.length > data.size:  # without a count, it is not missed
            cut = "is truncated: its last MP3 frame is incomplete" if promise.known else None
            end = data.size
            break
        at += frame.length
        frames += 1
        lengths.add(frame.length)
        if _frame(data.get(at, 4)) is None and at + 4 <= data.size:
            following = _next_frame(data, at)
            gaps = gaps or following is not None or not _is_tag(data, at)
            if following is not None:
                runs.append(range(begin, at))
                begin = at = following
    runs.append(range(begin, at))
    # Encoders differ in whether their count holds the frame of the Xing header itself.
    short = frames == promise.frames and at - first < promise.bytes
    if (frames < promise.frames or short) and not gaps:
        cut = cut or (
            f"is truncated: its header promises {promise.frames} frames of MP3, {frames} are there"
        )
    tags = range(at, end) if is_tag(data.get(at, 8)) else range(0)
    pieces: list[bytes | range] = [range(lead), *runs, tags]
    if not promise.known and len(lengths) > 1:
        pieces.insert(1, _header(data, first, frames))  # or libsndfile estimates their number
    elif promise.at and frames - 1 > promise.frames:
        count, after = (frames - 1).to_bytes(4, "big"), promise.at + 4
        pieces[1:2] = range(first, promise.at), count, range(after, runs[0].stop)
    elif first == lead and len(runs) == 1 and (promise.known or at == end):
        return Extent(end, stops=False, frames=None if promise.known else 1, cut=cut)
    return Extent(end, pieces, stops=False, frames=None if promise.known else 1, cut=cut)


def _header(data: Scan, at: int, frames: int) -> bytes:
    """Return a frame, like the one at a position, with an encoder's header that counts `frames`.

    Without this header, libsndfile assumes that all frames have the bit rate of the first one.
    """
    head = data.get(at, 4)
    start = bytes((0xFF, head[1] | 1, 0xE0 | head[2] & 0x0C, head[3]))
    frame = _frame(start) or _Frame(0, 0, 0)
    count = b"Xing" + struct.pack(">2I", 1, frames)
    return (start.ljust(frame.xing, b"\0") + count).ljust(frame.length, b"\0")


def first_frame(data: Scan) -> tuple[int, bool]:
    """Return the position after any ID3 tag, and whether a Xing header says the bit rate varies."""
    start = tag_end(data)
    frame = _frame(data.get(start, 4))
    return start, frame is not None and data.get(start + frame.xing, 4) == b"Xing"


def least_constant(rate: int, channels: int) -> int:
    """Return the lowest constant bit rate at which LAME writes its header, in kb/s.

    The header must fit into one frame. Without it, decoders return the encoder's delay as sound.
    """
    first = rate >= min(_RATES)

    def holds_header(kilobits: int) -> bool:
        frame = _sized(kilobits, rate, first=first, mono=channels == 1)
        return frame.length >= frame.xing + _LAME

    return next(filter(holds_header, _KILOBITS[1 if first else 2]))


def tag_end(data: Scan, at: int = 0) -> int:
    """Return the position after an ID3 tag at `at`, or `at` if there is none."""
    head = data.get(at, 10)
    if len(head) < 10 or not head.startswith(b"ID3"):
        return at
    size = 0
    for byte in head[6:]:
        size = size << 7 | byte & 0x7F
    return at + 10 + size + (10 if head[5] & 0x10 else 0)


def begins_midway(data: Scan) -> bool:
    """Return whether three frames follow each other after at most `_JUNK` other bytes."""
    at = _next_frame(data, 0)
    if at is None or at > _JUNK:
        return False
    for _ in range(3):
        frame = _frame(data.get(at, 4))
        if frame is None:
            return False
        at += frame.length
    return True


def _is_tag(data: Scan, at: int) -> bool:
    """Return whether a tag or zero padding begins at a position."""
    head = data.get(at, 8)
    return is_tag(head) or head.startswith(bytes(4))


def _frame(head: bytes) -> _Frame | None:
    """Return what a layer III frame's header, `head`, says; None if the header is not valid."""
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
    """Return a frame without padding, given kb/s and Hz; `first`: whether it is MPEG 1."""
    side = (17 if mono else 32) if first else (9 if mono else 17)
    return _Frame((144 if first else 72) * 1000 * kilobits // hertz, 4 + side, hertz)


def _promise(data: Scan, at: int) -> _Promise | None:
    """Return the contents of an encoder's header at a position; None if there is none."""
    head = data.get(at, 16)
    if head.startswith(b"VBRI"):
        return _Promise(known=True)
    if len(head) < 16 or not head.startswith((b"Xing", b"Info")):
        return None
    flags, first, second = struct.unpack(">4x3I", head)
    if not flags & 1:
        return _Promise()
    return _Promise(first, second if flags & 2 else 0, at + 8, known=True)


def _next_frame(data: Scan, at: int) -> int | None:
    """Return the position of the next frame that a similar one follows, or None."""
    at = tag_end(data, at)
    while (at := data.find(_HEAD, 3, at)) >= 0:
        frame = _frame(data.get(at, 4))
        after = _frame(data.get(at + frame.length, 4)) if frame else None
        if frame and after and after[1:] == frame[1:]:
            return at
        at += 1
    return None
