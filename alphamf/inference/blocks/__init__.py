"""Matrix factorisation of ratings over MPI ranks or in one process, with identical results.

The ratings are cut into a grid of B x B blocks, as in figure 4 of Simsekli et al. (ICML 2016). Part
s of the data is the B blocks (b, (b + s) mod B), which share no row or column: one gradient reads a
part, and its blocks can be processed in parallel. A rank keeps the rows of W of its blocks, and the
block of H that is currently paired with each of them; blocks of H pass from rank to rank.

Everything that rounds is computed per block, not per rank: random numbers have the block in their
key, products are computed block by block, and sums over all blocks are added in the order of the
blocks. So B determines the results, and the number of ranks, which must divide B, only the time.
"""

from alphamf.inference.blocks.ranks import Ranks, SingleProcess, launched_ranks
from alphamf.inference.blocks.ratings import FactorModel, ListedRatings, Ratings, SyntheticRatings
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
