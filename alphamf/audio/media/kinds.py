"""Media containers that can be read: their first bytes, and checks for truncation.

FFmpeg gets the name of the container and an open file, and opens no file itself. It may guess the
container only among formats that cannot refer to other files, as playlists do.
"""

import re
import struct
from collections.abc import Callable
from functools import partial
from typing import BinaryIO, Literal, NamedTuple, Protocol

from alphamf.audio import chunks
from alphamf.audio.file_pieces import Extent, Scan, replace_bytes, too_few_bytes
from alphamf.errors import AlphaMFError


class Kind(NamedTuple):
    """The container format of a file."""

    format: str  # Its name, as in `alphamf.audio.formats` where it is listed; empty for `ANY`
    demuxer: str | None  # FFmpeg's name of its demuxer; None: FFmpeg chooses one of `SAFE`
    check: Callable[[Scan], Extent]  # Returns where the recording ends, and what is missing
    timed: bool = True  # Whether packets have time stamps; otherwise they follow each other


class Openable(Protocol):
    """A file that can be opened more than once, such as a `pathlib.Path`."""

    def open(self, mode: Literal["rb"], /) -> BinaryIO:
        """Return the file, open at its start."""
        ...


def kind_of(data: Scan) -> Kind | None:
    """Return a file's container by its first bytes; None if libsndfile has to be tried first."""
    head = data.get(0, 96)
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
    if head.startswith(b"RIFF") and head[8:12] == b"WAVE" and chunks.codec(data) not in _DIRECT:
        return Kind("WAV", "wav", partial(chunks.check, order="<"), timed=False)
    if head.startswith(b"riff") and (head[64:66], head[88:90]) == (b"\xfe\xff", b"\3\0"):
        return Kind("W64", "w64", chunks.check_w64, timed=False)  # libsndfile takes it for integers
    return None


def may_need_ffmpeg(head: bytes) -> bool:
    """Return whether FFmpeg may have to decode a file, by its first 64 bytes."""
    if head.startswith(b"RIFF"):
        codec = int.from_bytes(head[20:22], "little")
        return head[8:16] != b"WAVEfmt " or codec not in _DIRECT
    if head.startswith(b"OggS"):
        return not head[28:].startswith((b"OpusHead", b"\x01vorbis"))
    if head.startswith(b"caff"):
        return head[28:32] not in (b"lpcm", b"ulaw", b"alaw")
    return not head.startswith(_NATIVE) and not (head[:1] == b"\xff" and head[1:2] in _LAYER_III)


def index_first(path: Openable) -> bool:
    """Return whether an MP4 file has its index before its samples, so that it can be streamed."""
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
_NATIVE = (b"fLaC", b"ID3", b".snd", b"dns.", b"FORM", b"RF64", b"BW64", b"RIFX", b"NIST")
"""First bytes of files that libsndfile decodes; `may_need_ffmpeg` examines some more kinds."""

_LAYER_III = tuple(bytes([byte]) for byte in (0xE2, 0xE3, 0xF2, 0xF3, 0xFA, 0xFB))

SAFE = (
    "aa aac aax ac3 ac4 acm adx aea aiff amr ape apc asf asf_o ast au avi caf codec2 dhav dsf dss "
    "dts dtshd dv eac3 ea f4v flac flv g722 g729 gsm gxf hca iff ivf ivr kux laf lc3 loas lvf "
    "matroska mlp mmf mov mp2 mp3 mpc mpc8 mpeg mpegts msf mxf nistsphere nsv nut nuv ogg oma osq "
    "paf pmp pva pvf qcp qoa rka rm roq rpl rso sbc shn siff smjpeg sol sox spdif svs swf tak "
    "truehd tta ty usm voc vqf w64 wav wsd wtv wv xa xmv xwma"
).replace(" ", ",")
"""FFmpeg's demuxers of recordings, none of which opens another file."""

_MAGIC = re.compile(re.escape(_EBML))
_SEGMENT = b"\x18\x53\x80\x67"
_ATOMS = (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot")
_BRANDS = {b"qt ": "MOV", b"M4A": "M4A", b"M4B": "M4A", b"3gp": "3GP", b"3g2": "3GP"}
_ASF = bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c")
_ASF_PROPERTIES = bytes.fromhex("a1dcab8c47a9cf118ee400c00c205365")
_ASF_DATA = bytes.fromhex("3626b2758e66cf11a6d900aa0062ce6c")
_ASF_OBJECT = bytes.fromhex("cf11")
"""The seventh and eighth byte of the GUID of most objects, and of all that follow the samples."""

_DIRECT = (None, 0x01, 0x02, 0x03, 0x06, 0x07, 0x11, 0x31, 0x38, 0x40, 0xFFFE)
"""Numbers of the codecs in WAV that libsndfile decodes; None stands for a file without one."""

_AMR_BYTES = {
    b"#!AMR\n": (13, 14, 16, 18, 20, 21, 27, 32, 6),
    b"#!AMR-WB\n": (18, 24, 33, 37, 41, 47, 51, 59, 61, 6),
}
"""Lengths of frames in bytes by their type, including the first byte; keys are starts of files."""


ANY = Kind("", None, lambda data: Extent(data.size, stops=False))
"""Any other kind of file: FFmpeg may be able to decode it."""


def _check_atoms(data: Scan) -> Extent:
    """Return an MP4 or QuickTime file's extent; raise an AlphaMFError if its index is missing.

    `cut` says if an atom exceeds the file. An ftyp after index and samples starts another file.
    """
    at, index, samples = 0, False, False
    while at + 8 <= data.size:
        length, kind = struct.unpack(">I4s", data.get(at, 8))
        if kind == b"ftyp" and index and samples:
            return Extent(at, stops=False)
        if length == 1:
            length = int.from_bytes(data.get(at + 8, 8), "big")
        length = data.size - at if length == 0 else max(8, length)
        index |= kind == b"moov"
        samples |= kind == b"mdat"
        if at + length > data.size:
            if not index:
                break
            return Extent(data.size, stops=False, cut=too_few_bytes(length, data.size - at))
        at += length
    if not index:
        raise AlphaMFError(f"{data.name} is truncated: its index (moov) is missing")
    return Extent(data.size, stops=False)


def _check_matroska(data: Scan) -> Extent:
    """Return a Matroska file's extent; its `cut` says if the header or the segment is truncated.

    If more of its sound may follow the segment, `pieces` set the segment's size to "not known".
    """
    size = data.size
    header, at = _number(data, 4)
    if (header or 0) > size:
        return Extent(size, stops=False, cut=too_few_bytes(header or 0, size - at))
    at += header or 0
    if data.get(at, 4) != _SEGMENT:
        return Extent(size, stops=False)
    at += 4
    length, start = _number(data, at)
    if length is not None and length > size - start:
        return Extent(size, stops=False, cut=too_few_bytes(length, size - start))
    if length is not None and (start + length == size or data.get(start + length, 4) == _EBML):
        return Extent(start + length, stops=False)
    end = start
    while (end := data.find(_MAGIC, 4, end)) >= 0:  # the start of another file
        head = data.get(end, 64)
        if b"webm" in head or b"matroska" in head:
            break
        end += 1
    end = size if end < 0 else end
    if length is None or not data.holds_sound(start + length):
        return Extent(end, stops=False)
    unknown = (1 << 7 * (start - at) | (1 << 7 * (start - at)) - 1).to_bytes(start - at, "big")
    return Extent(end, replace_bytes(end, at, unknown), stops=False)


def _number(data: Scan, at: int) -> tuple[int | None, int]:
    """Return an EBML number at a position, None for "not known", and the position after it."""
    first = data.get(at, 1)
    if not first or not first[0]:
        return None, at + len(first)
    more = 8 - first[0].bit_length()
    rest = data.get(at + 1, more)
    value = int.from_bytes(bytes([first[0] & (1 << 7 - more) - 1]) + rest, "big")
    return (None if value == (1 << 7 * (more + 1)) - 1 else value), at + 1 + len(rest)


def _check_asf(data: Scan) -> Extent:
    """Return an ASF file's extent; `cut` says if bytes are missing, except in a broadcast.

    If no object follows where the samples should end, they continue to the extent's end.
    """
    size = data.size
    end = data.find(re.compile(re.escape(_ASF)), len(_ASF), 16)
    end = size if end < 0 else end
    head = data.get(0, 1 << 16)
    at = head.find(_ASF_PROPERTIES)
    if at < 0 or len(head) < at + 92:
        return Extent(end, stops=False)
    promised = int.from_bytes(head[at + 40 : at + 48], "little")
    live = head[at + 88] & 1
    if not live and promised > size:
        return Extent(size, stops=False, cut=too_few_bytes(promised, size))
    start = int.from_bytes(head[16:24], "little")
    samples = data.get(min(start, size), 24)
    length = int.from_bytes(samples[16:24], "little")
    if live or not samples.startswith(_ASF_DATA):
        return Extent(end, stops=False)
    after = min(start + length, size + 1)
    if length >= 50 and (after == end or data.get(after + 6, 2) == _ASF_OBJECT):
        return Extent(end, stops=False)
    if after > end == size:
        return Extent(size, stops=False, cut=too_few_bytes(length, size - start))
    return Extent(end, replace_bytes(end, start + 16, bytes(8)), stops=False)


def _check_amr(data: Scan) -> Extent:
    """Return an AMR file's extent, up to a second header; `cut` says if a frame is incomplete."""
    start = next(head for head in _AMR_BYTES if data.get(0, 9).startswith(head))
    lengths, at = _AMR_BYTES[start], len(start)
    while at < data.size:
        head = data.get(at, len(start))
        if head == start:
            return Extent(at, stops=False)
        kind = head[0] >> 3 & 15
        at += lengths[kind] if kind < len(lengths) else 1
    cut = "is truncated: its last AMR frame is incomplete" if at > data.size else None
    return Extent(data.size, stops=False, cut=cut)


def _check_adts(data: Scan) -> Extent:
    """Return an AAC file's extent, up to a format change; `cut` says if a frame is incomplete."""
    at, form = 0, b""
    while at + 7 <= data.size:
        head = data.get(at, 6)
        length = (head[3] & 3) << 11 | head[4] << 3 | head[5] >> 5
        if head[0] != 0xFF or head[1] & 0xF6 != 0xF0 or length < 7:
            return Extent(data.size, stops=False)
        now = bytes((head[1] & 8, head[2] & 0xFD, head[3] & 0xC0))
        if form and now != form:
            return Extent(at, stops=False)
        form = now
        at += length
    cut = "is truncated: its last AAC frame is incomplete" if at > data.size else None
    return Extent(data.size, stops=False, cut=cut)
