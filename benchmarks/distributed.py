"""Time and traffic of a step over blocks, compared with the cost model of docs/scale.md.

Synthetic ratings of Netflix's shape, or of a share of its users::

    python -m benchmarks.distributed --share 0.05
    mpiexec -n 4 python -m benchmarks.distributed --share 0.05 --sampler hamcmc

A row for each sampler: CPU and wall milliseconds of a step on the slowest rank, the model's time,
the bytes that all ranks together send in a step, and the formula's mean.
"""

from __future__ import annotations

import argparse
import time

from alphamf.inference.blocks import Alone, Made, Model, Ranks, Walk, launched
from alphamf.inference.blocks.samplers import Layout, layout
from alphamf.inference.samplers.hamcmc import HAMCMC
from alphamf.inference.samplers.langevin import PSGLD, SGLD
from alphamf.inference.samplers.richardson import SGRRLD
from alphamf.tools.tables import markdown

USERS, FILMS, RATINGS = 480_189, 17_770, 100_480_507
"""Of the Netflix prize."""

STEP = 1e-6
SAMPLERS = {
    "dsgld": SGLD(STEP),
    "psgld": PSGLD(STEP, damping=5.0),
    "hamcmc": HAMCMC(STEP, memory=2, trust=100.0),
    "dsgrrld": SGRRLD(STEP),
}

GRADIENTS = {"dsgld": 1, "psgld": 1, "hamcmc": 2, "dsgrrld": 3}
NANOSECONDS = {"dsgld": 13, "psgld": 18, "hamcmc": 24, "dsgrrld": 46}
"""Of a step for each entry of W and H, apart from the ratings."""

PER_RATING, PER_PRODUCT = 9.4, 0.36
"""Nanoseconds of a gradient for each rating, and for each rating and factor."""


def expected_ms(sampler: str, walk: Walk, made: Made) -> float:
    """Return the model's CPU milliseconds of a step, for each rank.

    Parameters
    ----------
    sampler
        Its name.
    walk
        The run.
    made
        The ratings.
    """
    rank = walk.model.rank
    ratings = walk.parts.sum() / walk.blocks
    of_ratings = GRADIENTS[sampler] * ratings * (PER_RATING + PER_PRODUCT * rank)
    of_entries = sum(made.shape) * rank * NANOSECONDS[sampler]
    return float(of_ratings + of_entries) / walk.ranks.size / 1e6


def expected_bytes(kept: Layout, walk: Walk, made: Made) -> float:
    """Return the mean bytes that all ranks send in a step, without those of the curve.

    Parameters
    ----------
    kept
        Arrays of the sampler's state.
    walk
        The run.
    made
        The ratings.
    """
    size = walk.ranks.size
    moved = (1 - 1 / size) * made.shape[1] * walk.model.rank * 4 * kept.arrays * kept.moves
    return moved + 8 * (size - 1) * walk.blocks * kept.sums


def measure(
    sampler: str, made: Made, rank: int, steps: int, ranks: Alone | Ranks
) -> dict[str, str] | None:
    """Run a sampler, and return its row on rank 0.

    Parameters
    ----------
    sampler
        Its name.
    made
        The ratings.
    rank
        Of the factors.
    steps
        That are timed.
    ranks
        MPI ranks.
    """
    kept = layout(SAMPLERS[sampler])
    model = Model(rank, offset=3.6)
    walk = Walk(made, model, SAMPLERS[sampler], seed=0, ranks=ranks, every=10**9)
    for _ in walk.run(3):
        pass
    sent, wall, cpu = ranks.sent, time.perf_counter(), time.process_time()
    for _ in walk.run(3 + steps):
        pass
    cpu = time.process_time() - cpu
    found = ranks.collect((cpu, time.perf_counter() - wall, ranks.sent - sent))
    if found is None:
        return None
    cpus, walls, bytes_sent = zip(*found, strict=True)
    return {
        "sampler": sampler,
        "K": str(rank),
        "ratings": f"{walk.parts.sum():,}",
        "ranks": str(ranks.size),
        "CPU ms": f"{1e3 * max(cpus) / steps:.1f}",
        "model": f"{expected_ms(sampler, walk, made):.1f}",
        "wall ms": f"{1e3 * max(walls) / steps:.1f}",
        "MB sent": f"{sum(bytes_sent) / steps / 1e6:.3f}",
        "formula": f"{expected_bytes(kept, walk, made) / 1e6:.3f}",
    }


def main() -> None:
    """Print a table of the samplers that are asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--share", type=float, default=0.01, help="of Netflix's users")
    parser.add_argument("--sampler", nargs="+", choices=SAMPLERS, default=list(SAMPLERS))
    parser.add_argument("--rank", type=int, default=50)
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    ranks = launched() or Alone()
    made = Made(
        (int(USERS * options.share), FILMS),
        int(RATINGS * options.share),
        rank=10,
        blocks=options.blocks,
    )
    found = [
        measure(sampler, made, options.rank, options.steps, ranks) for sampler in options.sampler
    ]
    rows = [row for row in found if row is not None]
    if rows:
        print(markdown(list(rows[0]), [list(row.values()) for row in rows]))


if __name__ == "__main__":
    main()
