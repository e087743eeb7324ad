"""Walks that ``test_ranks.py`` runs in its own process, and as a script over MPI ranks."""

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from alphamf.inference.blocks import (
    FactorModel,
    SingleProcess,
    SyntheticRatings,
    Walk,
    launched_ranks,
)
from alphamf.inference.samplers.hamcmc import HAMCMC
from alphamf.inference.samplers.langevin import PSGLD, SGLD
from alphamf.inference.samplers.richardson import SGRRLD
from alphamf.research.experiments.catalogue import EXPERIMENTS
from alphamf.research.experiments.hamcmc import distributed_mf

SAMPLERS = {
    "DSGLD": SGLD(1e-3),
    "PSGLD": PSGLD(1e-2, damping=5.0),
    "HAMCMC": HAMCMC(1e-3, memory=3, gamma=1.0, trust=100.0),
    "DSGRRLD": SGRRLD(1e-3),
}
BLOCKS, SHAPE, RANK, STEPS, EVERY = 4, (90, 64), 5, 100, 10


def made(test=0.1, blocks=BLOCKS):
    return SyntheticRatings(SHAPE, 2000, rank=3, blocks=blocks, test=test)


def small(name, ranks=None, burn_in=20):
    model = FactorModel(RANK, offset=3.6, variance_w=0.5)
    return Walk(made(), model, SAMPLERS[name], seed=1, ranks=ranks, burn_in=burn_in, every=EVERY)


def tiny():
    """Return the experiment with three jobs of 40 steps."""
    sizes = {"users": 60, "steps": 40, "burn_in": 10}

    def jobs(full, seed):
        return [{**job, **sizes} for job in distributed_mf.jobs(full, seed)[:3]]

    return replace(EXPERIMENTS["distributed-mf"], jobs=jobs)


def outcome(walk, steps=STEPS, **settings):
    """Run a walk, and return all that the number of ranks must not change, on rank 0."""
    passed, rows, gather = [], [], walk.ranks.gather

    def noted(own):
        rows.append(gather(own))
        return rows[-1]

    walk.ranks.gather = noted
    for chain in walk.chains:
        move = chain.move

        def logged(part, chain=chain, move=move):
            passed.append((part - chain.part) % walk.blocks)
            move(part)

        chain.move = logged
    before = walk.ranks.sent
    for _ in walk.run(steps, **settings):
        pass
    walk.ranks.gather = gather
    sent = walk.ranks.collect(walk.ranks.sent - before)
    factors = walk.factors()
    if factors is None:
        return None
    return {
        "factors": np.concatenate([x.ravel() for pair in factors for x in pair]),
        "curve": np.array([[steps, rmse] for steps, _, rmse in walk.curve]),
        "passed": np.array(passed),
        "rows": np.concatenate([np.empty(0), *(x.ravel() for x in rows)]),
        "sent": np.array(sum(sent)),
    }


def outcomes(ranks=None):
    """Return the outcomes of all samplers, with names for ``np.savez``."""
    found = {}
    for name in SAMPLERS:
        own = outcome(small(name, ranks)) or {}
        found |= {f"{name}.{key}": value for key, value in own.items()}
    return found


def same(one, other):
    """Compare all but bytes."""
    assert one.keys() == other.keys()
    for name in one:
        if not name.endswith("sent"):
            np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def killed(ranks, folder: Path, step: int, rank: int):
    """Run HAMCMC with checkpoints, and kill one rank at one step."""
    walk = small("HAMCMC", ranks)
    with ranks.report_loss("a rank was lost: again"):
        for steps in walk.run(STEPS, checkpoint=folder, segment=20):
            if (steps, ranks.rank) == (step, rank):
                os.kill(os.getpid(), signal.SIGKILL)
    return outcome(walk)


if __name__ == "__main__":
    what, output, *rest = sys.argv[1:]
    ranks = launched_ranks() or SingleProcess()
    with ranks.abort_on_error():
        if what == "kill":
            result = killed(ranks, Path(rest[0]), int(rest[1]), int(rest[2]))
        else:
            result = outcomes(ranks)
        if ranks.rank == 0:
            np.savez(output, **result)
