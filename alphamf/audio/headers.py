"""AU, NIST and FLAC files: find their end, and the length and the MD5 sum in the header of FLAC."""

import re
import struct
from typing import Literal

from alphamf.audio import mp3
from alphamf.audio.file_pieces import Extent, Scan, replace_bytes, too_few_bytes


def check_au(data: Scan, *, order: Literal["<", ">"]) -> Extent:
    """Return an AU file's extent; its `cut` says if the header promises more bytes than exist."""
    size = data.size
    start, promised = struct.unpack(f"{order}II", data.get(4, 8).ljust(8, b"\0"))
    if promised == 0xFFFFFFFF:  # not known
        return Extent(size)
    if promised > size - start:
        return Extent(size, cut=too_few_bytes(promised, size - start))
    # Only samples follow the header, so those beyond the promised length are read, too.
    pieces = replace_bytes(size, 8, b"\xff\xff\xff\xff") if promised < size - start else None
    return Extent(start + promised if promised else size, pieces, stops=False)


def check_nist(data: Scan) -> Extent:
    """Return a NIST SPHERE file's extent; its length is not checked if Shorten compressed it."""
    size = data.size
    begin = re.match(rb"NIST_1A\s+(\d{1,7})\s", data.get(0, 16))
    if begin is None:
        return Extent(size)
    start = int(begin[1])
    header = data.get(0, min(start, 1 << 16))
    if b"shorten" in header:
        return Extent(size)
    fields = dict(re.findall(rb"^(\w+) +-(?:i|s\d+) +(\d{1,18})\s*$", header, re.MULTILINE))
    count = int(fields.get(b"sample_count", 0))
    promised = count * int(fields.get(b"channel_count", 1)) * int(fields.get(b"sample_n_bytes", 1))
    if promised > size - start:
        return Extent(size, cut=too_few_bytes(promised, size - start))
    return Extent(start + promised if promised else size, stops=False)


FLAC = b"fLaC"

_FIRST = re.compile(b"fLaC[\0\x80]\0\0\x22")
"""Start of a FLAC file and the header of its first metadata block, which may be the only one."""

_COUNT = 2**36 - 1
"""Mask of the number of samples: the lower 36 bits of the header's bytes 18 to 25."""


def check_flac(data: Scan) -> Extent:
    """Return a FLAC recording's extent, whose pieces let libsndfile read all samples."""
    start = mp3.tag_end(data)
    head = data.get(start, 42)
    if not head.startswith(FLAC) or len(head) < 42:
        return Extent(data.size, stops=False)
    number = int.from_bytes(head[18:26], "big")
    following = data.find(_FIRST, 8, start + 42)
    end = data.size if following < 0 else following
    pieces = replace_bytes(end, start + 18, (number & ~_COUNT).to_bytes(8, "big"))
    md5 = head[26:42] if any(head[26:42]) else None
    return Extent(end, pieces, stops=False, frames=number & _COUNT or None, md5=md5)
