"""Scores of a network's output on dev clips: SI-SDR, PESQ and ESTOI."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.scores.score import pesq, si_sdr, stoi
from alphamf.tools.arrays import Floats

DECIMALS = 4
"""Number of decimals to which scores are rounded."""


class Scores(NamedTuple):
    """Mean scores over clips; NaN if no clip could be scored, such as without the package pesq."""

    si_sdr: float  # In dB
    pesq: float  # 1 to 4.6; narrow band at 8 kHz, wide band at 16 kHz
    estoi: float  # About 0 to 1


def scores(pairs: Iterable[tuple[Floats, Floats]], rate: int) -> Scores:
    """Return the mean scores of pairs of clean speech and estimate, shape (samples,) each."""
    rows = [
        (
            _known(si_sdr, clean, found),
            _known(pesq, clean, found, rate),
            _known(stoi, clean, found, rate, extended=True),
        )
        for clean, found in pairs
    ]
    table = np.array(rows, float)
    known = np.isfinite(table)
    means = np.where(known, table, 0).sum(0) / np.where(known.any(0), known.sum(0), np.nan)
    # Rounded, as pystoi adds random numbers to its sums: the same outputs have the same scores.
    return Scores(*means.round(DECIMALS).tolist())


def _known(score: Callable[..., float], *arguments: Any, **more: Any) -> float:
    """Return a score, NaN where it is not defined or its package is missing."""
    try:
        return score(*arguments, **more)
    except AlphaMFError:
        return float("nan")
