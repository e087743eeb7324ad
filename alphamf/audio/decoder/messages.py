"""Messages between a process and its decoder: a header of nine bytes, and bytes of that length.

Both sides parse them only as numbers, text and samples: a compromised decoder can return false
samples, and nothing more.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from typing import Any

_HEADER = struct.Struct("=cQ")

READ, READ_WIDE, SEEK, ENDING = b"f", b"d", b"s", b"e"
"""Requests to a decoder: read samples in single or double precision, seek to a sample, and say what
is known at the end. Each comes with a number of samples."""

FLOATS, INTEGERS, FINISH = b"F", b"I", b"."
"""Requests to a process that writes a media file: append float32 or int32, and write the end."""

DONE, REFUSED, UNDECODABLE, INVALID, MEMORY = b"=", b"!", b"?", b"v", b"m"
"""Answers: the result; the message of an AlphaMFError, a DecodingError or a ValueError; and that
there is not enough memory."""


Wait = Callable[[bool], None]
"""Returns when a channel that does not block can be written to, or read."""


def send(
    channel: io.FileIO,
    kind: bytes,
    data: Any = b"",
    *,
    number: int | None = None,
    wait: Wait | None = None,
) -> None:
    """Send a message."""
    view = memoryview(data)
    length = view.nbytes if number is None else number
    for part in (memoryview(_HEADER.pack(kind, length)), view.cast("B") if view.nbytes else view):
        left = part
        while left.nbytes:
            try:
                count: int | None = channel.write(left)
            except ConnectionError as error:
                raise EOFError from error
            if count is None and wait is not None:
                wait(True)
            left = left[count or 0 :]


def header(channel: io.FileIO, wait: Wait | None = None) -> tuple[bytes, int]:
    """Return the kind and the number of the next message."""
    data = bytearray(_HEADER.size)
    fill(channel, memoryview(data), wait)
    kind, number = _HEADER.unpack(data)
    return kind, number


def fill(channel: io.FileIO, into: memoryview, wait: Wait | None = None) -> None:
    """Receive as many bytes as a buffer holds."""
    while into.nbytes:
        try:
            count: int | None = channel.readinto(into)
        except ConnectionError as error:
            raise EOFError from error
        if count is None and wait is not None:
            wait(False)
        elif not count:
            raise EOFError
        into = into[count or 0 :]
