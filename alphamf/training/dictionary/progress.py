"""Progress reports of a training run."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Progress(NamedTuple):
    """State of a training run."""

    # rank, alpha: rank and alpha of the dictionary.
    rank: int
    alpha: float
    # step, steps: steps made, and in all.
    step: int
    steps: int
    objective: float  # Mean log density of a cell, in nats


ProgressCallback = Callable[[Progress], None]
"""Called after every step."""

SkipCallback = Callable[[str], None]
"""Called with one sentence for each file that cannot be used and is skipped."""
