r"""The channel response: how a recording's frequency response differs from the dictionary's.

Microphone, line and room change the spectrum of speech in ways that the training speech does not
contain. The
dictionary is therefore used as :math:`\mathrm{diag}(d)\, W`, with one gain d per frequency that is
the same in all frames of the context. d is learned during burn-in, and is constant while the chain
is averaged. It is a smooth point estimate, by the multiplicative rule of a factor,

.. math:: d \leftarrow d\,
   \frac{S \sum_j v\, \partial U^- / \partial v}{S \sum_j v\, \partial U^+ / \partial v},

where S smooths over frequency, so that the spectra cannot be redrawn bin by bin. EM would take the
root of the quotient, which never raises U but moves half as far; burn-in is too short for that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from alphamf.factorization.alpha_mf import AlphaMF
from alphamf.tools.arrays import Array, namespace

SMOOTH_HZ = 60.0
"""Standard deviation of the smoothing over frequency."""


class Channel:
    """Estimates the channel response d of a source, and rewrites its fixed basis in place.

    `spacing`: distance between frequency bins in Hz.
    """

    target: AlphaMF  # The model
    source: int  # Index of the source, that of the target's notes
    context: int  # Frames stacked in a column

    def __init__(
        self,
        target: AlphaMF,
        source: int,
        context: int,
        spacing: float,
        burn_in: int,
        components: int = 1,
    ) -> None:
        xp = namespace(target.power)
        self.target, self.source, self.context = target, source, context
        self._components = components
        self.steps: range = range(burn_in // 10 + 1, 3 * burn_in // 4 + 1, max(1, burn_in // 40))
        reach = int(3 * SMOOTH_HZ / spacing)
        distance = xp.arange(-reach, reach + 1) * (spacing / SMOOTH_HZ)
        self._kernel = xp.exp(-0.5 * distance**2).astype(target.power.dtype)

    def move(self, state: Any) -> None:
        """Update d from the state of the chain, at the steps when it is due."""
        if state.step not in self.steps:
            return
        xp = namespace(self.target.power)
        found: Any = self.target.notes.rows
        if found is None:
            found = self.target.row_parts(state.theta, self.source)
        plus, minus = (self._fold(rows) for rows in found)
        tiny = xp.finfo(plus.dtype).tiny
        log_ratio = xp.log((minus + tiny) / (plus + tiny))
        log_ratio -= log_ratio.mean(-1, keepdims=True)
        basis = self.target.sources[self.source].basis
        basis *= xp.tile(xp.exp(log_ratio), self.context)[..., None]

    def _fold(self, rows: Array) -> Array:
        """Sum over chains and over the stacked frames, and smooth each component over frequency.

        Returns: shape (*clips, components * bins).
        """
        xp = namespace(rows)
        chains = rows.ndim - 1 - (self.target.power.ndim - 2)
        rows = rows.sum(tuple(range(chains)))
        frame = rows.reshape(*rows.shape[:-1], self.context, -1).sum(-2)
        bins = frame.reshape(*frame.shape[:-1], self._components, -1)
        reach = len(self._kernel) // 2
        smooth: Array = xp.empty_like(bins)
        for place in np.ndindex(bins.shape[:-1]):
            padded = xp.pad(bins[place], reach, mode="edge")
            smooth[place] = xp.convolve(padded, self._kernel, mode="valid")
        return smooth.reshape(frame.shape)
