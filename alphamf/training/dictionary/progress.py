"""Progress reports of a training run."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Progress(NamedTuple):
    """State of a training run.

    Attributes
    ----------
    rank, alpha
        Rank and alpha of the dictionary.
    step, steps
        Steps made, and in all.
    objective
        Mean log density of a cell, in nats.
    """

    rank: int
    alpha: float
    step: int
    steps: int
    objective: float


ProgressCallback = Callable[[Progress], None]
"""Called after every step."""

SkipCallback = Callable[[str], None]
"""Called with one sentence for each file that cannot be used and is skipped."""
