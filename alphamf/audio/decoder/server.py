"""The process that forks decoders, one per file; each can use only its file and any output.

It imports what decoders need once, and has no threads, so that forking it is quick and safe. It
never reads more than the first bytes of a file.
"""

import gc
import io
import json
import os
import signal
import socket
import sys
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import soundfile

from alphamf.audio import tags
from alphamf.audio.decoder import sandbox, tasks
from alphamf.audio.decoder.confine import confine, end_with_parent, prepare
from alphamf.audio.decoder.sandbox import STARTED
from alphamf.audio.file_pieces import Handle, Sink
from alphamf.audio.media import kinds

CONTROL = 3
"""Descriptor through which requests arrive; see `alphamf.audio.decoder.sandbox.request`."""

_MOST = 1 << 17
"""Maximum number of bytes of a request."""

_LATE = "av.stream", "av.subtitles.codeccontext", "av.subtitles.stream"
"""Modules that PyAV imports when a file needs them, which is too late in a decoder."""

_FILE, _CHANNEL, _OUTPUT = 3, 4, 5
"""Descriptors of a decoder: its file, its connection, and the output, if any."""


def main() -> None:
    """Fork a decoder for each request, until the requesting process closes the connection."""
    if sys.platform == "win32":
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's Ctrl-C goes to all processes
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for decoders
    _close_from(CONTROL + 1)
    _warm_up()
    with socket.socket(fileno=CONTROL) as control:
        while True:
            request, descriptors, _, _ = socket.recv_fds(control, _MOST, 3)
            if not request:
                return
            try:
                if len(descriptors) > 1:  # or there was no place for them
                    _fork(json.loads(request), descriptors)
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)


def _fork(asked: dict[str, Any], descriptors: list[int]) -> None:
    """Fork a decoder; it works and ends in this function, which returns only in the helper."""
    if sys.platform == "win32":
        return
    with suppress(OSError):
        if "tags" in asked:
            tags.prepare()
        elif kinds.may_need_ffmpeg(os.pread(descriptors[0], 64, 0)):
            for module in _LATE:
                import_module(module)
    helper = os.getpid()
    try:
        if os.fork():
            return
    except OSError:  # the other process notices that the channel is closed
        return
    try:
        end_with_parent(helper)
        _work(asked, descriptors)
    finally:  # nobody would see an exception
        os._exit(0)


def _work(asked: dict[str, Any], descriptors: list[int]) -> None:
    """Give up all rights except to the descriptors, and do the requested work."""
    if sys.platform == "win32":
        return
    gc.enable()
    for place, descriptor in enumerate(descriptors, _FILE):
        os.dup2(descriptor, place)
    _close_from(_FILE + len(descriptors))
    source = Handle(_FILE, f"audio{asked['ending']}")
    channel = io.FileIO(_CHANNEL, "r+")
    sink = Sink(_OUTPUT, asked["output"]) if "output" in asked else None
    tagged = open(_OUTPUT, "r+b") if "tags" in asked else None
    number = os.getpid()
    layers = confine(writes=sink is not None or tagged is not None)
    sandbox.send(channel, sandbox.DONE, STARTED.pack(layers, number))
    if tagged is not None:
        start: Any = partial(tasks.tag, source, tagged, asked["tags"])
    elif sink is None:
        start = partial(tasks.decode, source, asked)
    else:
        start = partial(tasks.copy, source, sink, asked, channel)
    tasks.run(channel, start)


def _close_from(least: int) -> None:
    """Close all descriptors from a number on, including those above the soft limit."""
    try:
        numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        numbers = [*range(least, 1 << 20)]
    for number in numbers:
        if number >= least:
            with suppress(OSError):  # that of the listing
                os.close(number)


def _warm_up() -> None:
    """Load what the first file would load, and turn off garbage collection; forks turn it on."""
    prepare()
    buffer = io.BytesIO()
    soundfile.write(buffer, np.zeros((16, 2)), 8000, format="WAV")
    buffer.seek(0)
    with soundfile.SoundFile(buffer) as file:
        file.read(16, dtype="float32", always_2d=True)
    gc.disable()  # it would copy the memory that forks share
    gc.freeze()
