"""Stack neighbouring frames into one column, and average them back.

A dictionary over `context` frames holds short patches of a spectrogram instead of single spectra.
Every frame is then part of `context` columns, and its gain is the mean over these columns.
"""

from __future__ import annotations

from alphamf.tools.arrays import Array, namespace


def stack(power: Array, context: int) -> Array:
    """Stack `context` neighbouring frames; at the ends, the first and the last frame are repeated.

    Zeros would be silence, which no model of the noise can explain.

    Parameters
    ----------
    power
        Shape (..., bins, frames).
    context
        Frames in a column; 1 leaves `power` as it is.

    Returns
    -------
    ndarray
        Shape (..., context * bins, frames + context - 1); block c of column m is frame
        ``m + c - (context - 1)``.

    Examples
    --------
    >>> import numpy as np
    >>> stack(np.array([[1, 2, 3]]), 2)
    array([[1, 1, 2, 3],
           [1, 2, 3, 3]])
    """
    if context == 1:
        return power
    xp = namespace(power)
    columns = power.shape[-1] + context - 1
    padding = [(0, 0)] * (power.ndim - 1) + [(context - 1, context - 1)]
    padded = xp.pad(power, padding, mode="edge")
    stacked: Array = xp.concatenate([padded[..., c : c + columns] for c in range(context)], axis=-2)
    return stacked


def unstack(gain: Array, context: int) -> Array:
    """For each frame, average over the columns of `stack` that contain it.

    Parameters
    ----------
    gain
        Shape (..., context * bins, frames + context - 1).
    context
        As given to `stack`.

    Returns
    -------
    ndarray
        Shape (..., bins, frames).

    Examples
    --------
    >>> import numpy as np
    >>> unstack(stack(np.array([[1.0, 2.0, 3.0]]), 2), 2)
    array([[1., 2., 3.]])
    """
    if context == 1:
        return gain
    bins = gain.shape[-2] // context
    frames = gain.shape[-1] - (context - 1)
    blocks = [
        gain[..., c * bins : (c + 1) * bins, context - 1 - c : context - 1 - c + frames]
        for c in range(context)
    ]
    total = blocks[0] + blocks[1]
    for block in blocks[2:]:
        total += block
    total /= context
    return total
