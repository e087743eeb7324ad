r"""``richardson-mf``: film ratings with SGLD and SGRRLD, against time.

Durmus et al. (NIPS 2016), section 5.2 and figure 5: MovieLens-1M, rank 10, all three variances one,
no offset, step 2e-6, a tenth of the ratings per gradient; 10 500 iterations of SGLD, 500 of them
burn-in, and half as many of SGRRLD, whose two chains run in parallel there. Their SGLD moves by
:math:`-\gamma \nabla U + \sqrt{2 \gamma} Z`, as ours does. The test ratings are the published probe
split, a tenth as well; theirs were drawn at random. Predictions are not clipped.

The paper's start is not printed. From small factors the first thousands of steps only reach the
mean rating; so all entries of W and H start near the value at which W H is the mean rating of the
training data, with noise of a tenth of the prior's width.
"""

import time
from typing import Any

import numpy as np

from alphamf.inference.chain import run
from alphamf.inference.random import generator
from alphamf.inference.samplers.langevin import SGLD
from alphamf.inference.samplers.richardson import SGRRLD
from alphamf.research.experiments.base import Job, JobRecord, Numbers, blank_panels, mean_and_error
from alphamf.research.experiments.quasi_newton.bpmf import RANK
from alphamf.research.experiments.ratings import RatingSplit
from alphamf.tools.arrays import Array

GAMMA = 2e-6
STEPS, BURN_IN = 10_500, 500
"""Steps of SGLD in the full form: all, and those dropped first; SGRRLD has half of both."""

EVERY = 10
"""Predictions are averaged over every tenth iteration of SGLD, and every fifth of SGRRLD."""

METHODS = ("SGLD", "SGRRLD")


class TimedTarget:
    """A target that records the times at which minibatches are drawn."""

    def __init__(self, target: Any) -> None:
        self.target = target
        self.size: int = target.size
        self.positive: bool = target.positive
        self.latents: dict[str, Array] = target.latents
        self.times: list[float] = []

    def start(self, rng: Any, chains: tuple[int, ...] = ()) -> Array:
        """Draw a start of the target, shape (*chains, D)."""
        return self.target.start(rng, chains)

    def draw(self, rng: Any, theta: Array) -> Any:
        """Record the time, and draw a minibatch of the target."""
        self.times.append(time.perf_counter())
        return self.target.draw(rng, theta)

    def parallel_time(self, begin: float, end: float) -> float:
        """Return the seconds of a step from `begin` to `end` if its chains ran in parallel.

        A step of SGRRLD draws the noise of both chains; then it makes the two moves of the fine
        chain, and that of the coarse one.
        """
        first, third = self.times[0], self.times[-1]
        if len(self.times) < 3:
            return end - begin
        return first - begin + max(third - first, end - third)


def jobs(full: bool, seed: int) -> list[Job]:
    """List one job per method and seed."""
    short = 1 if full else 10
    return [
        {
            "method": method,
            "users": None if full else 1500,
            # Fewer steps on fewer ratings must be larger to reach a low error.
            "gamma": GAMMA if full else 25 * GAMMA,
            "steps": STEPS // short // (1 if method == "SGLD" else 2),
            "burn_in": BURN_IN // short // (1 if method == "SGLD" else 2),
            "seed": s,
        }
        for s in range(seed, seed + (3 if full else 1))
        for method in METHODS
    ]


def work(job: Job) -> Numbers:
    """Run one method, and record the RMSE of its averaged predictions over time in seconds."""
    ratings = RatingSplit(job["users"])
    target = TimedTarget(ratings.target(rank=RANK, offset=0.0, batch=len(ratings.train[2]) // 10))
    pairs, pair = ratings.test[:2], job["method"] == "SGRRLD"
    sampler: Any = SGRRLD(job["gamma"]) if pair else SGLD(job["gamma"])
    start = target.start(generator(job["seed"], 0))
    start += np.sqrt(ratings.train[2].mean(dtype=np.float64) / RANK).astype(start.dtype)
    every = EVERY // 2 if pair else EVERY
    total, count, predicted = np.zeros(len(pairs[0])), 0, target.target.predict
    parallel = serial = 0.0
    curve = []
    begin = time.perf_counter()
    for state in run(target, sampler, steps=job["steps"], seed=job["seed"], start=start):
        end = time.perf_counter()
        serial += end - begin
        parallel += target.parallel_time(begin, end)
        target.times.clear()
        if state.step > job["burn_in"] and state.step % every == 0:
            total += predicted(state.theta, *pairs)
            if pair:
                total += predicted(state.middle, *pairs)
                total -= predicted(state.coarse, *pairs)
            count += 1
            curve.append([parallel, serial, ratings.rmse(total / count, clip=False)])
        begin = time.perf_counter()
    last = ratings.rmse(predicted(state.theta, *pairs), clip=False)
    return {"curve": curve, "rmse": curve[-1][-1], "last": last, "times": [parallel, serial]}


def table(records: list[JobRecord]) -> list[dict[str, Any]]:
    """Return one row per method."""
    rows = []
    for method in METHODS:
        own = [record for record in records if record.job["method"] == method]
        results = [numbers for _, numbers in own]
        rows.append(
            {
                "method": method,
                "iterations": own[0].job["steps"],
                "test RMSE": mean_and_error([n["rmse"] for n in results]),
                "of the last sample": mean_and_error([n["last"] for n in results]),
                "seconds, chains in parallel": mean_and_error([n["times"][0] for n in results], 3),
                "seconds, one after the other": mean_and_error([n["times"][1] for n in results], 3),
                "RMSE at half the time": mean_and_error([_halfway(n) for n in results]),
                "paper": "about 400 s" if method == "SGLD" else "the same RMSE in about 200 s",
            }
        )
    return rows


def _halfway(numbers: Numbers) -> float:
    half = numbers["times"][0] / 2
    return float(next(rmse for seconds, _, rmse in numbers["curve"] if seconds >= half))


def figure(records: list[JobRecord]) -> Any:
    """Draw fig. 5: the test RMSE against wall time, chains in parallel and in turn."""
    drawing, panels = blank_panels(9, 4, 1, 2, sharey=True)
    for method, colour in zip(METHODS, ("C0", "C1"), strict=True):
        curves = [np.array(n["curve"]).T for job, n in records if job["method"] == method]
        for number, curve in enumerate(curves):
            for panel, seconds in zip(panels, curve[:2], strict=True):
                label = None if number else method
                panel.plot(seconds, curve[2], color=colour, lw=0.8, label=label)
    for panel, title in zip(panels, ("chains in parallel", "one after the other"), strict=True):
        panel.set(xlabel=f"seconds, {title}", ylabel="test RMSE")
        panel.legend()
    return drawing
