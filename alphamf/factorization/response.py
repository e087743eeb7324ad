"""Online estimate of a recording's frequency response, with forgetting."""

from __future__ import annotations

import numpy as np

from alphamf.factorization.forgetting import forgetting_factor
from alphamf.tools.arrays import Flags, Floats

RESPONSE_SECONDS = 3.0
RESPONSE_RATE = 0.005
"""Fraction of the distance by which the response moves with each frame."""

RESPONSE_START = 10
RESPONSE_EVERY = 8
"""Number of frames before the response first moves, and between its moves."""

RESPONSE_RANGE = np.float32(1e-4), np.float32(10**1.5)
"""Range of the gain, from 40 dB below to 15 dB above its mean. The stop band of a telephone lies 35
dB below."""

SMOOTH_HZ = 60.0
"""Standard deviation of the smoothing of the response over frequency."""


class Response:
    """The recording's frequency response, by which W is multiplied; see `denoising.channel`.

    `channels`, `bins`: shape of a frame. `spacing`: distance between bins in Hz. `hop`: distance
    between frames in seconds. `gain`: shape (channels, bins), of geometric mean one, within
    `RESPONSE_RANGE`.
    """

    def __init__(self, channels: int, bins: int, spacing: float, hop: float) -> None:
        reach = max(1, int(3 * SMOOTH_HZ / spacing))
        distance = np.arange(-reach, reach + 1) * (spacing / SMOOTH_HZ)
        self._kernel = np.exp(-0.5 * distance**2).astype(np.float32)
        self._share = np.float32(forgetting_factor(hop, RESPONSE_SECONDS))
        self._sums = np.zeros((2, channels, bins), np.float32)
        self._frames = np.zeros(channels, int)
        self.gain: Floats = np.ones((channels, bins), np.float32)

    def begin(self, channels: Flags) -> None:
        """Reset some channels."""
        self._sums[:, channels] = 0
        self._frames[channels] = 0
        self.gain[channels] = 1

    def learn(self, plus: Floats, minus: Floats, channels: Flags) -> None:
        """Update the response with both parts of the newest frame's gradient in the log gain.

        `plus`, `minus`: shape (channels, bins). `channels`: those that learn, shape (channels,).
        """
        self._frames += channels
        for held, new in zip(self._sums, (plus, minus), strict=True):
            held += np.where(channels[:, None], self._share * (new - held), np.float32(0))
        moved = channels & (self._frames > RESPONSE_START) & (self._frames % RESPONSE_EVERY == 0)
        if not moved.any():
            return
        up, down = (np.log(self._smooth(each[moved]) + np.float32(1e-12)) for each in self._sums)
        change = down - up
        change -= change.mean(axis=-1, keepdims=True)
        gain = self.gain[moved] * np.exp(np.float32(RESPONSE_EVERY * RESPONSE_RATE) * change)
        self.gain[moved] = np.clip(gain, *RESPONSE_RANGE)

    def _smooth(self, values: Floats) -> Floats:
        reach = len(self._kernel) // 2
        padded = np.pad(values, ((0, 0), (reach, reach)), mode="edge")
        rows = [np.convolve(row, self._kernel, mode="valid") for row in padded]
        smooth: Floats = np.stack(rows)
        return smooth
