"""Voices recorded at 16 kHz, with a synthetic band above 8 kHz.

Above 8 kHz a voice is noise, whose level follows that from 5 to 7.5 kHz. How much softer it is in
each band, how closely it follows, and how much louder it is in sibilants differ between voices. The
ranges are those of a regression on the full-band voices of training.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from alphamf.audio import stft
from alphamf.audio.resample import resample
from alphamf.audio.stft import Frame
from alphamf.denoising.grids import Grid
from alphamf.learnt.bands import FULL_BAND
from alphamf.tools.arrays import Floats
from alphamf.training.refiner.shaping import Rng

FRAME = Frame(768, 384)
KNOWN = (5000, 7500)
"""The highest band that both have, in Hz."""

EDGE, END = 7600, 20000
"""Start of the synthetic band in Hz, at the resampler's edge, and its end."""

PLACES = (7500.0, 9000.0, 11250.0, 14250.0, 18000.0)
DROPS = ((0.0, 0.0), (6.0, 20.0), (0.0, 10.0), (4.0, 14.0), (8.0, 20.0))
"""Frequencies in Hz, and the drop in dB of a loud frame from the frequency before."""

FOLLOWING = (0.7, 1.05)
"""Drop of the band in dB per dB that `KNOWN` drops."""

LOWER = (2000, 5000)
"""In Hz: just below `KNOWN`. A frame that is louder in `KNOWN` than here is a sibilant, and real
ones have nearly as much at 9 kHz as in `KNOWN`."""

USUAL, TILTED = -10.0, (-20.0, 15.0)
"""Level of `KNOWN` over `LOWER` in dB that leaves the band unchanged, and the range of levels that
affect it."""

WANDERING, MEMORY = 6.0, 0.9
"""Standard deviation in dB of its random variation, and the correlation between frames."""


def widen_band(rng: Rng, sound: Floats, rate: int, tilts: Sequence[float] = (0.0, 0.0)) -> Floats:
    """Return a voice at `FULL_BAND`, with a synthetic band up to `END`.

    `sound`, `rate`: shape (samples,), and its sampling rate in Hz, of 16 kHz or more. `tilts`:
    range of how many dB the band rises where `KNOWN` rises over `LOWER` by one, as it does in
    sibilants: from 0 to .9 in most of the full-band voices of training.
    """
    wide = resample(sound, rate, FULL_BAND)
    frequencies = Grid(FULL_BAND, FRAME).frequencies
    power = np.abs(stft.forward(wide, FRAME)) ** 2
    level, lower = (
        10 * np.log10(power[slice(*np.searchsorted(frequencies, band))].mean(axis=0) + 1e-12)
        for band in (KNOWN, LOWER)
    )
    loud = np.percentile(level, 95)
    drops = np.cumsum([rng.uniform(*each) for each in DROPS])
    below = np.interp(frequencies, PLACES, drops)[:, None]
    follows = loud + rng.uniform(*FOLLOWING) * (level - loud) + _wandering(rng, len(level))
    if any(tilts):  # recipes of before draw no number here, and give the same bands
        least, most = tilts
        follows += rng.uniform(least, most) * (np.clip(level - lower, *TILTED) - USUAL)
    hiss = stft.forward(rng.standard_normal(len(wide)).astype(np.float32), FRAME)
    hiss[(frequencies < EDGE) | (frequencies > END)] = 0
    unit = np.sqrt(FRAME.n_fft / 2)  # of white noise, in such windows
    made = hiss / unit * 10 ** ((follows - below) / 20)
    found: Floats = wide + stft.inverse(made.astype(np.complex64), FRAME, len(wide))
    return found


def _wandering(rng: Rng, frames: int) -> Floats:
    """Return a first-order autoregressive process, in dB."""
    from scipy.signal import lfilter

    steps = rng.standard_normal(frames) * WANDERING * np.sqrt(1 - MEMORY**2)
    found: Floats = lfilter([1.0], [1.0, -MEMORY], steps)
    return found
