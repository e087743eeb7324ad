"""The second stage: a network that corrects the refiner's speech in windows of 16 ms.

A gain in windows of 64 ms spreads a knock of 2 ms over all of one: it is let through, or speech is
removed with it. Here windows last 16 ms. Of each of their cells a network reads the sound X and the
refiner's speech Y, and gives the coefficients a and b of the speech a X + b Y.
"""

from __future__ import annotations

import math
from typing import Any

from alphamf.audio.stft import Frame
from alphamf.learnt import layers, network
from alphamf.learnt.network_file import TrainedNetwork
from alphamf.learnt.windows import in_windows, mean_level
from alphamf.tools.arrays import Array, namespace

WINDOW = 326
"""Frames that the network reads at a time: 2.6 s, as in its training."""

MOST = 1.5
"""Largest coefficient of the refiner's speech."""

CHANGE = 0.75
"""Part of the network's change of the refiner's speech that is taken: all of it has no more ESTOI,
and less PESQ (docs/quality.md)."""

START = (-4.0, math.log(2.0))
"""Logits of both coefficients where the network's output is zero: next to nothing of the sound, and
all of the refiner's speech."""

SILENT = 1e-7
"""Power, in units of the mean, below which a cell counts as silent."""


def frame(rate: int) -> Frame:
    """Return windows of 16 ms, half of one apart, at `rate` in Hz."""
    return Frame(2 * (rate // 125), rate // 125)


class SecondStage(TrainedNetwork):
    """A trained network whose outputs are the coefficients of the sound and of the speech."""

    kind = "second-stage"

    def coefficients(self, noisy: Array, first: Array) -> tuple[Array, Array]:
        """Return the coefficients of the sound and of the refiner's speech, cell by cell.

        Those of the network are brought nearer to 0 and 1, which change nothing, by `CHANGE`.

        Parameters
        ----------
        noisy, first
            Spectra of the sound and of the refiner's speech, complex, shape (bins, frames).

        Returns
        -------
        tuple of ndarray
            From 0 to 1 and from 0 to `MOST`, shape (bins, frames).
        """
        sound, speech = in_windows(self._coefficients, (noisy, first), WINDOW)
        return CHANGE * sound, CHANGE * speech + (1 - CHANGE)

    def _coefficients(self, noisy: Array, first: Array) -> tuple[Array, Array]:
        """Do as `coefficients` for one window."""
        xp: Any = namespace(noisy)
        unit = xp.sqrt(mean_level(noisy.real**2 + noisy.imag**2, xp))
        return coefficients(self.outputs(features(noisy / unit, first / unit, 0.0, xp), xp), xp)


def features(noisy: Array, first: Array, louder: Array | float, xp: Any) -> Array:
    """Return the network's input features of every cell.

    Parameters
    ----------
    noisy, first
        As in `SecondStage.coefficients`, in units in which the mean power of `noisy` is one:
        squares of faint sounds would vanish. Shape (..., bins, frames).
    louder
        Log power that is added to all, in training.
    xp
        Module of the arrays.

    Returns
    -------
    ndarray
        Shape (..., frames, bins, `network.FEATURES`): the sound's log power, the logit of the gain
        that leads from it to `first`, the cosine between both, and the log powers of what was
        removed and of what was left.
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
    return network.cells_of(each, xp)


def coefficients(found: Array, xp: Any) -> tuple[Array, Array]:
    """Return both coefficients of every cell.

    Parameters
    ----------
    found
        As from `network.outputs`, shape (..., frames, bins, 2).
    xp
        Module of the array.

    Returns
    -------
    tuple of ndarray
        Shape (..., bins, frames) each.
    """
    sound, speech = (
        xp.swapaxes(layers.logistic(found[..., k] + START[k], xp), -1, -2) for k in range(2)
    )
    return sound, MOST * speech
