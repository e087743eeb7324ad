"""The layers of the networks, in code that NumPy and CuPy run."""

from __future__ import annotations

from typing import Any

from alphamf.tools.arrays import Array

SLOPE = 0.1
"""Of the leaky rectifiers."""

CHUNK = 1 << 13
"""Cells whose neighbourhoods are copied at once: about what the second-level cache holds."""


def correlate(cells: Array, weight: Array, bias: Array, apart: tuple[int, int], xp: Any) -> Array:
    """Correlate with a 3 x 3 kernel over frames and bins; beyond the edges there is zero.

    Parameters
    ----------
    cells
        Shape (..., frames, bins, channels).
    weight, bias
        Shapes (3, 3, channels, outputs) and (outputs,).
    apart
        Frames and bins from one of the kernel's taps to the next.
    xp
        Module of the arrays.

    Returns
    -------
    ndarray
        Shape (..., frames, bins, outputs).
    """
    *outer, frames, bins, channels = cells.shape
    outputs = weight.shape[-1]
    late, high = apart
    padded = xp.pad(cells, [*[(0, 0)] * len(outer), (late, late), (high, high), (0, 0)])
    # Only the taps over frames are copied side by side, and each of the three over bins has a
    # product of its own: copying all nine would take longer than the products.
    matrices = weight.swapaxes(0, 1).reshape(3, 3 * channels, outputs)
    result: Array = xp.empty((*outer, frames, bins, outputs), cells.dtype)
    step, taps = max(1, CHUNK // bins), (0, late, 2 * late)
    for first in range(0, frames, step):
        last = min(first + step, frames)
        near = xp.concatenate([padded[..., first + i : last + i, :, :] for i in taps], -1)
        total = near[..., :bins, :] @ matrices[0]
        total += near[..., high : high + bins, :] @ matrices[1]
        total += near[..., 2 * high :, :] @ matrices[2]
        total += bias
        result[..., first:last, :, :] = total
    return result


def rectified(x: Array, xp: Any) -> Array:
    """Return max(x, SLOPE x), the leaky rectifier."""
    rectified: Array = xp.maximum(x, SLOPE * x)
    return rectified


def dilated(x: Array, taps: Array, distance: int, xp: Any) -> Array:
    """Correlate each channel over frames with its taps; beyond the ends there is zero.

    Parameters
    ----------
    x
        Shape (..., frames, channels).
    taps
        Shape (taps, channels).
    distance
        Frames from one tap to the next.
    xp
        Module of the arrays.
    """
    frames = x.shape[-2]
    reach = len(taps) // 2 * distance
    padded = xp.pad(x, [*[(0, 0)] * (x.ndim - 2), (reach, reach), (0, 0)])
    total: Array = sum(
        padded[..., k * distance : k * distance + frames, :] * tap for k, tap in enumerate(taps)
    )
    return total


def logistic(logit: Array, xp: Any) -> Array:
    """Return the gain of a logit, by tanh: exp would overflow."""
    gain: Array = 0.5 * (1 + xp.tanh(logit / 2))
    return gain
