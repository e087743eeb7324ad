"""The loop over blocks: which part of the data each step uses, and the predictions of the chain."""

import time
from collections.abc import Iterator
from operator import index
from pathlib import Path
from typing import Any

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.inference.blocks.blocks import (
    BlockLikelihood,
    Chain,
    Predictions,
    Scratch,
    owned_blocks,
)
from alphamf.inference.blocks.ranks import Ranks, SingleProcess
from alphamf.inference.blocks.ratings import Entries, FactorModel, Ratings, bounds
from alphamf.inference.blocks.samplers import StateLayout, layout, step
from alphamf.inference.chain import check_finite
from alphamf.inference.random import generator, noise
from alphamf.inference.ranges import NOT_NEGATIVE, check_range
from alphamf.tools.arrays import Array


class Walk:
    r"""The part of a chain over blocks that this rank holds.

    A step draws a part s of the data with probability \|Omega_s\| / N, passes the blocks of H to
    the ranks with which they are paired in this part, and moves every block with the gradient of

    .. math:: \tilde U = \frac{N}{|\Omega_s|} \sum_{(i, j) \in \Omega_s}
       \frac{e_{ij}^2}{2 \sigma_x^2} + \frac{|W|^2}{2 \sigma_w^2} + \frac{|H|^2}{2 \sigma_h^2}.

    Random numbers come from streams with the key (step, block), so that they are the same on any
    number of ranks (Simsekli et al., ICML 2016, section 4.3, after Gemulla et al., KDD 2011).
    """

    model: FactorModel  # The posterior
    sampler: Any  # SGLD, PSGLD, HAMCMC or SGRRLD of `alphamf.inference.samplers`
    seed: int  # The same seed, the same chain
    every: int  # Steps between points of the curve
    # Those that share the run, each of which makes the same calls; by default this process alone.
    ranks: SingleProcess | Ranks
    blocks: int
    steps: int  # Number of steps made
    # Time that they took, predictions aside: CPU time in one process, wall time over ranks.
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
        # NumPy's integers are not for JSON, which a checkpoint's index is written in.
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
        """Key of random numbers that are not of one block; those below are b and B + j."""
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
        """Return the start: a tenth of the prior's width around the level, empty memories."""
        _, arrays, positions, _, _ = self.layout
        state = np.zeros((arrays, int(count), self.model.rank), np.float32)
        variance = self.model.variance_w if key < self.blocks else self.model.variance_h
        z = generator(self.seed, 0, key).standard_normal(state.shape[1:], dtype=np.float32)
        state[:positions] = self.model.level + 0.1 * variance**0.5 * z
        return state

    def stream(self, key: int, draw: int = 0) -> Any:
        """Return the random stream of a block, or of all blocks, for this step."""
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
        """Continue until `steps` steps are made; yield the number of steps after each."""
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
        """Return W, (I, K), and H', (J, K), of each chain on rank 0; None on the others."""
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
