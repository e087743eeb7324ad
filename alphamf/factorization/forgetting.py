r"""What alpha-MF learns of a recording as it goes on, with forgetting: noise and response.

*Noise.* A cell either holds noise alone, or speech that is 15 dB louder, with even odds. With N the
noise's variance so far, the probability of speech and the next estimate are

.. math:: p = \left(1 + (1 + \xi) e^{-\frac{|x|^2}{N} \frac{\xi}{1 + \xi}}\right)^{-1}, \qquad
   N \leftarrow N + f \left(p\,N + (1 - p)\,|x|^2 - N\right).

N is never far below the least power, smoothed, of the last 1.5 s: speech pauses or moves on within
that, and what does not is noise, however sudden it came.

The posterior mean of the noise's power under the chain, which EM would take in place of p, loses
against it: a noise that is believed too faint makes the chain find speech everywhere, and then
stays too faint (docs/quality.md).

References
----------
Gerkmann and Hendriks, IEEE TASLP 20 (2012), eqs. 18 and 22 to 24.
"""

from __future__ import annotations

import numpy as np

from alphamf.tools.arrays import Floats

START_SECONDS = 0.1
"""The first sound, which counts as noise."""

SPEECH_RATIO = 10**1.5
"""15 dB."""

NOISE_SECONDS = 0.16
"""Time in which noise is forgotten, where there is no speech."""

MOST = 0.99
"""Where p has been higher for long, it is not believed: the noise has risen."""

SMOOTH_SECONDS = 0.08
PART_SECONDS = 0.25
PARTS = 5
"""The least power is that of so many parts of so long each, smoothed over 80 ms, and of the one
that goes on."""

LEAST_SHARE = np.float32(0.5)
"""Of the least power, below which the noise is not: from there p brings it up by itself."""

FAINTEST = 1e-8
"""Least noise of a bin, as a fraction of the mean."""

RESPONSE_SECONDS = 3.0
RESPONSE_RATE = 0.005
"""Part of the way that the response goes with each frame."""

RESPONSE_START = 10
RESPONSE_EVERY = 8
"""Frames before the response first moves, and between its moves."""

SMOOTH_HZ = 60.0
"""Standard deviation of the smoothing of the response over frequency."""


def forgotten(hop: float, seconds: float) -> float:
    """Return the part of a mean over `seconds` that is forgotten with each frame."""
    return float(1 - np.exp(-hop / seconds))


class Noise:
    """The variance of the noise in every bin.

    Parameters
    ----------
    channels, bins
        Shape of a frame.
    hop
        Distance between frames in seconds.

    Attributes
    ----------
    power
        Shape (channels, bins).
    """

    def __init__(self, channels: int, bins: int, hop: float) -> None:
        self.power: Floats = np.zeros((channels, bins), np.float32)
        self._presence = np.full((channels, bins), np.float32(0.5))
        self._share = np.float32(forgotten(hop, NOISE_SECONDS))
        self._start = max(1, round(START_SECONDS / hop))
        self._frames = 0
        self._smooth_share = np.float32(forgotten(hop, SMOOTH_SECONDS))
        self._smooth = np.zeros((channels, bins), np.float32)
        self._part = max(1, round(PART_SECONDS / hop))
        self._least = np.full((PARTS + 1, channels, bins), np.float32(np.inf))

    def learn(self, power: Floats) -> None:
        """Learn from a frame, shape (channels, bins)."""
        self._frames += 1
        self._smooth += max(self._smooth_share, np.float32(1 / self._frames)) * (
            power - self._smooth
        )
        if self._frames % self._part == 0:
            self._least[1:] = self._least[:-1]
            self._least[0] = np.inf
        np.minimum(self._least[0], self._smooth, out=self._least[0])
        if self._frames <= self._start:
            change = (power - self.power) / np.float32(self._frames)
        else:
            least = SPEECH_RATIO / (1 + SPEECH_RATIO)
            ratio = np.minimum(power / self.power, np.float32(80))
            p = 1 / (1 + np.float32(1 + SPEECH_RATIO) * np.exp(-np.float32(least) * ratio))
            self._presence += self._share * (p - self._presence)
            p = np.where(self._presence > MOST, np.minimum(p, np.float32(MOST)), p)
            change = self._share * (1 - p) * (power - self.power)
        faint = FAINTEST * power.mean(axis=-1, keepdims=True) + np.finfo(np.float32).tiny
        power = np.maximum(self.power + change, faint.astype(np.float32))
        if self._frames > PARTS * self._part:
            np.maximum(power, LEAST_SHARE * self._least.min(axis=0), out=power)
        self.power = power


class Response:
    """The recording's frequency response, by which W is multiplied; see `denoising.channel`.

    Parameters
    ----------
    channels, bins
        Shape of a frame.
    spacing
        Distance between bins in Hz.
    hop
        Distance between frames in seconds.

    Attributes
    ----------
    gain
        Shape (channels, bins), of geometric mean one.
    """

    def __init__(self, channels: int, bins: int, spacing: float, hop: float) -> None:
        reach = max(1, int(3 * SMOOTH_HZ / spacing))
        distance = np.arange(-reach, reach + 1) * (spacing / SMOOTH_HZ)
        self._kernel = np.exp(-0.5 * distance**2).astype(np.float32)
        self._share = np.float32(forgotten(hop, RESPONSE_SECONDS))
        self._sums = np.zeros((2, channels, bins), np.float32)
        self._frames = 0
        self.gain: Floats = np.ones((channels, bins), np.float32)

    def learn(self, plus: Floats, minus: Floats) -> None:
        """Learn from both parts of the gradient by the log of the gain, in the newest frame."""
        self._frames += 1
        for held, new in zip(self._sums, (plus, minus), strict=True):
            held += self._share * (new - held)
        if self._frames <= RESPONSE_START or self._frames % RESPONSE_EVERY:
            return
        up, down = (np.log(self._smooth(each) + np.float32(1e-12)) for each in self._sums)
        change = down - up
        change -= change.mean(axis=-1, keepdims=True)
        self.gain = self.gain * np.exp(np.float32(RESPONSE_EVERY * RESPONSE_RATE) * change)

    def _smooth(self, values: Floats) -> Floats:
        reach = len(self._kernel) // 2
        padded = np.pad(values, ((0, 0), (reach, reach)), mode="edge")
        rows = [np.convolve(row, self._kernel, mode="valid") for row in padded]
        smooth: Floats = np.stack(rows)
        return smooth
