r"""``distributed-mf``: factorise film ratings in blocks, one after the other or over MPI ranks.

Simsekli et al. (ICML 2016), section 4.3 and figure 5: MovieLens-1M on a grid of 4 x 4 blocks, all
three variances one, a constant step size, 100 samples of burn-in. Rank 50 in the paper's first
version and 10 in the printed one; both are run. The runs differ from the paper as follows:

- The mean rating is subtracted. In the paper's model the factors have to find it, which takes
  about a hundred steps, after which the chains hardly move for hundreds of steps.
- Users are the rows; the factors of the films, which are fewer, move between ranks. The test
  ratings are the published probe split, a tenth as well.
- W and H start as normal noise of width 0.1; the paper's start is not printed.
- Predictions are not clipped. A test rating is predicted when its part of the data is drawn.

*printed* are the step sizes of the paper's table 3. There PSGLD divides by the mean gradient's
root mean square, plus 5: that is 5 to four digits, so it is DSGLD at 2e-4. *searched* are step
sizes chosen on training ratings (``work(job, hold_out=0.1)``): docs/experiments/searches.md.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from alphamf.inference.blocks import FactorModel, ListedRatings, Ranks, SingleProcess, Walk
from alphamf.inference.samplers.hamcmc import HAMCMC
from alphamf.inference.samplers.langevin import PSGLD, SGLD
from alphamf.inference.samplers.richardson import SGRRLD
from alphamf.research.experiments.base import Job, JobRecord, Numbers, blank_panels, mean_and_error
from alphamf.research.experiments.ratings import RatingSplit

BLOCKS = 4
BURN_IN = 100
SEGMENT = 200
"""Steps between checkpoints."""

STEPS = {10: 3000, 50: 1200}
"""Number of steps by rank K of W and H, in the full form; DSGRRLD makes half as many."""

PRINTED = {"DSGLD": 1e-4, "PSGLD": 1e-3, "PSGLD, lagged": 1e-3, "HAMCMC": 3e-4}
SEARCHED = {
    10: {
        "DSGLD": 1.2e-3,
        "PSGLD": 1e-1,
        "PSGLD, lagged": 3e-2,
        "HAMCMC": 1.2e-3,
        "DSGRRLD": 1.2e-3,
    },
    50: {"DSGLD": 3e-4, "PSGLD": 1e-1, "PSGLD, lagged": 3e-2, "HAMCMC": 1.2e-3},
}


def jobs(full: bool, seed: int) -> list[Job]:
    """List one job per method, rank, kind of step size and seed."""
    return [
        {
            "method": method,
            "rank": rank,
            "kind": kind,
            "step_size": size,
            "users": None if full else 1500,
            # A step of DSGRRLD makes three gradients.
            "steps": (STEPS[rank] if full else 400) // (2 if method == "DSGRRLD" else 1),
            "burn_in": BURN_IN,
            "blocks": BLOCKS,
            "seed": s,
        }
        for s in range(seed, seed + (3 if full else 1))
        for rank in STEPS
        for kind, sizes in (("printed", PRINTED), ("searched", SEARCHED[rank]))
        for method, size in sizes.items()
    ]


def sampler_of(job: Job, count: int) -> Any:
    """Return the sampler of a job for `count` training ratings."""
    method, size = job["method"], job["step_size"]
    if method == "HAMCMC":
        return HAMCMC(size, memory=2, gamma=1.0, trust=100.0)
    if method.startswith("PSGLD"):
        scale = float(count) if job["kind"] == "printed" else 1.0
        lagged = method == "PSGLD, lagged"
        return PSGLD(size, decay=0.9, damping=5.0, scale=scale, lagged=lagged)
    return SGLD(size) if method == "DSGLD" else SGRRLD(size)


@lru_cache(maxsize=1)
def ratings_of(users: int | None, blocks: int, hold_out: float) -> tuple[ListedRatings, int, float]:
    """Return the ratings in blocks, and the number and mean of the training ratings."""
    ratings = RatingSplit(users, hold_out)
    values = ratings.train[2]
    listed = ListedRatings(ratings.train, ratings.test, shape=ratings.shape, blocks=blocks)
    return listed, len(values), float(values.mean(dtype=np.float64))


def walk_of(job: Job, hold_out: float = 0.0, ranks: SingleProcess | Ranks | None = None) -> Walk:
    """Return the walk of a job at its initial position; `hold_out`: see `RatingSplit`."""
    listed, count, mean = ratings_of(job["users"], job["blocks"], hold_out)
    return Walk(
        listed,
        FactorModel(job["rank"], offset=mean),
        sampler_of(job, count),
        seed=job["seed"],
        ranks=ranks,
        burn_in=job["burn_in"],
        every=20,
    )


def work(job: Job, hold_out: float = 0.0) -> Numbers:
    """Run a job in this process, one block after the other; `hold_out`: see `RatingSplit`."""
    return _run(job, walk_of(job, hold_out), None)


def run_over_ranks(job: Job, ranks: Ranks, checkpoint: Path) -> Numbers:
    """Run a job with the other ranks; resume it from the folder `checkpoint` if it was stopped."""
    return _run(job, walk_of(job, ranks=ranks), checkpoint)


def _run(job: Job, walk: Walk, checkpoint: Path | None) -> Numbers:
    for _ in walk.run(job["steps"], checkpoint=checkpoint, segment=SEGMENT):
        pass
    return {"curve": walk.curve, "rmse": walk.curve[-1][-1], "ranks": walk.ranks.size}


GOAL = {10: 0.9, 50: 0.95}
"""Test RMSE, by rank K, up to which iterations and seconds are counted."""

ORDER = {
    10: {"HAMCMC": "first", "PSGLD, lagged": "as DSGLD", "DSGLD": "last"},
    50: {"HAMCMC": "first", "PSGLD, lagged": "second", "DSGLD": "last"},
}
"""Order of the methods in figure 5, in the two versions of the paper."""


def table(records: list[JobRecord]) -> list[dict[str, Any]]:
    """Return one row per method, rank and kind of step size."""
    rows = []
    keys = ("method", "rank", "kind", "step_size", "steps")
    for key in dict.fromkeys(tuple(job[name] for name in keys) for job, _ in records):
        own = [n for job, n in records if tuple(job[name] for name in keys) == key]
        method, rank, kind, size, steps = key
        seconds = [n["curve"][-1][1] for n in own]
        rows.append(
            {
                "method": method,
                "K": rank,
                "step": f"{size:g}, {kind}",
                "iterations": steps,
                "test RMSE": mean_and_error([n["rmse"] for n in own]),
                f"iterations to {GOAL[10]} (K 10), {GOAL[50]} (K 50)": _to_goal(own, rank, 0),
                "seconds to reach it": _to_goal(own, rank, 1),
                "ms per iteration": mean_and_error([1000 * s / steps for s in seconds], 3),
                "ranks": ", ".join(sorted({str(n["ranks"]) for n in own})),
                "paper, by speed": ORDER[rank].get(method),
            }
        )
    return rows


def _to_goal(results: list[Numbers], rank: int, column: int) -> str | None:
    """Return iterations or seconds to the goal, as text; None if any run does not reach it."""
    found = []
    for numbers in results:
        reached = [point[column] for point in numbers["curve"] if point[2] <= GOAL[rank]]
        if not reached:
            return None
        found.append(reached[0])
    return mean_and_error(found, 3)


def figure(records: list[JobRecord]) -> Any:
    """Draw fig. 5: test RMSE against time, for each seed."""
    drawing, grid = blank_panels(10, 4, 1, 2)
    panels = dict(zip(STEPS, grid, strict=True))
    colours = dict(zip(SEARCHED[10], ("C0", "C1", "C4", "C2", "C3"), strict=True))
    seen = set()
    for job, numbers in records:
        _, seconds, rmse = np.array(numbers["curve"]).T
        key = job["method"], job["rank"], job["kind"]
        label = None if key in seen else f"{job['method']}, {job['kind']}"
        seen.add(key)
        style = "--" if job["kind"] == "printed" else "-"
        panels[job["rank"]].plot(seconds, rmse, style, color=colours[job["method"]], label=label)
    for rank, panel in panels.items():
        panel.set(
            xlabel="CPU seconds (over ranks: seconds)",
            ylabel="test RMSE",
            title=f"K = {rank}",
            ylim=(0.84, 1.15),
        )
        if panel.lines:
            panel.legend(fontsize="small")
    return drawing
