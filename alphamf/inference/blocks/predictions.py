"""Predictions of test ratings, made whenever their block of W and their block of H are paired."""

from __future__ import annotations

from math import sqrt

import numpy as np

from alphamf.inference.blocks.blocks import Scratch, products
from alphamf.inference.blocks.chains import Chain
from alphamf.inference.blocks.ranks import Ranks, SingleProcess
from alphamf.inference.blocks.ratings import Entries
from alphamf.tools.arrays import Array


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
