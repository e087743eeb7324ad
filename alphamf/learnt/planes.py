"""Planes: the memory layout of cells for the compiled layers.

The bins are stored channel by channel, with zeros before and after them, so that a correlation can
read beyond the ends of the band, and in whole vectors.
"""

from __future__ import annotations

from alphamf.tools.arrays import Array

PAD, TILE = 16, 48
"""Number of zeros before the bins of each channel and after the last channel; other sizes are
multiples of the second number. As in ``_row.h``."""


def stride_of(bins: int) -> int:
    """Return the number of floats per channel."""
    return PAD + -(-bins // TILE) * TILE


def size_of(channels: int, bins: int) -> int:
    """Return the number of floats per frame."""
    return channels * stride_of(bins) + PAD


def cells_of(frames: Array, bins: int) -> Array:
    """Return the cells of frames, without the zeros around them: a view.

    `frames`: shape (..., floats of a frame). Returns: shape (..., bins, channels).
    """
    channels: Array = frames[..., :-PAD].reshape(*frames.shape[:-1], -1, stride_of(bins))
    return channels[..., PAD : PAD + bins].swapaxes(-1, -2)
