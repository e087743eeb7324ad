"""FLAC files: find their end, and the length and the MD5 sum in their header."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

from alphamf.audio import mp3, subtypes
from alphamf.audio.file_pieces import Scan
from alphamf.audio.layout import Extent, replace_bytes

if TYPE_CHECKING:
    from alphamf.tools.arrays import Floats

START = b"fLaC"

_FIRST = re.compile(b"fLaC[\0\x80]\0\0\x22")
"""The start, and the header of the first block of metadata, with or without others after it."""

_COUNT = 2**36 - 1
"""The bits of the number of samples."""


def check(data: Scan) -> Extent:
    """Find the end of a recording, so that libsndfile reads all samples despite its header."""
    start = mp3.tag_end(data)
    head = data.get(start, 42)
    if not head.startswith(START) or len(head) < 42:
        return Extent(data.size, stops=False)
    number = int.from_bytes(head[18:26], "big")
    following = data.find(_FIRST, 8, start + 42)
    end = data.size if following < 0 else following
    pieces = replace_bytes(end, start + 18, (number & ~_COUNT).to_bytes(8, "big"))
    md5 = head[26:42] if any(head[26:42]) else None
    return Extent(end, pieces, stops=False, frames=number & _COUNT or None, md5=md5)


class Sum:
    """The MD5 sum of samples, as FLAC defines it."""

    def __init__(self, subtype: str) -> None:
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._bits = subtypes.get(subtype).bits

    def add(self, block: Floats) -> None:
        """Add samples, shape (n, channels)."""
        import numpy as np

        steps: Any = (block * np.float32(2 ** (self._bits - 1))).astype("<i4")
        data = steps[..., None].view(np.uint8)[..., : self._bits // 8]
        self._md5.update(np.ascontiguousarray(data).data)

    @property
    def digest(self) -> bytes:
        """The sum so far."""
        return self._md5.digest()
