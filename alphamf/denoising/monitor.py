"""Listen to what a stream makes of sound while it comes: strength, levels, a recording."""

from __future__ import annotations

import math
import threading
from types import TracebackType
from typing import NamedTuple

import numpy as np

from alphamf.audio.duplex import Duplex
from alphamf.audio.take import Take
from alphamf.denoising.stream import Segment, Stream
from alphamf.tools.arrays import Floats

SILENCE = -100.0
"""Least level that is told, in dB of full scale."""

SECONDS = 0.2
"""Time constant of the levels."""

_WAKE = 0.1
"""Longest wait for sound before the end is looked for, in seconds."""


class Levels(NamedTuple):
    """Levels of the newest sound, in dB of full scale.

    Attributes
    ----------
    input, output
        Of what came in and what was played.
    noise
        Of what the stream takes for noise, whatever the strength.
    """

    input: float
    output: float
    noise: float

    @property
    def reduction(self) -> float:
        """How far the output is below the input, in dB."""
        return self.input - self.output


class Monitor:
    """Denoises block by block, with a strength that may be changed meanwhile.

    Parameters
    ----------
    stream
        At low latency and full strength.
    strength
        From 0 to 1.
    take
        Where before and after are recorded, or None.

    Attributes
    ----------
    strength
        From 0, the input, to 1; a change takes a block to come about, so that it does not click.
    bypass
        Whether the input is played, at the same latency, in place of the speech.
    seconds
        How much has been played.
    note
        What there is to say of the stream's work.
    """

    def __init__(self, stream: Stream, strength: float = 1.0, take: Take | None = None) -> None:
        self.strength: float = strength
        self.bypass: bool = False
        self.seconds: float = 0.0
        self.note: str | None = None
        self._stream, self._take = stream, take
        self._now = strength
        self._powers = np.zeros(3)

    @property
    def levels(self) -> Levels:
        """Levels of the newest sound."""
        least = 10 ** (SILENCE / 10)
        return Levels(*(10 * math.log10(max(power, least)) for power in self._powers))

    def process(self, block: Floats) -> Floats:
        """Take in samples, shape (samples, channels), and return what is to be played."""
        return self._joined(list(self._stream.segments(block)))

    def flush(self) -> Floats:
        """Return what is still held back."""
        return self._joined(list(self._stream.rest()))

    def _joined(self, segments: list[Segment]) -> Floats:
        speech = np.concatenate([segment.audio for segment in segments])
        noise = np.concatenate([segment.noise for segment in segments])
        self.note = next((each.note for each in segments if each.note), self.note)
        wanted = 0.0 if self.bypass else self.strength
        kept = 1 - np.linspace(self._now, wanted, len(speech), dtype=np.float32)
        self._now = wanted if len(speech) else self._now
        out: Floats = speech + kept[:, None] * noise
        if len(out):
            self._measure(speech + noise, out, noise)
        if self._take is not None:
            self._take.write(speech + noise, out)
        return out

    def _measure(self, *sounds: Floats) -> None:
        new = len(sounds[0]) / self._stream.rate
        self.seconds += new
        share = -math.expm1(-new / SECONDS)
        powers = np.array([np.mean(np.square(sound, dtype=float)) for sound in sounds])
        self._powers = self._powers + share * (powers - self._powers)


class Running:
    """A monitor at work between two devices, in a thread of its own, for a `with` block.

    Parameters
    ----------
    monitor
        What is between them.
    duplex
        The devices, running.
    """

    def __init__(self, monitor: Monitor, duplex: Duplex) -> None:
        self._monitor, self._duplex = monitor, duplex
        self._ended = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> Running:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        if kind is None and self._error is not None:
            raise self._error

    def _work(self) -> None:
        try:
            while not self._ended.is_set():
                block = self._duplex.read(_WAKE)
                if len(block):
                    self._duplex.write(self._monitor.process(block))
            self._monitor.flush()
        except BaseException as error:
            self._error = error

    def check(self) -> None:
        """See whether all goes well.

        Raises
        ------
        AlphaMFError
            A device has gone, the sound is not finite, or a recording cannot be written.
        """
        if self._error is not None:
            raise self._error
        self._duplex.check()
