"""A gain for faint, steady noise, the last part of link 5 of the chain of gains (`gain`).

The networks cannot tell the hiss of a nearly clean recording from that of their targets, and leave
much of it (docs/quality.md). It shows in the pauses: there each bin has its least power. Cells that
are hardly louder hold none of the speech, in words as well. In loud noise weak cells of the speech
have no more power, and only the networks decide.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from alphamf.audio.floors import floor_gain, floor_of, smoothed
from alphamf.audio.stft import Complexes
from alphamf.tools.arrays import Floats

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
    lowest = lowest_gain(loud, floor.sum(), DEPTH_DB)
    if lowest == 1:
        return None
    found: Floats = np.maximum(floor_gain(power, floor, ABOVE), lowest)
    return found


def lowest_gain(loud: Floats, floor: Floats, depths: tuple[float, ...]) -> Floats:
    """Return the gain of the largest attenuation; 1 where none is taken.

    `loud`, `floor`: power of loud frames, and of pauses, of the same shape.
    """
    depth = 10 * (np.log10(loud + TINY) - np.log10(floor + TINY))
    most = MOST_DB * np.interp(depth, depths, PART)
    return np.asarray(10 ** (-most / 20), np.float32)
