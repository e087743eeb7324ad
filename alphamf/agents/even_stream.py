"""Denoising at low latency that returns as many samples as it gets, at a variable strength."""

import numpy as np
from numpy.typing import NDArray

from alphamf.denoising.stream import Stream
from alphamf.errors import AlphaMFError
from alphamf.tools.arguments import real_number

Samples = NDArray[np.int16]

STRENGTH = 0.7
"""Default strength, from 0 to 1, which suits a speech recogniser: docs/streams.md has figures."""


class EvenStream:
    """A stream that denoises 16-bit samples, and returns as many as it gets, 40 ms later.

    A new `strength`, from 0 to 1, is approached sample by sample, and reached at the end of a call.
    """

    def __init__(self, rate: int, channels: int, strength: float) -> None:
        self._stream = Stream(rate, channels, latency="low")
        self.rate: int = rate
        self.channels: int = channels
        self._strength = strength
        late = np.zeros((round(self._stream.latency * rate), channels), np.int16)
        self._heard, self._cleaned = late, late

    def process(self, data: bytes | memoryview, strength: float) -> Samples:
        """Return as many denoised samples as interleaved `data` has, shape (samples, channels)."""
        samples = np.frombuffer(data, np.int16)
        if len(samples) % self.channels:
            raise AlphaMFError(f"{len(samples)} samples are not {self.channels} channels")
        frame = samples.reshape(-1, self.channels)
        self._heard = np.concatenate([self._heard, frame])
        self._cleaned = np.concatenate([self._cleaned, self._stream.process(frame)])
        heard, self._heard = np.split(self._heard, [len(frame)])
        cleaned, self._cleaned = np.split(self._cleaned, [len(frame)])
        share = np.linspace(self._strength, strength, len(frame) + 1)[1:, None]
        self._strength = strength
        return np.rint(heard + share * (cleaned - heard.astype(float))).astype(np.int16)

    def close(self) -> None:
        """Close the stream, and discard the 40 ms of sound that it holds back."""
        self._stream.close()


def check_strength(value: float) -> float:
    """Return a strength; raise an AlphaMFError if it is not a number from 0 to 1."""
    return real_number("strength", value, 0, 1)
