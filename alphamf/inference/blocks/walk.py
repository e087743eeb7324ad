"""The data that a rank holds, and the loop over blocks: each gradient uses one part of them."""

import time
from collections.abc import Iterator
from math import sqrt
from operator import index
from pathlib import Path
from typing import Any

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.inference.blocks.ranks import Message, Ranks, SingleProcess
from alphamf.inference.blocks.ratings import Entries, FactorModel, Ratings, bounds
from alphamf.inference.blocks.samplers import StateLayout, layout, step
from alphamf.inference.chain import check_finite
from alphamf.inference.random import generator, noise
from alphamf.inference.ranges import NOT_NEGATIVE, check_range
from alphamf.tools.arrays import Array, Floats

CHUNK = 8192
"""Number of ratings whose rows of W and H are multiplied at once, so that they stay in cache."""


class Scratch:
    """Buffers that the blocks of an MPI rank use in turn; at most `most` ratings; `rank`: K."""

    def __init__(self, most: int, rank: int) -> None:
        self.error: Floats = np.empty(most, np.float32)
        self.rows: Floats = np.empty((CHUNK, rank), np.float32)
        self.columns: Floats = np.empty((CHUNK, rank), np.float32)
        self.ones: Floats = np.ones(rank, np.float32)


class BlockLikelihood:
    r"""The likelihood of the ratings of a block.

    E is the sparse matrix of the errors of these ratings. The gradients are E H' and W' E times a
    weight: E is a sampled dense-dense product, and the others are sparse-dense products.
    """

    entries: Entries  # Ratings, less the model's offset; they do not change

    def __init__(self, entries: Entries, shape: tuple[int, int], scratch: Scratch) -> None:
        from scipy.sparse import csr_array

        self.entries, self._scratch = entries, scratch
        starts = np.searchsorted(entries.rows, np.arange(shape[0] + 1)).astype(np.int32)
        self._error = scratch.error[: len(entries.values)]
        self._matrix = csr_array((self._error, entries.columns, starts), shape=shape)
        # SciPy copies an array that is a small part of a larger one.
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
    """Return the inner products of given rows of w and h, stored in ``scratch.error``: (n,)."""
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
    """Return the numbers of the row blocks that this rank owns."""
    each = blocks // ranks.size
    return range(ranks.rank * each, (ranks.rank + 1) * each)


class Chain:
    """The state arrays of a chain, block by block.

    Row block b is paired with column block (b + part) mod B, on the rank that owns row block b.

    `rows`: by row block, shape (A, I_b, K), for A state arrays of the sampler. `columns`: by column
    block, shape (A, J_b, K), of those blocks that this rank now holds.
    """

    ranks: SingleProcess | Ranks
    widths: Array  # Number of columns of each column block, shape (B,)
    number: int  # Index of the chain, from 0
    part: int  # Part of the data on which the blocks are paired

    def __init__(self, ranks: SingleProcess | Ranks, widths: Array, number: int) -> None:
        self.ranks, self.widths, self.number = ranks, widths, number
        self.rows: dict[int, Array] = {}
        self.columns: dict[int, Array] = {}
        self.part = 0

    def paired_blocks(self) -> list[tuple[int, int]]:
        """Return the numbers of the blocks paired on this rank: (row block, column block) each."""
        blocks = len(self.widths)
        return [(b, (b + self.part) % blocks) for b in owned_blocks(blocks, self.ranks)]

    def move(self, part: int) -> None:
        """Pass the blocks of H to the ranks whose rows they are paired with in part `part`."""
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
    """Mean predictions of a rank's test ratings, over the steps in which their blocks were paired.

    A test rating is predicted each time that its part of the data is drawn, about once in B steps,
    so that no messages are needed. Up to `burn_in` the latest prediction replaces the mean. With
    two chains the mean is that of Richardson-Romberg: twice the fine chain's minus the coarse
    chain's.

    `sums`: sums of predictions by chain, row block and column block, float64.
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
        """Add the paired blocks' predictions; `position`: which of their state arrays to use."""
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
        """Return the RMSE of mean predictions; None if one is missing, or without test ratings."""
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


class Walk:
    r"""The part of a chain over blocks that this rank holds.

    A step draws part s of the N ratings, Omega_s, with probability \|Omega_s\| / N, passes the
    blocks of H to the ranks with which they are now paired, and moves W and H with the gradient of

    .. math:: \tilde U = \frac{N}{|\Omega_s|} \sum_{(i, j) \in \Omega_s}
       \frac{e_{ij}^2}{2 \sigma_x^2} + \frac{|W|^2}{2 \sigma_w^2} + \frac{|H|^2}{2 \sigma_h^2},

    with e the errors of predictions. Random numbers have the key (step, block), so they are the
    same on any number of ranks (Simsekli et al., ICML 2016, 4.3, after Gemulla et al., KDD 2011).
    """

    model: FactorModel  # Model whose posterior is sampled
    sampler: Any  # SGLD, PSGLD, HAMCMC or SGRRLD of `alphamf.inference.samplers`
    seed: int  # Seed of the random streams
    every: int  # Steps between points of the curve of the RMSE
    # Ranks that share the run; each must make the same calls. By default, this process alone.
    ranks: SingleProcess | Ranks
    blocks: int  # B: the grid has B x B blocks
    steps: int  # Number of steps made
    # Seconds of these steps without predictions: CPU time in one process, wall time over ranks.
    seconds: float

    def __init__(
        self,
        ratings: Ratings,
        model: FactorModel,
        sampler: Any,
        *,
        seed: int,
        ranks: SingleProcess | Ranks | None = None,
        burn_in: int = 0,
        every: int = 10,
    ) -> None:
        # A checkpoint's index is written as JSON, which cannot hold NumPy's integers.
        seed, burn_in = index(seed), index(burn_in)
        check_range("seed", seed, NOT_NEGATIVE)
        self.ranks = ranks = ranks or SingleProcess()
        self.blocks = blocks = ratings.blocks
        if blocks % ranks.size:
            raise AlphaMFError(
                f"the number of blocks must be a multiple of the {ranks.size} ranks, not {blocks}"
            )
        self.model, self.sampler, self.seed, self.every = model, sampler, seed, every
        self.layout: StateLayout = layout(sampler)
        self.own: range = owned_blocks(blocks, ranks)
        self.common: int = 2 * blocks
        """Key of random numbers for all blocks together; keys of single blocks are b and B + j."""
        self.steps, self.seconds = 0, 0.0
        self._clock = time.process_time if ranks.size == 1 else time.perf_counter
        self.curve: list[list[float]] = []
        self._widths = [np.diff(bounds(count, blocks)) for count in ratings.shape]
        self._load(ratings, burn_in)
        self.chains: list[Chain] = [
            Chain(ranks, self._widths[1], c) for c in range(self.layout.chains)
        ]
        for chain in self.chains:
            for b, j in chain.paired_blocks():
                chain.rows[b] = self._start(b, self._widths[0][b])
                chain.columns[j] = self._start(blocks + j, self._widths[1][j])

    def _load(self, ratings: Ratings, burn_in: int) -> None:
        model, offset = self.model, np.float32(self.model.offset)
        read: list[tuple[int, int, Entries, Entries]] = []
        for b in self.own:
            for j in range(self.blocks):
                train, test = (e._replace(values=e.values - offset) for e in ratings.block(b, j))
                read.append((b, j, train, test))
        sizes = np.array([float(len(train.values)) for _, _, train, _ in read])
        most = max((len(e.values) for item in read for e in item[2:]), default=0)
        scratch = Scratch(most, model.rank)
        self._blocks = {
            (b, j): BlockLikelihood(
                train, (int(self._widths[0][b]), int(self._widths[1][j])), scratch
            )
            for b, j, train, _ in read
        }
        tests = {(b, j): test for b, j, _, test in read}
        self.predictions: Predictions = Predictions(
            tests, scratch, self.blocks, self.layout.chains, burn_in
        )
        self.sizes: Array = self.ranks.gather(sizes.reshape(len(self.own), self.blocks)).astype(
            np.int64
        )
        places = np.arange(self.blocks)
        self.parts: Array = np.array(
            [self.sizes[places, (places + s) % self.blocks].sum() for s in places]
        )
        if not self.parts.all():
            raise AlphaMFError(
                f"a part of the data has no ratings; use fewer than {self.blocks} blocks"
            )

    def _start(self, key: int, count: int) -> Array:
        """Draw a block of W or H: level + 0.1 prior deviations times noise; other arrays are 0."""
        _, arrays, positions, _, _ = self.layout
        state = np.zeros((arrays, int(count), self.model.rank), np.float32)
        variance = self.model.variance_w if key < self.blocks else self.model.variance_h
        z = generator(self.seed, 0, key).standard_normal(state.shape[1:], dtype=np.float32)
        state[:positions] = self.model.level + 0.1 * variance**0.5 * z
        return state

    def stream(self, key: int, draw: int = 0) -> Any:
        """Return the random stream of a block, or of all blocks together, for this step."""
        return generator(self.seed, 1 + self.steps, key, draw)

    def noise(self, key: int, shape: tuple[int, ...], draw: int = 0) -> Array:
        """Return standard normal noise of this shape for a block in this step."""
        return noise(self.stream(key, draw), np.empty(shape, np.float32))

    def pair_blocks(self, chain: Chain, draw: int = 0) -> None:
        """Draw a part of the data, pair the chain's blocks on it, and record their predictions.

        The part is independent of the chain's current state, so that its test ratings can be used
        without bias.
        """
        ends = np.cumsum(self.parts)
        number = self.stream(self.common, draw).integers(ends[-1])
        chain.move(int(np.searchsorted(ends, number, "right")))
        begin = self._clock()
        self.predictions.add(chain, self.layout.positions - 1, self.steps)
        self.seconds -= self._clock() - begin

    def gradients(self, chain: Chain, position: int) -> list[Array]:
        """Return the gradients at one of the positions, in the order of ``chain.halves()``."""
        weight = float(self.parts.sum() / self.parts[chain.part] / self.model.variance_x)
        found = []
        for b, j in chain.paired_blocks():
            w, h = chain.rows[b][position], chain.columns[j][position]
            of_w, of_h = self._blocks[b, j].gradient(w, h, weight)
            of_w += w * (1 / self.model.variance_w)
            of_h += h * (1 / self.model.variance_h)
            found += [of_w, of_h]
        return found

    def run(
        self, steps: int, *, checkpoint: Path | None = None, segment: int = 100
    ) -> Iterator[int]:
        """Load folder `checkpoint`, if any; yield steps to `steps`; save every `segment` steps."""
        from alphamf.inference.blocks import checkpoints

        if checkpoint is not None:
            checkpoints.load(checkpoint, self)
        while self.steps < steps:
            begin = self._clock()
            # A chain that diverges is detected by its sum, not by warnings.
            with np.errstate(over="ignore", invalid="ignore"):
                step(self, self.sampler)
                self._check_finite()
            self.steps += 1
            self.seconds += self._clock() - begin
            if self.steps % self.every == 0:
                rmse = self.predictions.rmse(self.ranks)
                if rmse is not None:
                    self.curve.append([self.steps, self.seconds, rmse])
            if checkpoint is not None and self.steps % segment == 0:
                checkpoints.save(checkpoint, self)
            yield self.steps

    def _check_finite(self) -> None:
        newest = self.layout.positions - 1
        for chain in self.chains:
            total = sum(float(x[newest].sum()) for _, x in chain.halves())
            check_finite(total, self.sampler, self.steps + 1)

    def factors(self) -> list[tuple[Array, Array]] | None:
        """Return W, (I, K), and H', (J, K), of each chain, block by block, on rank 0; else None."""
        newest = self.layout.positions - 1
        own = [{key: x[newest] for key, x in chain.halves()} for chain in self.chains]
        found = self.ranks.collect(own)
        if found is None:
            return None
        pairs = []
        for number in range(len(self.chains)):
            blocks = {key: x for rank in found for key, x in rank[number].items()}
            w, h = (
                np.concatenate([blocks[first + b] for b in range(self.blocks)])
                for first in (0, self.blocks)
            )
            pairs.append((w, h))
        return pairs
