"""AU and NIST files, whose samples follow a single header: find their end."""

from __future__ import annotations

import re
import struct
from typing import BinaryIO, Literal

from alphamf.audio.layout import Extent, replace_bytes, truncation_error


def check_au(file: BinaryIO, size: int, name: str, *, order: Literal["<", ">"]) -> Extent:
    """Check that an AU file has as many bytes of samples as its header promises."""
    file.seek(4)
    numbers = file.read(8)
    start, promised = struct.unpack(f"{order}II", numbers.ljust(8, b"\0"))
    if promised == 0xFFFFFFFF:  # not known
        return Extent(size)
    if promised > size - start:
        raise truncation_error(name, promised, size - start)
    # There is nothing but samples after the header, so that more of them are read, too.
    pieces = replace_bytes(size, 8, b"\xff\xff\xff\xff") if promised < size - start else None
    return Extent(start + promised if promised else size, pieces, stops=False)


def check_nist(file: BinaryIO, size: int, name: str) -> Extent:
    """Check that a NIST SPHERE file has as many samples as its header promises.

    Compressed samples (shorten) are not checked, because their number does not determine the number
    of bytes.
    """
    file.seek(0)
    start = re.match(rb"NIST_1A\s+(\d{1,7})\s", file.read(16))
    if start is None:
        return Extent(size)
    file.seek(0)
    header = file.read(min(int(start[1]), 1 << 16))
    if b"shorten" in header:
        return Extent(size)
    fields = dict(re.findall(rb"^(\w+) +-(?:i|s\d+) +(\d{1,18})\s*$", header, re.MULTILINE))
    count = int(fields.get(b"sample_count", 0))
    promised = count * int(fields.get(b"channel_count", 1)) * int(fields.get(b"sample_n_bytes", 1))
    if promised > size - int(start[1]):
        raise truncation_error(name, promised, size - int(start[1]))
    return Extent(int(start[1]) + promised if promised else size, stops=False)
