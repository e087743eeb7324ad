"""Step sizes as functions of the step index."""

from __future__ import annotations

from collections.abc import Callable

from alphamf.protocols import Schedule


def at(schedule: Schedule, step: int) -> float:
    """Return the step size of step `step` (0 for the first)."""
    return schedule(step) if callable(schedule) else schedule


def polynomial(a: float, b: float = 0.51) -> Callable[[int], float]:
    """Return (a / t)^b with t = 1 for the first step: the papers' decreasing step size."""
    return lambda step: float((a / (step + 1)) ** b)
