"""What a file's own header promises, and which formats can be written back as they were.

libsndfile reads as much as it finds and says nothing when a file was cut, so the promise is read
here: the chunk sizes of RIFF and AIFF files and the last page of Ogg files.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import BinaryIO, NamedTuple

from alphamf.errors import AlphaMFError

SUFFIXES = {
    ".wav": "WAV",
    ".wave": "WAV",
    ".flac": "FLAC",
    ".ogg": "OGG",
    ".oga": "OGG",
    ".opus": "OGG",
    ".mp3": "MP3",
    ".aif": "AIFF",
    ".aiff": "AIFF",
    ".aifc": "AIFF",
    ".au": "AU",
    ".snd": "AU",
    ".caf": "CAF",
    ".w64": "W64",
    ".rf64": "RF64",
    ".sph": "NIST",
}
"""File name endings that are searched for in folders, and the format written under each."""

_RIFF = ("PCM_16", "PCM_24", "PCM_U8", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW")
_PCM = ("PCM_16", "PCM_24", "PCM_S8", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW")
WRITABLE = {
    "WAV": _RIFF,
    "WAVEX": _RIFF,
    "RF64": _RIFF,
    "W64": _RIFF,
    "AU": _PCM,
    "AIFF": ("PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"),
    "CAF": (*_PCM, "ALAC_16"),
    "NIST": ("PCM_16", "PCM_24", "PCM_S8", "PCM_32", "ULAW", "ALAW"),
    "FLAC": ("PCM_16", "PCM_24", "PCM_S8"),
    "OGG": ("VORBIS", "OPUS"),
    "MP3": ("MPEG_LAYER_III",),
}
"""Formats and subtypes that libsndfile 1.2.2 gives back with the length they were written with and
no delay; tests/audio/test_writer.py checks each. Left out: ADPCM, GSM and 8-bit AIFF, whose length
is rounded up, and ALAC of more than 16 bits, whose noise-like packets come back wrong."""

_FINE = ("PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ALAC_20", "ALAC_24", "ALAC_32")
_BYTES = {"PCM_16": 2, "PCM_24": 3, "PCM_32": 4, "FLOAT": 4, "DOUBLE": 8}
_RIFF_LIMIT = 2**32 - 2**16


class Format(NamedTuple):
    """A file format and a sample format, as libsndfile names them."""

    format: str
    subtype: str


def writable(wanted: str, subtype: str, *, samples: int = 0) -> Format:
    """Return what to write so that samples of `subtype` keep in a file of format `wanted`.

    A subtype that the format lacks becomes 24 bits where it is finer than 16 bits, and 16 bits
    otherwise. A WAV file whose `samples` (over all channels) need 4 GB or more becomes RF64.
    """
    subtypes = WRITABLE[wanted]
    if subtype not in subtypes:
        fine = "PCM_24" if subtype in _FINE else "PCM_16"
        subtype = fine if fine in subtypes else subtypes[0]
    if wanted in ("WAV", "WAVEX") and samples * _BYTES.get(subtype, 1) >= _RIFF_LIMIT:
        wanted = "RF64"
    return Format(wanted, subtype)


def check(path: Path, name: str) -> int | None:
    """Check that the file holds what its header promises.

    Returns
    -------
    int or None
        Position of a data size that a program which wrote to a pipe left at 0, and which
        libsndfile would take for an empty file; None for all other files.

    Raises
    ------
    AlphaMFError
        The file is shorter than promised.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(12)
        if head[:4] in (b"RIFF", b"RIFX", b"RF64") and head[8:] == b"WAVE":
            return _check_chunks(file, size, b"data", ">" if head[:4] == b"RIFX" else "<", name)
        if head[:4] == b"FORM" and head[8:] in (b"AIFF", b"AIFC"):
            return _check_chunks(file, size, b"SSND", ">", name)
        if head[:4] == b"OggS":
            _check_ogg(file, size, name)
    return None


def _check_chunks(file: BinaryIO, size: int, data: bytes, order: str, name: str) -> int | None:
    long_size = None
    while len(header := file.read(8)) == 8:
        kind, promised = struct.unpack(f"{order}4sI", header)
        start = file.tell()
        if kind == b"ds64" and len(body := file.read(16)) == 16:
            long_size = struct.unpack("<8xQ", body)[0]
        if kind == data:
            if promised == 0xFFFFFFFF and long_size is not None:
                promised = long_size
            if promised == 0:
                return None if _only_chunks(file, size, order) else start - 4
            if promised > size - start and not _is_placeholder(promised):
                raise AlphaMFError(
                    f"{name} is cut short: its header promises {promised} bytes of samples and "
                    f"{size - start} are there"
                )
            return None
        file.seek(start + promised + promised % 2)
    raise AlphaMFError(f"{name} is cut short: its header ends before any samples")


def _only_chunks(file: BinaryIO, size: int, order: str) -> bool:
    """Whether whole chunks fill the rest of the file, so that no samples hide there."""
    while len(header := file.read(8)) == 8:
        kind, length = struct.unpack(f"{order}4sI", header)
        if not all(32 <= byte < 127 for byte in kind):
            return False
        file.seek(length + length % 2, os.SEEK_CUR)
    return not header and file.tell() <= size + 1


def _is_placeholder(size: int) -> bool:
    """Whether a size means "not known yet": 2^32 - 1 from ffmpeg, about 2^31 from SoX, arecord."""
    return size >= 2**32 - 2**12 or 2**31 - 2**13 <= size <= 2**31


def _check_ogg(file: BinaryIO, size: int, name: str) -> None:
    """Check that the last page, of 65307 bytes at most, is whole."""
    file.seek(max(0, size - 65307))
    tail = file.read()
    page = tail[max(0, tail.rfind(b"OggS")) :]
    table = page[27 : 27 + page[26]] if len(page) > 26 else b""
    if not table or len(table) < page[26] or len(page) < 27 + len(table) + sum(table):
        raise AlphaMFError(f"{name} is cut short: its last Ogg page is not whole")
