"""Ratings split into a grid of blocks, from lists or generated block by block, and their model."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.inference.random import Key, generator
from alphamf.inference.ranges import at_least, check_ranges
from alphamf.inference.targets.bpmf import VARIANCES, check_index
from alphamf.tools.arrays import Array


@dataclass(frozen=True)
class FactorModel:
    r"""A probabilistic matrix factorisation; see `alphamf.inference.targets.bpmf.BPMF`."""

    rank: int  # K, the number of factors
    # variance_w, variance_h, variance_x: sigma_w^2, sigma_h^2 and sigma_x^2.
    variance_w: float = 1.0
    variance_h: float = 1.0
    variance_x: float = 1.0
    offset: float = 0.0  # Constant that is added to each product of W and H
    level: float = 0.0  # Value around which the entries of W and H start

    def __post_init__(self) -> None:
        check_ranges(self, **VARIANCES, rank=at_least(1))


class Entries(NamedTuple):
    """The ratings of a block, row by row."""

    # rows, columns: indices within the block, int32, sorted by row and then by column.
    rows: Array
    columns: Array
    values: Array  # Ratings, float32


class Ratings(Protocol):
    """Interface of a source of blocks of ratings."""

    shape: tuple[int, int]  # Number of rows and columns
    blocks: int  # B: the grid has B x B blocks

    def block(self, row: int, column: int) -> tuple[Entries, Entries]:
        """Return a block's training and test ratings."""
        ...


def bounds(count: int, blocks: int) -> Array:
    """Return the first row of each of `blocks` parts of `count` rows and the end: (blocks + 1,)."""
    return np.arange(blocks + 1) * count // blocks


class ListedRatings:
    """Ratings from lists; rows and columns are shuffled so that blocks are similar.

    `train`, `test`: row and column numbers, from 0, and values, each of shape (n,).
    """

    shape: tuple[int, int]  # Number of rows and columns
    blocks: int  # B: the grid has B x B blocks

    def __init__(
        self,
        train: tuple[Array, Array, Array],
        test: tuple[Array, Array, Array],
        *,
        shape: tuple[int, int],
        blocks: int,
    ) -> None:
        _check(shape, blocks)
        self.shape, self.blocks = shape, blocks
        self.order: tuple[Any, ...] = tuple(
            generator(0, axis).permutation(n) for axis, n in enumerate(shape)
        )
        self._sorted = tuple(self._sort(*entries) for entries in (train, test))

    def _sort(self, rows: Array, columns: Array, values: Array) -> tuple[Entries, Array]:
        """Sort entries by block; return them, and the array of block starts and the last end."""
        check_index("rows", rows, self.shape[0])
        check_index("columns", columns, self.shape[1])
        of_rows, of_columns = (bounds(n, self.blocks) for n in self.shape)
        rows, columns = self.order[0][rows], self.order[1][columns]
        down: Array = np.searchsorted(of_rows, rows, "right") - 1
        across: Array = np.searchsorted(of_columns, columns, "right") - 1
        block = down * self.blocks + across
        order: Array = np.lexsort((columns, rows, block))
        entries = Entries(
            (rows - of_rows[down]).astype(np.int32)[order],
            (columns - of_columns[across]).astype(np.int32)[order],
            values.astype(np.float32)[order],
        )
        return entries, np.searchsorted(block[order], np.arange(self.blocks**2 + 1))

    def block(self, row: int, column: int) -> tuple[Entries, Entries]:
        """Return a block's training and test ratings."""
        number = row * self.blocks + column
        train, test = (
            Entries(*(x[starts[number] : starts[number + 1]].copy() for x in entries))
            for entries, starts in self._sorted
        )
        return train, test


@dataclass
class SyntheticRatings:
    """Synthetic ratings of any size; each block has its own random stream.

    A rating is 3.6 plus the inner product of a row's and a column's standard normal factors, over
    the root of the rank, plus normal noise of deviation 0.5. The first columns of a block have the
    most ratings; a pair drawn twice counts once, so there are fewer ratings than `count`.
    """

    shape: tuple[int, int]  # Number of rows and columns
    count: int  # Approximate number of ratings, those for testing included
    _: KW_ONLY
    rank: int  # Number of factors
    blocks: int  # B, the number of row blocks and of column blocks
    seed: int = 0  # Seed of the ratings
    test: float = 0.01  # Proportion of the ratings that are for testing

    def __post_init__(self) -> None:
        _check(self.shape, self.blocks)

    def block(self, row: int, column: int) -> tuple[Entries, Entries]:
        """Generate a block's training and test ratings."""
        w, h = self._factors(0, row), self._factors(1, column)
        rng = generator(self.seed, Key.RATINGS, 2, row, column)
        count = self.count // self.blocks**2
        # Columns are squares of uniform numbers: the density falls like 1 / sqrt.
        columns = (rng.random(count) ** 2 * h.shape[1]).astype(np.int64)
        pairs = np.unique(rng.integers(w.shape[1], size=count) * h.shape[1] + columns)
        rows, columns = (x.astype(np.int32) for x in np.divmod(pairs, h.shape[1]))
        values = 0.5 * rng.standard_normal(len(pairs), dtype=np.float32)
        values += 3.6
        for left, right in zip(w, h, strict=True):
            values += left[rows] * right[columns]
        chosen = rng.random(len(pairs)) < self.test
        train, test = (Entries(rows[c], columns[c], values[c]) for c in (~chosen, chosen))
        return train, test

    def _factors(self, axis: int, block: int) -> Array:
        ends = bounds(self.shape[axis], self.blocks)
        count = int(ends[block + 1] - ends[block])
        rng = generator(self.seed, Key.RATINGS, axis, block)
        factors: Array = rng.standard_normal((self.rank, count), dtype=np.float32)
        factors *= self.rank**-0.25
        return factors


def _check(shape: tuple[int, int], blocks: int) -> None:
    if not 1 <= blocks <= min(shape):
        raise AlphaMFError(f"blocks must be from 1 to {min(shape)}, not {blocks}")
