"""Matrix factorisation of ratings over MPI ranks or in one process, with identical results.

The ratings are cut into a grid of B x B blocks, as in figure 4 of Simsekli et al. (ICML 2016). Part
s of the data is the B blocks (b, b + s mod B), which share no row and no column: one step reads one
part, and its blocks can be read side by side. A rank keeps the rows of W of its blocks and the
block of H that each of them meets at the time; blocks of H pass from rank to rank.

The block, not the rank, is the unit of everything that rounds: random numbers have the block in
their key, products are made block by block, and sums over all blocks are added in the blocks'
order. So B decides the numbers, and the number of ranks, which must divide B, only the time.
"""

from __future__ import annotations

from alphamf.inference.blocks.model import FactorModel
from alphamf.inference.blocks.ranks import Ranks, SingleProcess, launched_ranks
from alphamf.inference.blocks.ratings import ListedRatings, Ratings, SyntheticRatings
from alphamf.inference.blocks.walk import Walk

__all__ = [
    "FactorModel",
    "ListedRatings",
    "Ranks",
    "Ratings",
    "SingleProcess",
    "SyntheticRatings",
    "Walk",
    "launched_ranks",
]
