"""Late reverberation: linear prediction of a spectrogram from its own past, with heavy tails.

A room repeats what was said. In each frequency bin, the spectrum X of a recording is

    X[t] = sum over k of G[k] X[t - DELAY - k] + S[t],

where S, the direct sound with its early reflections and the noise, is isotropic alpha-stable with
alpha = 1 and one dispersion per bin. `DELAY` spares the first 63 ms. Given the latent positive
stable variables Phi of S, the model is a Gaussian regression; EM alternates between the mean of
1 / Phi and the coefficients G.

Weighted prediction error has Gaussian innovations instead, whose variance is free in every cell,
so that each cell explains itself: it removes less echo and more speech (docs/quality.md).

References
----------
Nakatani et al., "Speech dereverberation based on variance-normalized delayed linear prediction",
IEEE Transactions on Audio, Speech and Language Processing 18 (2010), for the regression.
Simsekli et al., "Alpha-stable matrix factorization", IEEE Signal Processing Letters 22 (2015), for
the law of S.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from alphamf.audio import stft
from alphamf.audio.room import estimate_room
from alphamf.audio.stft import Complexes, Frame
from alphamf.denoising.grids import nearest_hop
from alphamf.tools.arrays import Floats, Reals, parts
from alphamf.tools.machine import one_thread

HOP_SECONDS = 0.021
"""Distance between windows in seconds; a window is three times as long (63 ms)."""

DELAY, TAPS = 3, 16
"""Distance in frames to the nearest frame that predicts a cell, and number of frames that do so."""

AIR, TAPS_ABOVE = 8000.0, 6
"""Frequency in Hz above which the air itself shortens an echo, and number of frames that predict a
cell there; at a rate of 48 kHz, two thirds of all bins lie above it."""

ITERATIONS = 3
"""Iterations of EM; more make no audible difference."""

DISPERSION = 0.3
"""Squared dispersion of S, relative to its mean power in a bin. That of maximum likelihood is
smaller: with it, faint cells, mostly of echo, count as much as loud ones (docs/quality.md)."""

RIDGE = 1e-6
"""Added to the regression matrix's diagonal, times the diagonal's mean plus 1, for silent bins."""

VOICED = (250.0, 8000.0)
"""Range in Hz of the bins from which the amount of echo is estimated."""

DRY = (0.5, 1.0)
"""Limits in dB of how much of a recording its past explains: up to the first it is dry, from the
second on not. In the split dev, one dry voice in twenty has above .5, and one room below .8."""

SMALL = (0.3, 0.4)
"""Limits in seconds of a room's estimated RT60: up to the first, echo is kept; from the second on,
it is removed. In 48 rooms of the split dev, rooms below .3 s and above .45 s were distinguished."""

BRIEF = (1.2, 2.1)
"""Limits in seconds of a sound's length, with its mirror images: up to the first its echo is kept,
from the second on it is removed. One word shows too little of its room (docs/quality.md)."""

SILENT = np.float32(1e-6)
"""Power, in units of the bin's mean, added to other powers before a division: they may be zero."""

TOGETHER = 8192
"""Number of cells that are computed at once, so that their arrays stay in the processor's cache."""


def late_frame(rate: int) -> Frame:
    """Return the window and hop of the prediction at a rate in Hz."""
    hop = nearest_hop(HOP_SECONDS * rate)
    return Frame(3 * hop, hop)


class Late(NamedTuple):
    """Late reverberation of a channel."""

    # below, above: its parts below and above a frequency (`edge`), shape (samples,) each.
    below: Floats
    above: Floats
    # By how many dB the power falls without what the past predicts: median over channels and bins.
    explained: float
    # Reverberation time in seconds as estimated from all channels; None: unknown.
    rt60: float | None = None
    seconds: float = math.inf  # Length of the sound

    @property
    def share(self) -> float:
        """Proportion of the late reverberation that should be removed, from 0 to 1.

        The past also predicts a part of dry voices, and in a small room more than the echo.
        """
        share = np.interp(self.explained, DRY, (0, 1)) * np.interp(self.seconds, BRIEF, (0, 1))
        return float(
            share if self.rt60 is None else min(share, np.interp(self.rt60, SMALL, (0, 1)))
        )


@one_thread()
def late_reverberation(channels: Sequence[Floats], rate: int, edge: float = math.inf) -> list[Late]:
    """Estimate the late reverberation of each channel, from the past of all of them.

    `channels`: sounds of one length, each of shape (samples,), float32. `edge`: frequency in Hz
    between `Late.below` and `Late.above`.
    """
    frame = late_frame(rate)
    spectra = np.stack([stft.forward(each, frame) for each in channels])
    late = np.zeros_like(spectra)
    gains = np.zeros(spectra.shape[:2])
    split = min(math.ceil(AIR * frame.n_fft / rate), frame.bins)
    together = max(TOGETHER // max(spectra.shape[2], 1), 1)
    for side, taps in ((slice(split), TAPS), (slice(split, None), TAPS_ABOVE)):
        for bins in parts(len(gains[0, side]), together):
            found = predicted_frames(spectra[:, side][:, bins], taps)
            late[:, side][:, bins], gains[:, side][:, bins] = found
    frequencies = np.arange(frame.bins) * (rate / frame.n_fft)
    voiced = (frequencies > VOICED[0]) & (frequencies < VOICED[1])
    explained = float(np.median(gains[:, voiced]))
    room = estimate_room(np.stack(channels, axis=1), rate).rt60
    rt60 = None if room is None else room.value
    above = frequencies[:, None] > edge
    result = []
    for each in late:
        divided = (np.where(above == upper, each, 0) for upper in (False, True))
        sounds = [stft.inverse(part, frame, len(channels[0])) for part in divided]
        result.append(Late(sounds[0], sounds[1], explained, rt60, len(channels[0]) / rate))
    return result


def predicted_frames(spectra: Complexes, taps: int = TAPS) -> tuple[Complexes, Reals]:
    """Predict each frame from `taps` earlier frames of all channels, `DELAY` or more before it.

    Returns: the prediction, shape (channels, bins, frames), and by how many dB its subtraction
    lowers the power of each bin, weighted by the precision, shape (channels, bins).
    """
    power = np.mean(np.abs(spectra) ** 2, axis=2, keepdims=True)
    unit = np.sqrt(np.where(power > 0, power, 1)).astype(spectra.real.dtype)
    scaled = spectra / unit
    past = _past(scaled, taps)
    found: Complexes = np.stack([_predicted(each, past) for each in scaled])
    precision = _precision(scaled - found)
    before, after = (
        (precision * np.abs(each) ** 2).sum(axis=2) + SILENT for each in (scaled, scaled - found)
    )
    found *= unit
    return found, 10 * np.log10(before / after)


def _past(spectra: Complexes, taps: int) -> Complexes:
    """Return the predictors of all frames, shape (bins, channels * taps, frames)."""
    channels, bins, frames = spectra.shape
    past = np.zeros((bins, channels * taps, frames), spectra.dtype)
    for k in range(min(taps, frames - DELAY)):
        past[:, k::taps, DELAY + k :] = np.moveaxis(spectra[..., : frames - DELAY - k], 0, 1)
    return past


def _predicted(spectrum: Complexes, past: Complexes) -> Complexes:
    """Fit the coefficients of one channel by EM; return its prediction, shape (bins, frames)."""
    found = np.zeros_like(spectrum)
    for _ in range(ITERATIONS):
        found = _regression(spectrum, past, _precision(spectrum - found))
    return found


def _regression(spectrum: Complexes, past: Complexes, precision: Reals) -> Complexes:
    """Predict a spectrum (bins, frames) from `past` (bins, n, frames) by weighted least squares."""
    weighted = past.conj() * precision[:, None]
    matrix = (weighted @ past.swapaxes(1, 2)).astype(np.complex128)
    vector = (weighted @ spectrum[..., None]).astype(np.complex128)
    mean = matrix.diagonal(axis1=1, axis2=2).real.mean(axis=1)
    matrix += (RIDGE * mean + RIDGE)[:, None, None] * np.eye(past.shape[1])
    factors = np.linalg.solve(matrix, vector).astype(past.dtype)
    return (factors.swapaxes(1, 2) @ past)[:, 0]


def _precision(innovation: Complexes) -> Reals:
    """Return the mean of 1 / Phi of every cell, given S, up to a factor per bin."""
    power = np.abs(innovation) ** 2
    return mean_precision(power, DISPERSION * power.mean(axis=-1, keepdims=True) + SILENT)


def mean_precision(power: Reals, dispersion: Reals | float) -> Reals:
    """Return the mean of 1 / Phi given |S|^2, up to a factor, for alpha = 1.

    S has a density proportional to 1 / (g + |S|^2)^(3/2), where g, the squared dispersion, is given
    as `dispersion`, and |S|^2 as `power`; the mean is -d log density / d |S|^2.
    """
    return 1 / (power + dispersion)
