"""Recordings in which planted spectra follow each other, and what of them was found."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment


def coloured(spectrum, seconds, rng, rate=8000):
    """Gaussian noise with a power spectrum."""
    samples = round(seconds * rate)
    filtered = np.fft.rfft(rng.standard_normal(samples))
    grid = np.linspace(0, 1, len(filtered))
    filtered *= np.sqrt(np.interp(grid, np.linspace(0, 1, len(spectrum)), spectrum))
    audio = np.fft.irfft(filtered, samples)
    return (0.5 * audio / np.abs(audio).max()).astype(np.float32)


def cosines(learnt, planted):
    """Cosine of each learnt column with the planted one that it stands for."""
    learnt, planted = (x / np.linalg.norm(x, axis=0) for x in (learnt, planted))
    table = learnt.T @ planted
    return table[linear_sum_assignment(-table)]
