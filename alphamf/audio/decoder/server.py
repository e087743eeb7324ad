"""The process that makes decoders: one for each file, which reads that file and nothing else.

It imports what decoders need once, and has no threads, so that a fork of it is quick and safe. It
never looks into a file beyond its first bytes.
"""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any, BinaryIO, Literal

import numpy as np
import soundfile

from alphamf.audio.cut import Undecodable
from alphamf.audio.decoder import messages
from alphamf.audio.decoder.confine import confine
from alphamf.audio.media import kinds
from alphamf.audio.opening import next_block, next_wide_block, open_here
from alphamf.errors import AlphaMFError

CONTROL = 3
"""Descriptor through which requests come: the descriptors of a file and of a channel to answer on,
and what `alphamf.audio.decoder.messages.REQUEST` says."""

_MOST = 1 << 16
"""Most bytes of a request."""

_LATE = "av.stream", "av.subtitles.codeccontext", "av.subtitles.stream"
"""What PyAV imports when a file needs it, which is too late in a decoder."""

_FILE, _CHANNEL = 3, 4
"""Descriptors of a decoder."""


class Handle:
    """An open file that can be opened again, each time at its start, without its name.

    Parameters
    ----------
    descriptor
        The file's.
    name
        What its ending is taken from.
    """

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor, self._name = descriptor, name
        self._size = os.fstat(descriptor).st_size

    def open(self, mode: Literal["rb"], /) -> BinaryIO:
        """Return a file at its start."""
        return io.BufferedReader(_Raw(self._descriptor, self._size, self._name))


class _Raw(io.RawIOBase):
    """A file with a position of its own, without system calls but for reading."""

    def __init__(self, descriptor: int, size: int, name: str) -> None:
        self._descriptor, self._size, self._at = descriptor, size, 0
        self.name = name

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        count = os.preadv(self._descriptor, [buffer], self._at)
        self._at += count
        return count

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise ValueError(f"negative position {start + offset}")
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        return self._at


def main() -> None:
    """Fork a decoder for each request, until whoever asks has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's Ctrl-C goes to all processes
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for decoders
    _warm_up()
    with socket.socket(fileno=CONTROL) as control:
        while True:
            request, descriptors, _, _ = socket.recv_fds(control, _MOST, 2)
            if not request:
                return
            try:
                if len(descriptors) == 2:
                    _answer(request, *descriptors)
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)


def _answer(request: bytes, file: int, channel: int) -> None:
    (track,) = messages.REQUEST.unpack_from(request)
    ending, name = request[messages.REQUEST.size :].decode("utf-8", "surrogateescape").split("\0")
    handle = Handle(file, f"audio{ending}")
    with suppress(OSError, ImportError):
        if kinds.find(handle) is not None:
            for module in _LATE:
                import_module(module)
    if os.fork():
        return
    try:
        os.dup2(file, _FILE)
        os.dup2(channel, _CHANNEL)
        os.closerange(_CHANNEL + 1, os.sysconf("SC_OPEN_MAX"))
        handle = Handle(_FILE, f"audio{ending}")
        answers = io.FileIO(_CHANNEL, "r+")
        messages.send(answers, messages.DONE, bytes([confine()]))
        _decode(answers, handle, name, track or None, ending)
    finally:  # what was raised has no one to be shown to
        os._exit(0)


def _decode(channel: io.FileIO, handle: Handle, name: str, track: int | None, ending: str) -> None:
    """Open the file and do what is asked, until the channel is closed."""
    file: Any = None

    def first() -> bytes:
        nonlocal file
        file = open_here(handle, name, track, ending=ending)
        return json.dumps(_kind(file)).encode()

    _attempt(channel, first)
    with suppress(EOFError):
        while file is not None:
            kind, number = messages.header(channel)
            _attempt(channel, lambda k=kind, n=number: _do(file, k, n))


def _attempt(channel: io.FileIO, work: Any) -> None:
    """Send what a function returns, or the sentence that it raises."""
    try:
        answer = messages.DONE, work()
    except AlphaMFError as error:
        answer = messages.REFUSED, str(error).encode("utf-8", "replace")
    except Undecodable as error:
        answer = messages.UNDECODABLE, str(error).encode("utf-8", "replace")
    except soundfile.LibsndfileError as error:
        answer = messages.UNDECODABLE, error.error_string.rstrip(".").encode("utf-8", "replace")
    except MemoryError:
        answer = messages.MEMORY, b""
    messages.send(channel, *answer)


def _do(file: Any, kind: bytes, number: int) -> Any:
    if kind == messages.READ:
        return np.ascontiguousarray(next_block(file, number))
    if kind == messages.READ_WIDE:
        return np.ascontiguousarray(next_wide_block(file, number), np.float64)
    if kind == messages.SEEK:
        file.seek(number)
        return b""
    about = file.about()
    start = about.start.as_integer_ratio()
    return json.dumps({**vars(about), "start": start}).encode()


def _kind(file: Any) -> dict[str, Any]:
    """Return what a file is, by its header."""
    tags = file.copy_metadata() if isinstance(file, soundfile.SoundFile) else {}
    return {
        "samplerate": file.samplerate,
        "channels": file.channels,
        "frames": file.frames,
        "format": file.format,
        "subtype": file.subtype,
        "tagged": bool(set(tags) - {"software"}),
        "media": not isinstance(file, soundfile.SoundFile),
    }


def _warm_up() -> None:
    """Have everything loaded that the first file would load, memory for callbacks among it."""
    buffer = io.BytesIO()
    soundfile.write(buffer, np.zeros((16, 2)), 8000, format="WAV")
    buffer.seek(0)
    with soundfile.SoundFile(buffer) as file:
        file.copy_metadata()
        file.read(16, dtype="float32", always_2d=True)
    json.loads(json.dumps({}))


if __name__ == "__main__":
    sys.exit(main())
