"""Planes: how the compiled layers, and what a causal network remembers, hold the cells of a frame.

Channel by channel lie the bins, with zeros before them and behind them, so that a correlation reads
beyond the ends of the band what it needs, and whole vectors.
"""

from __future__ import annotations

from alphamf.tools.arrays import Array

PAD, TILE = 16, 48
"""Zeros before the bins of a channel, and behind the last one; and what the others are a multiple
of. As in ``_chain.h``."""


def stride_of(bins: int) -> int:
    """Return the floats of a channel."""
    return PAD + -(-bins // TILE) * TILE


def size_of(channels: int, bins: int) -> int:
    """Return the floats of a frame."""
    return channels * stride_of(bins) + PAD


def padded(frames: Array, bins: int) -> Array:
    """Return the channels of frames with the zeros before and behind them.

    Parameters
    ----------
    frames
        Shape (..., floats of a frame).
    bins
        Of a channel.

    Returns
    -------
    ndarray
        A view, shape (..., channels, floats of a channel).
    """
    rows: Array = frames[..., :-PAD].reshape(*frames.shape[:-1], -1, stride_of(bins))
    return rows


def bins_of(frames: Array, bins: int) -> Array:
    """Return the bins of frames, a view of shape (..., channels, bins), as for `padded`."""
    return padded(frames, bins)[..., PAD : PAD + bins]
