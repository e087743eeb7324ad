"""Split the cells of alpha-MF into tiles that fit into a processor's L2 cache."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, NamedTuple

import numpy as np

from alphamf.tools.arrays import Array, namespace

CELLS = 80_000
"""Maximum number of cells of a tile, except for longer rows: six arrays of this size take two
megabytes."""


class Tile(NamedTuple):
    """Some cells of the matrix."""

    # Place among the chains, and among the clips if it has cells of one only: an index of the
    # leading axes of arrays with one axis of chains.
    where: tuple[Any, ...]
    clip: tuple[int, ...]  # Place among the clips: an index of the leading axes of the power
    rows: slice  # Rows of the matrix


def tiles(power: Array, chains: int, rows: slice) -> Iterator[Tile]:
    """Yield the tiles of some rows of all chains: whole chains, or rows of one clip.

    `power`: |X|^2, shape (*clips, rows, columns).
    """
    *clips, height, columns = power.shape
    chosen = range(height)[rows]
    of_chain = prod(clips) * len(chosen) * columns
    if namespace(power) is not np or of_chain <= CELLS:
        step = chains if namespace(power) is not np else max(1, CELLS // of_chain)
        for first in range(0, chains, step):
            yield Tile((slice(first, first + step),), (), rows)
        return
    step = max(1, CELLS // columns)
    for chain in range(chains):
        for clip in np.ndindex(*clips):
            for first in range(0, len(chosen), step):
                part = chosen[first : first + step]
                yield Tile((chain, *clip), clip, slice(part.start, part.stop, part.step))


class Workspace:
    """Buffers that are allocated once and reused by each tile."""

    def __init__(self) -> None:
        self._buffers: dict[str, Array] = {}

    def take(self, name: str, shape: tuple[int, ...], like: Array) -> Array:
        """Return an uninitialised array of a shape, with the module and dtype of another.

        `shape`: shape of the array. `like`: an array of the same module and dtype.
        """
        count = prod(shape)
        flat = self._buffers.get(name)
        if flat is None or flat.size < count:
            flat = self._buffers[name] = namespace(like).empty(count, like.dtype)
        return flat[:count].reshape(shape)
