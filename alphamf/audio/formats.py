"""The supported audio formats, one record each; to add a format, add a record.

FFmpeg's muxers write media containers; `alphamf.audio.media.kinds` checks those that are read.
Decoders read as much as they find and do not report truncated files, so this module checks the
length in the header if the format has one.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from alphamf.audio import chunks, headers, mp3, ogg
from alphamf.audio.file_pieces import Extent, FilePart, Layout, Pieces, Scan
from alphamf.audio.media import kinds
from alphamf.errors import AlphaMFError


class Subtype(NamedTuple):
    """A sample format, such as 16-bit PCM or a lossy codec."""

    name: str  # As libsndfile names it, or as alphamf does if FFmpeg decodes it
    # Bits of an integer that `alphamf.audio.writer` rounds to; 0 where it does not round.
    bits: int = 0
    size: int = 1  # Bytes of a sample in a file, where it is not compressed
    fine: bool = False  # Whether it is more precise than 16 bits
    companded: bool = False  # Whether it is mu-law or A-law: values above full scale wrap around
    wide: bool = False  # Whether single precision does not hold its samples


SUBTYPES = {
    subtype.name: subtype
    for subtype in (
        Subtype("PCM_S8", 8),
        Subtype("PCM_U8", 8),
        Subtype("PCM_16", 16, size=2),
        Subtype("PCM_24", 24, size=3, fine=True),
        Subtype("PCM_32", 32, size=4, fine=True, wide=True),
        Subtype("FLOAT", size=4, fine=True),
        Subtype("DOUBLE", size=8, fine=True, wide=True),
        Subtype("ULAW", companded=True),
        Subtype("ALAW", companded=True),
        Subtype("ALAC_16", 16),
        Subtype("ALAC_20", fine=True),
        Subtype("ALAC_24", 24, fine=True),
        Subtype("ALAC_32", fine=True, wide=True),
        *(
            Subtype(f"{codec}_{bits}", bits, fine=bits > 16)
            for codec in ("FLAC", "WAVPACK", "TTA", "APE", "TAK", "SHORTEN", "TRUEHD", "MLP")
            for bits in (16, 24)
        ),
        Subtype("AMR_NB", 16),
    )
}
"""By name, the sample formats that differ from the defaults of a `Subtype`."""


def subtype_named(name: str) -> Subtype:
    """Return the record of a sample format; one not in `SUBTYPES` gets the default values."""
    return SUBTYPES.get(name, Subtype(name))


class Header(NamedTuple):
    """The magic bytes of a file format, and the function that checks the length in the header."""

    # start, kind: the file's bytes from 0 on and from 8 on; empty: any bytes.
    start: bytes
    kind: bytes
    check: Callable[[Scan], Extent]  # Returns where the recording ends, and what is missing


class Encoding(NamedTuple):
    """Names of a format, as in `FORMATS`, and of one of its subtypes."""

    format: str
    subtype: str


@dataclass(frozen=True)
class Format:
    """A file format: how alphamf writes it, and checks its length."""

    name: str  # As libsndfile names it, or as alphamf does if it is a media container
    # Subtypes that libsndfile 1.2.2 gives back with the length they were written with and no delay,
    # the default first; tests/audio/test_writer.py checks each. Left out: ADPCM, GSM and 8-bit
    # AIFF, whose length is rounded up, and ALAC of more than 16 bits, whose noise-like packets come
    # back wrong.
    subtypes: tuple[str, ...] = ()
    # File name endings that are searched for in folders, and that choose the format.
    suffixes: tuple[str, ...] = ()
    # Subtypes by the endings that choose one.
    suffix_subtypes: Mapping[str, str] = field(default_factory=dict)
    headers: tuple[Header, ...] = ()  # Headers that promise a length
    # Name of the format that takes its place for more than 4 GB of samples.
    beyond_4_gb: str | None = None
    slack: int = 0  # Samples per channel by which a file may be shorter than its header promises
    # Whether an encoder does not report a full disk, so that what was written is read back.
    encoder_hides_errors: bool = False
    # Removes times and random numbers from a written file: equal samples give equal bytes.
    make_reproducible: Callable[[Path], None] | None = None
    # FFmpeg's name of it, where it is a media container; then `subtypes` are keys of
    # `alphamf.audio.media.track.CODECS`.
    muxer: str | None = None

    def encoding(self, subtype: str, *, samples: int = 0) -> Encoding:
        """Return the best encoding in this format for a subtype and `samples` in all channels."""
        if subtype not in self.subtypes:
            fine = "PCM_24" if subtype_named(subtype).fine else "PCM_16"
            exact = subtype in SUBTYPES and fine in self.subtypes
            subtype = fine if exact else self.subtypes[0]
        size = samples * subtype_named(subtype).size
        return Encoding((size >= _4_GB and self.beyond_4_gb) or self.name, subtype)


_4_GB = 2**32 - 2**16
_RIFF = ("PCM_16", "PCM_24", "PCM_U8", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW")
_PCM = ("PCM_16", "PCM_24", "PCM_S8", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW")
_FRAME = 8192
"""Samples per channel that media files may lack: those of a packet and of an encoder's delay."""

_PLAIN = ("PCM_16", "PCM_24", "PCM_32", "FLOAT")
_MP4 = ("AAC", "ALAC_16", "ALAC_24", "MP3", "AC3", "EAC3", "OPUS", "FLAC_16", "FLAC_24")
_little = partial(chunks.check, order="<")
_big = partial(chunks.check, order=">")

FORMATS = {
    form.name: form
    for form in (
        Format(
            "WAV",
            _RIFF,
            (".wav", ".wave"),
            headers=(Header(b"RIFF", b"WAVE", _little), Header(b"RIFX", b"WAVE", _big)),
            beyond_4_gb="RF64",
            make_reproducible=partial(chunks.clear_peak_time, order="<"),
        ),
        Format(
            "WAVEX",
            _RIFF,
            (".wav", ".wave"),
            beyond_4_gb="RF64",
            make_reproducible=partial(chunks.clear_peak_time, order="<"),
        ),
        Format(
            "FLAC",
            ("PCM_16", "PCM_24", "PCM_S8"),
            (".flac",),
            headers=(Header(headers.FLAC, b"", headers.check_flac),),
        ),
        Format(
            "OGG",
            ("VORBIS", "OPUS"),
            (".ogg", ".oga", ".opus"),
            suffix_subtypes={".opus": "OPUS"},
            headers=(Header(b"OggS", b"", ogg.check),),
            make_reproducible=ogg.clear_serial,
        ),
        # The header of an MP3 counts whole frames, with or without the encoder's padding.
        Format(
            "MP3",
            ("MPEG_LAYER_III",),
            (".mp3",),
            headers=tuple(Header(start, b"", mp3.check) for start in mp3.STARTS),
            slack=1152,
            encoder_hides_errors=True,
        ),
        Format(
            "AIFF",
            ("PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"),
            (".aif", ".aiff", ".aifc"),
            headers=(Header(b"FORM", b"AIFF", _big), Header(b"FORM", b"AIFC", _big)),
            make_reproducible=partial(chunks.clear_peak_time, order=">"),
        ),
        Format(
            "AU",
            _PCM,
            (".au", ".snd"),
            headers=(
                Header(b".snd", b"", partial(headers.check_au, order=">")),
                Header(b"dns.", b"", partial(headers.check_au, order="<")),
            ),
        ),
        Format(
            "CAF", (*_PCM, "ALAC_16"), (".caf",), headers=(Header(b"caff", b"", chunks.check_caf),)
        ),
        Format("W64", _RIFF, (".w64",), headers=(Header(b"riff", b"", chunks.check_w64),)),
        Format(
            "RF64",
            _RIFF,
            (".rf64", ".bw64"),
            headers=(
                Header(b"RF64", b"WAVE", _little),
                Header(b"BW64", b"WAVE", chunks.check_bw64),
            ),
        ),
        Format(
            "NIST",
            ("PCM_16", "PCM_24", "PCM_S8", "PCM_32", "ULAW", "ALAW"),
            (".sph",),
            headers=(Header(b"NIST", b"", headers.check_nist),),
        ),
        Format("MP4", _MP4, (".mp4", ".m4v"), slack=_FRAME, muxer="mp4"),
        Format(
            "M4A",
            ("AAC", "ALAC_16", "ALAC_24", "AC3"),
            (".m4a", ".m4b"),
            slack=_FRAME,
            muxer="ipod",
        ),
        Format("MOV", (*_MP4[:-3], *_PLAIN), (".mov", ".qt"), slack=_FRAME, muxer="mov"),
        Format("3GP", ("AAC", "AMR_NB"), (".3gp", ".3g2"), slack=_FRAME, muxer="3gp"),
        Format("MATROSKA", (*_MP4, *_PLAIN), (".mkv", ".mka"), muxer="matroska"),
        Format("WEBM", ("OPUS",), (".webm",), muxer="webm"),
        Format("ASF", ("WMAV2", "WMAV1"), (".wma", ".wmv", ".asf"), muxer="asf"),
        Format("AMR", ("AMR_NB",), (".amr",), muxer="amr"),
        Format("ADTS", ("AAC",), (".aac",), muxer="adts"),
    )
}
"""The formats that can be written, by name. Of two with the same ending, the first is the default;
libsndfile and FFmpeg read more."""

READ_ONLY = (Header(b"FORM", b"8SVX", _big), Header(b"FORM", b"16SV", _big))
"""Headers of IFF files, which are only read; their length is checked as in AIFF."""

UNCHECKED = frozenset({"AVR", "MAT4", "MAT5", "MPC2K", "SDS", "VOC", "WVE"})
"""Formats that libsndfile reads but alphamf refuses: the length in their headers is not checked, so
that a damaged file could lose sound without a warning."""

SUFFIXES = tuple(dict.fromkeys(suffix for form in FORMATS.values() for suffix in form.suffixes))
"""File name endings of the formats that can be written."""

READ_SUFFIXES = (
    ".3gpp .ac3 .ape .avi .dts .eac3 .f4v .flv .gsm .ismv .latm .m2ts .m2v .mp2 .mpc .mpeg .mpg "
    ".mts .mxf .nut .ogv .ogx .ra .rm .spx .tak .ts .tta .vob .weba .wtv .wv"
).split()
"""More endings that are searched for; outputs are WAV if the format itself cannot be written."""


def get(name: str) -> Format:
    """Return the record of a format; formats that can only be read get a minimal record."""
    return FORMATS.get(name, Format(name))


def by_suffix(suffix: str, preferred: str) -> Format | None:
    """Return the format of an extension, `preferred` if it has the extension, or None."""
    found = {form.name: form for form in FORMATS.values() if suffix in form.suffixes}
    return found.get(preferred, next(iter(found.values()), None))


MOST = 10_000
"""Maximum number of recordings in one file, because each is opened separately."""


def check(data: Scan) -> Layout:
    """Return a file's recordings, the number of spare bytes, and what is missing by its headers."""
    size, parts = data.size, list[FilePart]()
    at, stops, known, cut = 0, False, None, None
    while at < size and not cut and (not parts or data.holds_sound(at)):
        rest = data.rest(at)
        found = _identify(rest)
        if found is None or (parts and known != found[0]):
            break
        if len(parts) == MOST:
            raise AlphaMFError(f"{data.name} holds more than {MOST} recordings")
        known, check_part = found
        extent = check_part(rest)
        stops, cut = extent.stops, extent.cut
        parts.append(FilePart(_moved(extent.pieces, at, at + extent.end), *extent[3:5]))
        at += extent.end
    if not parts:
        return Layout()
    if not stops and not cut and at < size:  # the decoder reads on
        parts[-1] = parts[-1]._replace(pieces=_moved(extent.pieces, at - extent.end, size))
    if len(parts) == 1 and extent.pieces is None:
        parts[0] = parts[0]._replace(pieces=None)
    spare = size - at if stops and not cut and data.holds_sound(at) else 0
    return Layout(parts, spare, cut)


def _identify(data: Scan) -> tuple[object, Callable[[Scan], Extent]] | None:
    """Return the format of a file, and its check; None if there is nothing to check."""
    if (kind := kinds.kind_of(data)) is not None:
        return kind.demuxer, kind.check
    head = data.get(0, 20)
    known = [(form, header) for form in FORMATS.values() for header in form.headers]
    for form, header in (*known, *((header, header) for header in READ_ONLY)):
        if head.startswith(header.start) and head[8:].startswith(header.kind):
            return form, header.check
    if not head.startswith(_PACKED) and mp3.begins_midway(data):
        return FORMATS["MP3"], mp3.check
    return None


_PACKED = (b"RIFF", b"FORM", b"\0\0\1\xba")
"""First bytes of containers that may hold MP3 frames."""


def _moved(pieces: Pieces | None, by: int, end: int) -> Pieces:
    """Return the pieces of a part that begins at `by` as pieces of the whole file, up to `end`."""
    whole = (range(end - by),) if pieces is None else pieces
    return tuple(
        range(piece.start + by, min(piece.stop + by, end)) if isinstance(piece, range) else piece
        for piece in whole
    )


def final_name(path: str, format: str) -> str:
    """Return the output name for an input format: with ``.wav`` if the format can only be read."""
    return path if format in FORMATS else f"{os.path.splitext(path)[0]}.wav"
