"""By-products of a gradient evaluation for one source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from alphamf.factorization.cells import Cells
from alphamf.factorization.tiles import Tile
from alphamf.tools.arrays import Array, namespace


class Notes:
    """The gain and the row sums of a source, at the theta and Phi of the last draw.

    A chain's step is a draw of Phi given theta, then a move of theta given Phi, so values between
    the two belong to the posterior like values after them. The requested values are stored by
    `AlphaMF.draw_parts` if it covers all rows; after other draws they are None.
    """

    def __init__(self, source: int = 0) -> None:
        self.source = source
        self.request()
        self.gain: Array | None = None
        self.rows: Array | None = None

    def request(self, *, gain: bool = False, rows: bool = False) -> None:
        """Choose the values that the next draws store."""
        self._wants_gain, self._wants_rows = gain, rows

    def forget(self) -> None:
        """Clear all stored values."""
        self.gain = self.rows = None

    def start(self, theta: Array, power: Array) -> None:
        """Allocate the requested arrays and clear the others.

        `theta`: shape (*chains, *clips, D). `power`: shape (*clips, I, J).
        """
        xp, lead = namespace(theta), theta.shape[:-1]
        self.forget()
        if self._wants_gain:
            self.gain = xp.empty((*lead, *power.shape[-2:]), theta.dtype)
        if self._wants_rows:
            self.rows = xp.empty((2, *lead, power.shape[-2]), theta.dtype)
        axes = power.ndim - 2
        self._gain: Any = None if self.gain is None else _one_axis(self.gain, 0, axes + 2)
        self._rows: Any = None if self.rows is None else _one_axis(self.rows, 1, axes + 1)

    def add(self, tile: Tile, sources: Sequence[Cells]) -> None:
        """Store the values of a tile, whose outputs are the slopes at scale one."""
        if self._gain is None and self._rows is None:
            return
        own = sources[self.source]
        slopes: Any = own.out
        if self._rows is not None:
            sums = namespace(own.v).einsum("k...j,...j->k...", slopes, own.v)
            self._rows[(slice(None), *tile.where)][..., tile.rows] = sums
        if self._gain is not None:
            gain = slopes[0] * own.v
            gain *= own.alpha / 2
            self._gain[tile.where][..., tile.rows, :] = gain


def _one_axis(array: Array, first: int, last: int) -> Array:
    """Return a view that merges the axes of chains, after the first `first` axes, into one."""
    kept = array.ndim - last
    return array.reshape(*array.shape[:first], -1, *array.shape[kept:])
