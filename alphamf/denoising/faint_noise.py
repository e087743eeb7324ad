"""A gain for faint, steady noise, the last part of link 5 of the chain of gains (`gain`).

The networks cannot tell the hiss of a nearly clean recording from that of their targets, and leave
much of it (docs/quality.md). It shows in the pauses: there each bin has its least power. Cells that
are hardly louder hold none of the speech, in words as well. In loud noise weak cells of the speech
have no more power, and only the networks decide.

At low latency the least power is that of the last seconds, and a cell's power is that of two
frames: after a word it has to fall at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from alphamf.audio.floors import floor_gain, floor_of, mean_around, smoothed
from alphamf.audio.stft import Complexes
from alphamf.tools.arrays import Flags, Floats

ABOVE = 2.0
"""Ratio of a cell's power to the least one at which half of its amplitude is kept. The mean power
of steady noise is 1.4 times the least one, and 9.5 dB are taken from it."""

MOST_DB = 12.0
"""Largest attenuation, which comes on top of the networks' own."""

DEPTH_DB = (20.0, 30.0, 36.0, 46.0)
"""How far pauses lie below loud frames in dB: up to the first nothing is taken, from the second to
the third all is, and beyond the last, where they are quiet enough, nothing; between them the
largest attenuation in dB is linear."""

PART = (0.0, 1.0, 1.0, 0.0)
"""Part of the largest attenuation at each of `DEPTH_DB`."""

LOUD_SHARE = 0.9
"""Share of the frames that loud ones exceed."""

EVERY = 4
"""Every so many frames are read for the least power: they are means of several frames."""

ONLINE_ABOVE = 2.5
"""As `ABOVE`, at low latency, where the least power is lower."""

ONLINE_DEPTH_DB = (25.0, 35.0, 38.0, 48.0)
"""As `DEPTH_DB`, at low latency, below the loudest frame of late."""

BINS = 7
"""Bins whose mean power is that of a cell."""

KEPT = np.float32(0.7)
"""Part of a running mean that a new frame leaves, before its least value is looked for: after a
word it falls by 19 dB in .1 s."""

SPAN = 250
"""Frames of 8 ms in which the least power is looked for, and as many before."""

DECAY = np.float32(10 ** (-0.1 / 125))
"""What becomes of the loudest frame of late, frame by frame: it falls by 1 dB a second."""

TINY = np.float32(1e-30)


def faint_noise_gain(spectra: Sequence[Complexes]) -> Floats | None:
    """Return the gain of each cell, or None where there is no faint noise.

    `spectra`: those of a segment's channels that get one gain, in windows of 16 ms that overlap by
    half, shape (bins, frames) each. Returns: shape (bins, frames), float32.
    """
    whole = np.sum([each.real**2 + each.imag**2 for each in spectra], axis=0)
    power = smoothed(whole)
    floor = floor_of(power[:, ::EVERY])
    loud = np.quantile(whole.sum(axis=0), LOUD_SHARE)
    lowest = _lowest_gain(loud, floor.sum(), DEPTH_DB)
    if lowest == 1:
        return None
    found: Floats = np.maximum(floor_gain(power, floor, ABOVE), lowest)
    return found


class FaintNoise:
    """Computes the gain for faint, steady noise frame by frame.

    `channels`, `bins`: shape of a frame.
    """

    def __init__(self, channels: int, bins: int) -> None:
        nothing = np.zeros((channels, bins), np.float32)
        self._mean = self._least = self._before = self._last = nothing
        self._loud = np.zeros((channels, 1), np.float32)
        self._count = 0

    def gain(self, power: Floats, together: Flags) -> Floats:
        """Return the gain of a frame, shape (channels, bins).

        `power`: |X|^2, of that shape. `together`: which channels share a voice and get the largest
        gain among them, shape (channels,).
        """
        around = mean_around(power, BINS, axis=1)
        if not self._count:
            self._mean = self._least = self._before = self._last = around
        self._mean = KEPT * self._mean + (1 - KEPT) * around
        if self._count % SPAN == 0:
            self._before, self._least = self._least, self._mean
        self._count += 1
        self._least = np.minimum(self._least, self._mean)
        floor = np.minimum(self._least, self._before)
        loud = self._mean.sum(axis=1, keepdims=True)
        self._loud = np.maximum(loud, DECAY * self._loud)
        lowest = _lowest_gain(self._loud, floor.sum(axis=1, keepdims=True), ONLINE_DEPTH_DB)
        cell: Floats = (self._last + around) / np.float32(2)
        self._last = around
        found: Floats = np.maximum(floor_gain(cell, floor, ONLINE_ABOVE), lowest)
        if together.any():
            found[together] = found[together].max(axis=0)
        return found


def _lowest_gain(loud: Floats, floor: Floats, depths: tuple[float, ...]) -> Floats:
    """Return the gain of the largest attenuation; 1 where none is taken.

    `loud`, `floor`: power of loud frames, and of pauses, of the same shape.
    """
    depth = 10 * (np.log10(loud + TINY) - np.log10(floor + TINY))
    most = MOST_DB * np.interp(depth, depths, PART)
    return np.asarray(10 ** (-most / 20), np.float32)
