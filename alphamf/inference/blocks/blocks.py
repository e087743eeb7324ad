"""What a rank holds: likelihoods of blocks, the arrays of a chain, and predictions."""

from math import sqrt
from typing import Any

import numpy as np

from alphamf.inference.blocks.ranks import Message, Ranks, SingleProcess
from alphamf.inference.blocks.ratings import Entries
from alphamf.tools.arrays import Array, Floats

CHUNK = 8192
"""Ratings whose rows of W and H are multiplied at once, so that their products stay in cache."""


class Scratch:
    """Buffers shared by all blocks of a rank, which use them one at a time."""

    def __init__(self, most: int, rank: int) -> None:
        self.error: Floats = np.empty(most, np.float32)
        self.rows: Floats = np.empty((CHUNK, rank), np.float32)
        self.columns: Floats = np.empty((CHUNK, rank), np.float32)
        self.ones: Floats = np.ones(rank, np.float32)


class BlockLikelihood:
    r"""The likelihood of a block.

    With E the matrix of errors, of the ratings' pattern, the gradients are E H' and
    W' E times a weight: sampled dense-dense products first, then sparse-dense ones.
    """

    entries: Entries  # Ratings, less the model's offset; their values are kept as they are

    def __init__(self, entries: Entries, shape: tuple[int, int], scratch: Scratch) -> None:
        from scipy.sparse import csr_array

        self.entries, self._scratch = entries, scratch
        starts = np.searchsorted(entries.rows, np.arange(shape[0] + 1)).astype(np.int32)
        self._error = scratch.error[: len(entries.values)]
        self._matrix = csr_array((self._error, entries.columns, starts), shape=shape)
        # SciPy copies what is a small part of a larger array.
        self._matrix.data = self._error
        self._across = self._matrix.T

    def gradient(self, w: Array, h: Array, weight: float) -> tuple[Array, Array]:
        """Return the gradients by W, shape (I_b, K), and by H', (J_b, K), times `weight`."""
        rows, columns, values = self.entries
        error = products(w, h, rows, columns, self._scratch)
        error -= values
        error *= weight
        return self._matrix @ h, self._across @ w


def products(w: Array, h: Array, rows: Array, columns: Array, scratch: Scratch) -> Array:
    """Return inner products of the given rows of w and of h in ``scratch.error``, shape (n,)."""
    out = scratch.error[: len(rows)]
    for first in range(0, len(rows), CHUNK):
        part = slice(first, min(first + CHUNK, len(rows)))
        count = part.stop - first
        left, right = scratch.rows[:count], scratch.columns[:count]
        # With "raise", the default, take would write to a buffer of its own first.
        np.take(w, rows[part], axis=0, out=left, mode="clip")
        np.take(h, columns[part], axis=0, out=right, mode="clip")
        left *= right
        np.matmul(left, scratch.ones, out=out[part])
    return out


def owned_blocks(blocks: int, ranks: SingleProcess | Ranks) -> range:
    """Return the row blocks that a rank owns."""
    each = blocks // ranks.size
    return range(ranks.rank * each, (ranks.rank + 1) * each)


class Chain:
    """The state arrays of a chain, block by block.

    Row block b meets column block (b + part) mod B, and the rank that owns the one has the other.

    `rows`: by row block, shape (A, I_b, K), for A state arrays of the sampler. `columns`: by column
    block, shape (A, J_b, K), of those blocks that are here now.
    """

    ranks: SingleProcess | Ranks
    widths: Array
    number: int
    part: int  # Part of the data on which the blocks are paired

    def __init__(self, ranks: SingleProcess | Ranks, widths: Array, number: int) -> None:
        self.ranks, self.widths, self.number = ranks, widths, number
        self.rows: dict[int, Array] = {}
        self.columns: dict[int, Array] = {}
        self.part = 0

    def paired_blocks(self) -> list[tuple[int, int]]:
        """Return the blocks that are paired on this rank: row block and column block."""
        blocks = len(self.widths)
        return [(b, (b + self.part) % blocks) for b in owned_blocks(blocks, self.ranks)]

    def move(self, part: int) -> None:
        """Pass the blocks of H to the next rank, which pairs them with other rows."""
        blocks = len(self.widths)
        each = blocks // self.ranks.size
        before, self.part = self.part, part
        outgoing, incoming = [], []
        here: dict[int, Array] = {}
        for j, array in self.columns.items():
            to = (j - part) % blocks // each
            if to != self.ranks.rank:
                outgoing.append(Message(to, self._tag(j), array))
        for _, j in self.paired_blocks():
            if j in self.columns:
                here[j] = self.columns[j]
            else:
                here[j] = np.empty(self._shape(j), np.float32)
                origin = (j - before) % blocks // each
                incoming.append(Message(origin, self._tag(j), here[j]))
        self.ranks.exchange(outgoing, incoming)
        self.columns = here

    def _shape(self, j: int) -> tuple[int, ...]:
        arrays, _, rank = next(iter(self.rows.values())).shape
        return arrays, int(self.widths[j]), rank

    def _tag(self, j: int) -> int:
        return self.number * len(self.widths) + j

    def halves(self) -> list[tuple[int, Array]]:
        """Return the local state arrays with their random keys: b (rows) or B + j (columns)."""
        pairs: list[tuple[int, Any]] = []
        for b, j in self.paired_blocks():
            pairs += [(b, self.rows[b]), (len(self.widths) + j, self.columns[j])]
        return pairs


class Predictions:
    """Mean predictions of the test ratings of a rank's rows, over steps that paired them.

    A test rating is predicted each time that its part of the data is drawn, about once in B steps,
    so that no messages are needed. Before `burn_in` the latest prediction replaces the mean. With
    two chains the mean is that of Richardson-Romberg: twice the fine chain's minus the coarse
    chain's.

    `sums`: by chain, row block and column block, float64.
    """

    burn_in: int  # Number of steps before the means begin

    def __init__(
        self,
        tests: dict[tuple[int, int], Entries],
        scratch: Scratch,
        blocks: int,
        chains: int,
        burn_in: int,
    ) -> None:
        self.burn_in, self._tests, self._scratch = burn_in, tests, scratch
        self.sums: dict[tuple[int, int, int], Array] = {
            (c, b, j): np.zeros(len(test.values))
            for c in range(chains)
            for (b, j), test in tests.items()
        }
        self.visits: Array = np.full((chains, blocks), -1)

    def add(self, chain: Chain, position: int, steps: int) -> None:
        """Add the predictions of the blocks that are paired on this rank."""
        kept = steps > self.burn_in
        first = not kept or self.visits[chain.number, chain.part] < 1
        for b, j in chain.paired_blocks():
            test, total = self._tests[b, j], self.sums[chain.number, b, j]
            w, h = chain.rows[b][position], chain.columns[j][position]
            predicted = products(w, h, test.rows, test.columns, self._scratch)
            if first:
                total[:] = predicted
            else:
                total += predicted
        if first:
            self.visits[chain.number, chain.part] = kept
        else:
            self.visits[chain.number, chain.part] += 1

    def rmse(self, ranks: SingleProcess | Ranks) -> float | None:
        """Return the RMSE of the mean predictions; None until all have been predicted."""
        if self.visits.min() < 0:
            return None
        counts = self.visits.clip(1)
        blocks = counts.shape[1]
        own: dict[int, Array] = {}
        for (b, j), test in self._tests.items():
            part = (j - b) % blocks
            means = [self.sums[c, b, j] / counts[c, part] for c in range(len(counts))]
            mean = means[0] if len(means) == 1 else 2 * means[0] - means[1]
            mean -= test.values
            own[b] = own.get(b, 0.0) + np.array([mean @ mean, len(mean)])
        square, count = ranks.gather(np.stack(list(own.values()))).sum(0)
        return sqrt(square / count) if count else None
