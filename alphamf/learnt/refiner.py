"""The refiner, which corrects the posterior mean of the gain, and how networks read long segments.

A predicted gain is raised to the network's own exponent, and to a larger one in pauses. An exponent
below 1 softens the gain, which speech needs and hiss in a pause does not (docs/quality.md).
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from alphamf.learnt import layers, network
from alphamf.learnt.network_file import TrainedNetwork
from alphamf.tools.arrays import Array, namespace

OVERLAP = 0.15
"""Minimum overlap of neighbouring windows, as a fraction of their length."""


def apply_in_windows(
    function: Callable[..., tuple[Array, ...]], inputs: Sequence[Array], window: int
) -> tuple[Array, ...]:
    """Apply a function to overlapping windows of `window` frames, and crossfade the results.

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
    """Return the mean power of the cells whose power is not exactly zero.

    `power`: |X|^2, shape (..., bins, frames). Returns: shape (..., 1, 1); 1 where all is silent.
    """
    level = power.sum((-2, -1), keepdims=True)
    level = level / xp.maximum((power > 0).sum((-2, -1), keepdims=True), 1).astype(power.dtype)
    return xp.where(level > 0, level, 1)


IN_PAUSES = 1.0
"""Exponent of a refiner's gain in pauses, unless the network's own exponent is larger."""

SPEECH_DB, PAUSE_DB = -12.0, -22.0
"""Fraction of a frame's power that the gain leaves, in dB: from the first on, the frame is speech,
and up to the second, a pause; in between, the exponent changes gradually."""

AROUND = 3
"""Number of frames before and after speech that are no pause, as windows of speech overlap them."""

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
    """Return a gain raised to `exponent`, or, in pauses, to `in_pauses` if that is larger.

    `gain`, `power`: gain and |X|^2, (..., bins, frames). `used`: bins in which pauses are found.
    """
    if exponent >= in_pauses:
        return gain**exponent
    xp: Any = namespace(power)
    share = speech_share(gain[..., used, :], power[..., used, :])
    found = exponents(largest_around(share, xp, around), exponent, xp, in_pauses)
    return gain ** found.astype(gain.dtype)[..., None, :]


def speech_share(gain: Array, power: Array) -> Array:
    """Return the fraction of each frame's power that a gain leaves, shape (..., frames).

    `gain`, `power`: gain, and |X|^2, shape (..., bins, frames).
    """
    return (gain * gain * power).sum(-2) / (power.sum(-2) + TINY)


def exponents(share: Array, exponent: float, xp: Any, in_pauses: float = IN_PAUSES) -> Array:
    """Return the exponent of each frame's gain, given its `speech_share`; shape (..., frames)."""
    decibels = 10 / math.log(10) * xp.log(share + TINY)
    pause = xp.clip((SPEECH_DB - decibels) / (SPEECH_DB - PAUSE_DB), 0, 1)
    return exponent + max(in_pauses - exponent, 0.0) * pause


def largest_around(share: Array, xp: Any, around: int = AROUND) -> Array:
    """Return for each frame the largest `share` up to `around` frames away, shape (..., frames)."""
    found = share.copy()
    for apart in range(1, around + 1):
        found[..., apart:] = xp.maximum(found[..., apart:], share[..., :-apart])
        found[..., :-apart] = xp.maximum(found[..., :-apart], share[..., apart:])
    return found


WINDOW = 160
"""Number of frames that the network reads at a time: 2.6 s, as in training. In longer segments its
wide convolutions would read more than in training."""


class Refiner(TrainedNetwork):
    """A trained network that predicts the gain."""

    kind = "refiner"

    def refine(
        self, power: Array, *, gain: Array, gain_std: Array, speech: Array, noise: Array
    ) -> Array:
        """Predict the gain from the posterior means of the gain and of both sources' variances.

        `power`: |X|^2. `gain_std`: the gain's standard deviation. All: shape (..., bins, frames).
        """
        inputs = (power, gain, gain_std, speech, noise)
        (found,) = apply_in_windows(self._predict, inputs, WINDOW)
        return raise_gain(found, power, self.exponent)

    def _predict(
        self, power: Array, gain: Array, gain_std: Array, speech: Array, noise: Array
    ) -> tuple[Array]:
        """Predict the gain of one window, before it is raised to a power."""
        xp: Any = namespace(power)
        level = mean_level(power, xp)
        logs = [xp.log(each / level + network.SILENT) for each in (power, speech, noise)]
        features = network.features(logs[0], gain, gain_std, logs[1], logs[2], xp)
        logit = network.logits(self.outputs(features, xp), features)
        return (xp.swapaxes(layers.logistic(logit, xp), -1, -2),)
