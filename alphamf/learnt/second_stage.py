"""A second look, in short windows: what long ones smear is put right.

A gain in windows of 64 ms spreads a knock of 2 ms over all of one: it is let through, or speech
goes with it. Here windows last 16 ms. Of each of their cells a network reads the sound and what
the refiner made of it, and answers how much of either is the speech.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from alphamf.audio.stft import Frame
from alphamf.learnt import network
from alphamf.learnt.refiner import Refiner, in_windows, mean_level
from alphamf.tools.arrays import Array, namespace

WINDOW = 326
"""Frames that the network reads at a time: 2.6 s, as in its lessons."""

MOST = 1.5
"""Most of the refiner's speech that is taken."""

START = (-4.0, math.log(2.0))
"""Logits of both shares, before the network says anything: next to nothing of the sound, and all
of the refiner's speech."""

SILENT = 1e-7
"""Power, in units of the mean, below which a cell counts as silent."""


def frame(rate: int) -> Frame:
    """Return windows of 16 ms, half of one apart, at `rate` in Hz."""
    return Frame(2 * (rate // 125), rate // 125)


def shares(refiner: Refiner, noisy: Array, first: Array) -> tuple[Array, Array]:
    """Return how much of the sound and of the refiner's speech is to be taken, cell by cell.

    Parameters
    ----------
    refiner
        A network for second looks.
    noisy, first
        Spectra of the sound and of what was made of it, complex, shape (bins, frames).

    Returns
    -------
    tuple of ndarray
        Shares from 0 to 1 and from 0 to `MOST`, shape (bins, frames).
    """
    xp = namespace(noisy)
    parameters = {name: xp.asarray(value) for name, value in refiner.parameters.items()}

    def look(noisy: Array, first: Array) -> tuple[Array, Array]:
        unit = xp.sqrt(mean_level(noisy.real**2 + noisy.imag**2, xp))
        return answered(parameters, features(noisy / unit, first / unit, 0.0, xp), xp)

    return in_windows(look, (noisy, first), WINDOW)


def features(noisy: Array, first: Array, louder: Array | float, xp: Any) -> Array:
    """Lay side by side what the network reads of every cell.

    Parameters
    ----------
    noisy, first
        As in `shares`, in units in which the mean power of `noisy` is one: squares of faint sounds
        would vanish. Shape (..., bins, frames).
    louder
        Log power that is added to all, for lessons.

    Returns
    -------
    ndarray
        Shape (..., frames, bins, `network.FEATURES`): the sound's log power, the logit of the gain
        that leads from it to `first`, the cosine between both, and the log powers of what was
        taken away and of what was left.
    """
    powers = [each.real**2 + each.imag**2 for each in (noisy, noisy - first, first)]
    inner = noisy.real * first.real + noisy.imag * first.imag
    gain = xp.clip(inner / (powers[0] + 1e-9), network.NARROWEST, 1 - network.NARROWEST)
    likeness = inner / xp.sqrt(powers[0] * powers[2] + 1e-12)
    logs = [xp.log(power + SILENT) + louder for power in powers]
    each = [
        logs[0] / 4,
        xp.log(gain / (1 - gain)) / network.LOGIT,
        likeness,
        xp.clip(logs[1], -14, 12) / 4,
        xp.clip(logs[2], -14, 12) / 4,
    ]
    features: Array = xp.swapaxes(xp.stack(each, -1), -3, -2)
    return features


def answered(
    parameters: Mapping[str, Array],
    features: Array,
    xp: Any,
    convolve: Callable[..., Array] = network.correlate,
) -> tuple[Array, Array]:
    """Return both shares, shape (..., bins, frames), that the network answers to `features`."""
    said = network.answers(parameters, features, xp, convolve)
    sound, speech = (
        xp.swapaxes(network.logistic(said[..., k] + START[k], xp), -1, -2) for k in range(2)
    )
    return sound, MOST * speech
