"""A chain over blocks: the state arrays of a rank's rows, and of the current columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from alphamf.inference.blocks.ranks import Message, Ranks, SingleProcess
from alphamf.tools.arrays import Array


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
