"""Record from one device and play to another; each has its own clock, and processing may be slow.

The devices call from their own threads and must not wait: recorded samples go into a bounded queue,
samples to play come from a buffer, and samples that are lost or late are counted.
"""

from __future__ import annotations

import queue
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.live.devices import Line, failure, library
from alphamf.tools.arrays import Floats
from alphamf.tools.stopping import Stopwatch

BLOCK = 0.01
"""Seconds of sound per callback of a device."""

HELD = 0.3
"""Maximum number of seconds of sound that wait to be read, in addition to the buffer's length."""

PATIENCE = 5.0
"""Maximum time without a callback, in seconds, before a device counts as lost."""


@dataclass
class LostSound:
    """Numbers of times that sound was lost so far."""

    # overflows, underflows: how often the input lost recorded sound, and how often the output had
    # nothing to play, as PortAudio reports.
    overflows: int = 0
    underflows: int = 0
    gaps: int = 0  # Silences played because nothing was written in time
    # Recorded blocks that nobody read in time, plus cuts of a playout buffer that was too long.
    dropped: int = 0


class Playout:
    """Buffer of samples that are waiting to be played.

    Playing starts, and starts again after a gap, when `margin` samples would remain after a block
    is taken. If more than twice as many remain for a second, because the input's clock is fast or
    after a delay, as many are dropped as were in excess of `margin` at all times of this second.

    `margin`: number of samples; below the size of a block, gaps become likely.
    """

    def __init__(self, rate: int, channels: int, margin: int, lost: LostSound) -> None:
        self.margin: int = margin
        self._rate, self._lost = rate, lost
        self._lock = threading.Lock()
        self._waiting = np.empty((0, channels), np.float32)
        self._playing = False
        self._watch()

    def _watch(self) -> None:
        self._least, self._watched = len(self._waiting), 0

    def put(self, block: Floats) -> None:
        """Append samples, shape (n, channels)."""
        with self._lock:
            self._waiting = np.concatenate([self._waiting, block])

    def take(self, count: int) -> Floats:
        """Return the next samples, shape (count, channels); silence at first and in gaps."""
        with self._lock:
            out = np.zeros((count, self._waiting.shape[1]), np.float32)
            if not self._playing and len(self._waiting) < self.margin + count:
                return out
            if not self._playing:
                self._playing = True
                self._watch()
            ready, self._waiting = self._waiting[:count], self._waiting[count:]
            out[: len(ready)] = ready
            if len(ready) < count:
                self._playing = False
                self._lost.gaps += 1
            self._least = min(self._least, len(self._waiting))
            self._watched += count
            if self._watched >= self._rate:
                if self._least > 2 * self.margin:
                    self._waiting = self._waiting[self._least - self.margin :]
                    self._lost.dropped += 1
                self._watch()
            return out


class Duplex:
    """An input and an output device that run together; use it as a context manager.

    `buffer`: latency to request from each device, in seconds; half of it is the playout's margin.
    """

    def __init__(self, source: Line, target: Line, channels: int, buffer: float) -> None:
        self.rate: int = source.rate
        self.channels: int = channels
        self.lost: LostSound = LostSound()
        self._block = round(BLOCK * self.rate)
        self._lines = (source, target)
        self._come: queue.Queue[Floats] = queue.Queue(round((HELD + buffer) / BLOCK))
        self._buffer = buffer
        self._playout = Playout(self.rate, channels, round(buffer / 2 * self.rate), self.lost)
        self._stack = ExitStack()
        self._streams: list[Any] = []
        self._silent: list[Stopwatch] = []

    def __enter__(self) -> Duplex:
        sounddevice = library()
        kinds = (sounddevice.InputStream, self._take), (sounddevice.OutputStream, self._give)
        with ExitStack() as stack:
            for line, (kind, callback) in zip(self._lines, kinds, strict=True):
                try:
                    stream = kind(
                        device=line.device.number,
                        channels=line.channels,
                        samplerate=self.rate,
                        blocksize=self._block,
                        latency=self._buffer,
                        dtype="float32",
                        callback=callback,
                    )
                    stack.callback(stream.close)
                    self._silent.append(Stopwatch())
                    stream.start()
                except (sounddevice.PortAudioError, ValueError) as error:
                    raise AlphaMFError(
                        f"the {line.kind} {line.device.name} cannot be opened: {failure(error)}"
                    ) from error
                self._streams.append(stream)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @property
    def latencies(self) -> tuple[float, float, float]:
        """Latency of the input, of the playout buffer and of the output, in seconds."""
        first, second = (float(stream.latency) for stream in self._streams)
        return first, self._playout.margin / self.rate, second

    def _take(self, data: Floats, frames: int, when: object, status: Any) -> None:
        """Queue recorded samples; the input device calls this."""
        self._silent[0] = Stopwatch()
        self.lost.overflows += bool(status.input_overflow or status.input_underflow)
        try:
            self._come.put_nowait(data[:, : self.channels].copy())
        except queue.Full:
            self.lost.dropped += 1

    def _give(self, data: Floats, frames: int, when: object, status: Any) -> None:
        """Fill in the samples to play; the output device calls this."""
        self._silent[1] = Stopwatch()
        self.lost.underflows += bool(status.output_underflow or status.output_overflow)
        data[:] = 0
        found = self._playout.take(frames)
        wide = data.shape[1] if self.channels == 1 else min(data.shape[1], self.channels)
        data[:, :wide] = found if self.channels == 1 else found[:, :wide]

    def read(self, patience: float) -> Floats:
        """Return all samples recorded since the last call, shape (samples, channels).

        `patience`: how long to wait if there are none yet, in seconds.
        """
        found: list[Floats] = [np.empty((0, self.channels), np.float32)]
        try:
            found.append(self._come.get(timeout=patience))
            while True:
                found.append(self._come.get_nowait())
        except queue.Empty:
            return np.concatenate(found)

    def write(self, block: Floats) -> None:
        """Append samples, shape (samples, channels), to the playout buffer."""
        self._playout.put(block)

    def check(self) -> None:
        """Raise an AlphaMFError if a device has been disconnected or has stopped."""
        for line, stream, silent in zip(self._lines, self._streams, self._silent, strict=True):
            if not stream.active or silent.seconds() > PATIENCE:
                raise AlphaMFError(
                    f"the {line.kind} {line.device.name} was disconnected or has stopped"
                )
