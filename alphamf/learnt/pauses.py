"""The power that a predicted gain is raised to: the network's own, and a larger one in pauses.

A power below 1 softens the gain, which speech needs and hiss in a pause does not (docs/quality.md).
"""

from __future__ import annotations

import math
from typing import Any

from alphamf.tools.arrays import Array, namespace

IN_PAUSES = 1.0
"""Power of a refiner in pauses, unless the network's own is larger."""

SPEECH_DB, PAUSE_DB = -12.0, -22.0
"""How much of a frame's power the gain leaves in dB, from which on it is speech, and below which it
is a pause; between the two the power changes gradually."""

AROUND = 3
"""Frames of a refiner before and after one of speech that are no pause: windows reach into them."""

TINY = 1e-30


def raise_gain(
    gain: Array,
    power: Array,
    exponent: float,
    *,
    in_pauses: float = IN_PAUSES,
    around: int = AROUND,
    used: slice = slice(None),
) -> Array:
    """Raise a gain to the power of each frame.

    `gain`, `power`: predicted gain, and |X|^2, shape (..., bins, frames).
    """
    if exponent >= in_pauses:
        alike: Array = gain**exponent
        return alike
    xp: Any = namespace(power)
    share = speech_share(gain[..., used, :], power[..., used, :])
    found = exponents(largest_around(share, xp, around), exponent, xp, in_pauses)
    raised: Array = gain ** found.astype(gain.dtype)[..., None, :]
    return raised


def speech_share(gain: Array, power: Array) -> Array:
    """Return the part of each frame's power that a gain leaves.

    `gain`, `power`: gain, and |X|^2, shape (..., bins, frames).
    """
    share: Array = (gain * gain * power).sum(-2) / (power.sum(-2) + TINY)
    return share


def exponents(share: Array, exponent: float, xp: Any, in_pauses: float = IN_PAUSES) -> Array:
    """Return the power of the gain of each frame."""
    decibels = 10 / math.log(10) * xp.log(share + TINY)
    pause = xp.clip((SPEECH_DB - decibels) / (SPEECH_DB - PAUSE_DB), 0, 1)
    found: Array = exponent + max(in_pauses - exponent, 0.0) * pause
    return found


def largest_around(share: Array, xp: Any, around: int = AROUND) -> Array:
    """Return the largest share within so many frames of each frame, shape (..., frames)."""
    found = share.copy()
    for apart in range(1, around + 1):
        found[..., apart:] = xp.maximum(found[..., apart:], share[..., :-apart])
        found[..., :-apart] = xp.maximum(found[..., :-apart], share[..., apart:])
    return found
