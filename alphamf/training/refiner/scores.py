"""Scores of a network's output on dev clips: SI-SDR, PESQ and ESTOI."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from alphamf.tools.arrays import Floats

DECIMALS = 4
"""Decimals of the scores."""


class Scores(NamedTuple):
    """Means over clips; NaN if no clip could be scored, for example without the package pesq."""

    si_sdr: float  # In dB
    pesq: float  # 1 to 4.6; narrow band at 8 kHz, wide band at 16 kHz
    estoi: float  # About 0 to 1


def scores(pairs: Iterable[tuple[Floats, Floats]], rate: int) -> Scores:
    """Score pairs of clean speech and estimate, shape (samples,) each."""
    rows = [
        (si_sdr(clean, estimate), _pesq(clean, estimate, rate), _estoi(clean, estimate, rate))
        for clean, estimate in pairs
    ]
    table = np.array(rows, float)
    known = np.isfinite(table)
    means = np.where(known, table, 0).sum(0) / np.where(known.any(0), known.sum(0), np.nan)
    # Rounded, as pystoi adds random numbers to its sums: the same outputs have the same scores.
    return Scores(*means.round(DECIMALS).tolist())


def si_sdr(clean: Floats, estimate: Floats) -> float:
    """Return the scale-invariant signal-to-distortion ratio in dB."""
    s, e = (np.asarray(each, float) - each.mean() for each in (clean, estimate))
    target = (e @ s) / (s @ s + 1e-12) * s
    ratio = (target @ target + 1e-12) / ((e - target) @ (e - target) + 1e-12)
    return float(10 * np.log10(ratio))


def _pesq(clean: Floats, estimate: Floats, rate: int) -> float:
    try:
        from pesq import PesqError, pesq
    except ImportError:
        return float("nan")
    try:
        return float(pesq(rate, clean, estimate, "nb" if rate == 8000 else "wb"))
    except PesqError:  # no speech found
        return float("nan")


def _estoi(clean: Floats, estimate: Floats, rate: int) -> float:
    import pystoi

    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Not enough STFT frames", RuntimeWarning)
        try:
            return float(pystoi.stoi(clean, estimate, rate, True))
        except RuntimeWarning:  # hardly any speech
            return float("nan")
