"""``bpmf``: predict film ratings by matrix factorisation, optimised and sampled.

Fu, Luo & Zhang (UAI 2016), section 5.3: MovieLens-1M, rank 10, step 0.01, 10 leaps. The settings
that it leaves out "follow from the demo code" of Salakhutdinov and Mnih, which starts its sampler
at the MAP estimate, averages predictions, and clips them to [1, 5]; so do we, except for the start.
Its training and probe ratings are the split used here. A gradient reads all 900 000 ratings.

Priors are N(0, v I) with v fixed, except in the row `HYPER`, which has the demo's: means and
precisions of W and H with a Gaussian-Wishart law, drawn given W and H at each step, and a precision
of the ratings of 2 (`alphamf.inference.targets.bpmf`).

No proposal is accepted at the mode itself, where leapfrog's energy rises by the sum over 97 000
coordinates of about (step x frequency)^2 / 8. So all samplers start slightly outside of the typical
set: at the mode, plus noise scaled by the second derivatives there.
"""

import time
from math import inf
from typing import Any

import numpy as np

from alphamf.inference.chain import run
from alphamf.inference.random import generator, noise
from alphamf.inference.targets.bpmf import BPMF, HyperBPMF
from alphamf.research.experiments.base import Job, JobRecord, Numbers, blank_panels, format_spread
from alphamf.research.experiments.quasi_newton import gaussian
from alphamf.research.experiments.quasi_newton.gaussian import optimum
from alphamf.research.experiments.ratings import RatingSplit
from alphamf.tools.arrays import Array

RANK = 10
MEMORY = 7

HYPER = "HMC, hyperpriors"
"""HMC under the priors of the demo code."""

DEMO_VARIANCE_X = 0.5
"""1 over the demo's precision of the ratings."""

METHODS: dict[str, str | None] = {
    # RMSE and seconds of table 3.
    "MAP": ".8701, 27.67 s",
    "HMC": ".8607, 202.5 s",
    "QNHMC": ".8628, 108.34 s",
    "HMC-BFGS": ".8618, 179.23 s",
    HYPER: None,
}

WIDER = 1.1
"""Width of the noise at the start, in standard deviations of the posterior at its mode."""

VARIANCE_X = 0.7
VARIANCE = 0.1
"""Variances of the ratings, and of the prior of W and H."""

GAMMA = {"QNHMC": 0.7, "HMC-BFGS": 0.3}
"""Scale of the initial inverse Hessian, from a search (docs/experiments/searches.md)."""


def jobs(full: bool, seed: int) -> list[Job]:
    """List one job per method and seed."""
    settings = {
        "users": None if full else 600,
        "samples": 120 if full else 40,
        "step": 0.01,
        "leaps": 10,
        "variance": VARIANCE,
        "variance_x": VARIANCE_X,
    }
    return [
        {"method": method, **settings, "gamma": GAMMA.get(method), "seed": s}
        for s in range(seed, seed + (5 if full else 1))
        for method in METHODS
    ]


def burn_in(job: Job) -> int:
    """Return the number of discarded samples, during which QNHMC adapts its inverse Hessian C."""
    return int(job["samples"]) // 5


def sampler_of(job: Job) -> Any:
    """Return the sampler of a job."""
    return gaussian.sampler_of(job, memory=MEMORY, freeze=burn_in(job))


def work(job: Job, hold_out: float = 0.0) -> Numbers:
    """Return RMSE and times of MAP or a sampler started near it; `hold_out`: see `RatingSplit`."""
    ratings = RatingSplit(job["users"], hold_out)
    target = ratings.target(
        rank=RANK,
        variance_w=job["variance"],
        variance_h=job["variance"],
        variance_x=job["variance_x"],
    )
    begin = time.process_time()
    theta = optimum(target, target.start(generator(job["seed"], 0)), steps=150)
    map_seconds = time.process_time() - begin
    pairs = ratings.test[:2]
    if job["method"] == "MAP":
        rmse = ratings.rmse(target.predict(theta, *pairs))
        return {"rmse": rmse, "seconds": map_seconds, "curve": [[map_seconds, rmse]]}
    theta = point_outside(target, theta, job["seed"])
    sampled: Any = target
    if job["method"] == HYPER:
        wide = {"variance_w": inf, "variance_h": inf, "variance_x": DEMO_VARIANCE_X}
        sampled = HyperBPMF(ratings.target(rank=RANK, **wide))
    dropped = burn_in(job)
    total, seconds, curve = np.zeros(len(pairs[0])), 0.0, []
    begin = time.process_time()
    for state in run(sampled, sampler_of(job), steps=job["samples"], seed=job["seed"], start=theta):
        seconds += time.process_time() - begin
        last = target.predict(state.theta, *pairs)
        if state.step > dropped:
            total += last
            curve.append([seconds, ratings.rmse(total / (state.step - dropped))])
        begin = time.process_time()
    return {
        "rmse": curve[-1][1],
        "rmse_of_last": ratings.rmse(last),
        "acceptance": float(state.accepted.mean() / job["samples"]),
        "seconds": seconds,
        "map_seconds": map_seconds,
        "curve": curve,
    }


def point_outside(target: BPMF, mode: Array, seed: int) -> Array:
    """Return a point slightly outside the typical set around a mode.

    `mode`: the mode, shape (D,).
    """
    deviation = target.draw(None, mode).hessian_diagonal(mode) ** -0.5
    deviate: Array = noise(generator(seed, 1), mode)
    return mode + WIDER * deviation * deviate


def table(records: list[JobRecord]) -> list[dict[str, Any]]:
    """Return table 3, one row per method."""
    rows = []
    for method, paper in METHODS.items():
        own = [numbers for job, numbers in records if job["method"] == method]
        rows.append(
            {
                "method": method,
                "test RMSE": format_spread([n["rmse"] for n in own], 4),
                "seconds": format_spread([n["seconds"] for n in own]),
                "paper": paper,
                # MAP has no samples.
                "RMSE of the last sample": format_spread(
                    [n["rmse_of_last"] for n in own if "rmse_of_last" in n], 4
                ),
                "acceptance": format_spread([n["acceptance"] for n in own if "acceptance" in n]),
            }
        )
    return rows


def figure(records: list[JobRecord]) -> Any:
    """Draw the test RMSE of the first seed against time."""
    drawing, axes = blank_panels(6, 4)
    seen = set()
    for job, numbers in records:
        if job["method"] in seen:
            continue
        seen.add(job["method"])
        if job["method"] == "MAP":
            axes.axhline(numbers["rmse"], color="grey", ls="--", label="MAP")
        else:
            axes.plot(*zip(*numbers["curve"], strict=True), label=job["method"])
    axes.set(xlabel="CPU seconds, from the MAP estimate on", ylabel="test RMSE")
    axes.legend()
    return drawing
