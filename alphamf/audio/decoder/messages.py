"""Messages between a process and its decoder: a header of nine bytes, and bytes of that length.

Neither side makes anything of them but numbers, text and samples: a decoder that a file has taken
over can give false samples, and nothing more.
"""

from __future__ import annotations

import io
import struct
from typing import Any

_HEADER = struct.Struct("=cQ")

READ, READ_WIDE, SEEK, ABOUT = b"f", b"d", b"s", b"a"
"""What is asked of a decoder: the next samples in single or double precision, to move to a sample,
and what is known of a track. Each comes with a number of samples."""

FLOATS, INTEGERS, FINISH = b"F", b"I", b"."
"""What is asked of what writes a media file: to append float32 or int32, and to write the end."""

DONE, REFUSED, UNDECODABLE, INVALID, MEMORY = b"=", b"!", b"?", b"v", b"m"
"""What is answered: what was asked for; sentences of an AlphaMFError, of a DecodingError and of a
ValueError; and that memory is short."""


def send(channel: io.FileIO, kind: bytes, data: Any = b"", *, number: int | None = None) -> None:
    """Send a message.

    Parameters
    ----------
    channel
        The connection.
    kind
        A byte that says what it is.
    data
        Its bytes.
    number
        What the header holds in place of their length, where there are none.

    Raises
    ------
    EOFError
        The other side has ended.
    """
    view = memoryview(data)
    length = view.nbytes if number is None else number
    for part in (memoryview(_HEADER.pack(kind, length)), view.cast("B") if view.nbytes else view):
        left = part
        while left.nbytes:
            try:
                left = left[channel.write(left) :]
            except ConnectionError as error:
                raise EOFError from error


def header(channel: io.FileIO) -> tuple[bytes, int]:
    """Return what the next message is, and its number.

    Raises
    ------
    EOFError
        There is none: the other side has ended.
    """
    data = bytearray(_HEADER.size)
    fill(channel, memoryview(data))
    kind, number = _HEADER.unpack(data)
    return kind, number


def fill(channel: io.FileIO, into: memoryview) -> None:
    """Receive as many bytes as a buffer holds.

    Raises
    ------
    EOFError
        The other side has ended.
    """
    while into.nbytes:
        try:
            count = channel.readinto(into)
        except ConnectionError as error:
            raise EOFError from error
        if not count:
            raise EOFError
        into = into[count:]
