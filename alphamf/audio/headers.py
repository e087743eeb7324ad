"""AU and NIST files, whose samples follow one header: whether they are whole."""

from __future__ import annotations

import re
import struct
from typing import BinaryIO, Literal

from alphamf.audio.cut import short


def check_au(file: BinaryIO, size: int, name: str, *, order: Literal["<", ">"]) -> None:
    """Check that an AU file holds as many bytes of samples as its header promises.

    Parameters
    ----------
    file
        The open file.
    size
        Its length in bytes.
    name
        Its name in error messages.
    order
        Of the bytes in numbers.

    Raises
    ------
    Cut
        The file is shorter than promised.
    """
    file.seek(4)
    numbers = file.read(8)
    if len(numbers) == 8:
        start, promised = struct.unpack(f"{order}II", numbers)
        if promised != 0xFFFFFFFF and promised > size - start:  # the former: not known
            raise short(name, promised, size - start)


def check_nist(file: BinaryIO, size: int, name: str) -> None:
    """Check that a NIST SPHERE file holds as many samples as its header promises.

    Compressed samples (shorten) are not checked, as their number says nothing of bytes.

    Parameters
    ----------
    file, size, name
        As for `check_au`.

    Raises
    ------
    Cut
        The file is shorter than promised.
    """
    file.seek(0)
    start = re.match(rb"NIST_1A\s+(\d{1,7})\s", file.read(16))
    if start is None:
        return
    file.seek(0)
    header = file.read(min(int(start[1]), 1 << 16))
    if b"shorten" in header:
        return
    fields = dict(re.findall(rb"^(\w+) +-(?:i|s\d+) +(\d{1,18})\s*$", header, re.MULTILINE))
    count = int(fields.get(b"sample_count", 0))
    promised = count * int(fields.get(b"channel_count", 1)) * int(fields.get(b"sample_n_bytes", 1))
    if promised > size - int(start[1]):
        raise short(name, promised, size - int(start[1]))
