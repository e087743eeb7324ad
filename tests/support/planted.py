"""Recordings in which known spectra follow each other, and how well a dictionary has them."""

import numpy as np
import soundfile
from scipy.optimize import linear_sum_assignment

RATE = 4000
BINS = np.arange(129)
PLANTED = np.exp(-0.5 * ((BINS[:, None] - np.array([20, 45, 90])) / 12) ** 2) + 1e-3
"""Power spectra, one in a column, which overlap."""


def coloured(spectrum, seconds, rng, rate=8000):
    """Gaussian noise with a power spectrum."""
    samples = round(seconds * rate)
    filtered = np.fft.rfft(rng.standard_normal(samples))
    grid = np.linspace(0, 1, len(filtered))
    filtered *= np.sqrt(np.interp(grid, np.linspace(0, 1, len(spectrum)), spectrum))
    audio = np.fft.irfft(filtered, samples)
    return (0.5 * audio / np.abs(audio).max()).astype(np.float32)


def cosines(learnt, planted):
    """Cosine of each learnt column with the planted one that it is matched with."""
    learnt, planted = (x / np.linalg.norm(x, axis=0) for x in (learnt, planted))
    table = learnt.T @ planted
    return table[linear_sum_assignment(-table)]


def syllables(path, seconds=2.0, seed=0):
    """Write a file in which the planted sounds follow each other."""
    rng = np.random.default_rng(seed)
    parts = [
        coloured(PLANTED[:, rng.integers(3)], 0.25, rng, RATE) for _ in range(round(4 * seconds))
    ]
    soundfile.write(path, np.concatenate(parts), RATE, subtype="FLOAT")
    return str(path)


class Stopped(Exception):
    """Raised by a test to stop a training."""
