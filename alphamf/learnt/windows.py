"""Process spectrograms in windows of the length that a network was trained on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from alphamf.tools.arrays import Array, namespace

OVERLAP = 0.15
"""Minimum overlap of windows, as a fraction: a quarter takes a fifth longer, and is no better."""


def apply_in_windows(
    function: Callable[..., tuple[Array, ...]], inputs: Sequence[Array], window: int
) -> tuple[Array, ...]:
    """Apply a function to overlapping windows, and crossfade the results.

    `function`: takes a window of each of `inputs`, and returns arrays of its shape. `inputs`: shape
    (..., bins, frames) each. Returns: each of the shape of an input.
    """
    xp = namespace(inputs[0])
    frames = inputs[0].shape[-1]
    length = min(frames, window)
    weight = 0.5 + xp.minimum(xp.arange(length), xp.arange(length)[::-1])
    totals: list[Array] = []
    known = 0  # frames that have a result
    for first in _starts(frames, length):
        found = function(*(each[..., first : first + length] for each in inputs))
        totals = totals or [xp.empty(inputs[0].shape, each.dtype) for each in found]
        both = known - first
        new, old = weight[:both], weight[length - both :]
        rise = (new / (new + old)).astype(inputs[0].real.dtype)
        for total, each in zip(totals, found, strict=True):
            shared = total[..., first:known]
            shared += rise * (each[..., :both] - shared)
            total[..., known : first + length] = each[..., both:]
        known = first + length
    return tuple(totals)


def _starts(frames: int, length: int) -> list[int]:
    """Return the starts of evenly spaced windows that cover all frames."""
    steps = math.ceil((frames - length) / ((1 - OVERLAP) * length))
    return [round(k * (frames - length) / max(steps, 1)) for k in range(steps + 1)]


def mean_level(power: Array, xp: Any) -> Array:
    """Return the mean over the cells that are not exactly zero.

    `power`: |X|^2, shape (..., bins, frames). Returns: shape (..., 1, 1); 1 where all is silent.
    """
    level = power.sum((-2, -1), keepdims=True)
    level = level / xp.maximum((power > 0).sum((-2, -1), keepdims=True), 1).astype(power.dtype)
    mean: Array = xp.where(level > 0, level, 1)
    return mean
