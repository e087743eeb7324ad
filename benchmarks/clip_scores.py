"""The scores of a denoised clip that benchmarks compare."""

from __future__ import annotations

from alphamf.errors import AlphaMFError
from alphamf.scores.score import pesq, si_sdr, stoi
from alphamf.tools.arrays import Floats

SCORES = {"SI-SDR dB": 2, "PESQ": 3, "ESTOI": 3}
"""Headings, and decimals."""


def scores(clean: Floats, found: Floats, rate: int) -> list[float]:
    """Return `SCORES` of a denoised sound; NaN for PESQ of what is too long or has no utterance.

    Parameters
    ----------
    clean, found
        Shape (samples,).
    rate
        In Hz.
    """
    try:
        quality = pesq(clean, found, rate)
    except AlphaMFError:
        quality = float("nan")
    return [si_sdr(clean, found), quality, stoi(clean, found, rate, extended=True)]
