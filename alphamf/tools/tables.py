"""Means with their standard errors, and Markdown tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np


def mean_and_error(values: Iterable[float]) -> tuple[float, float]:
    """Return the mean and its standard error: NaN without values, and without a second one."""
    array = np.fromiter(values, np.float64)
    mean = float(array.mean()) if len(array) else math.nan
    error = float(array.std(ddof=1) / np.sqrt(len(array))) if len(array) > 1 else math.nan
    return mean, error


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; all columns but the first are aligned as numbers."""
    lines = [headings, ["---"] + ["---:"] * (len(headings) - 1), *rows]
    cells = [[cell.replace("|", r"\|") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)
