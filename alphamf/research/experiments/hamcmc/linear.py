r"""``linear-gaussian``: the samplers on a Gaussian posterior that is known exactly.

Simsekli et al. (ICML 2016), section 4.1: eq. 14 with :math:`\sigma_x^2 = 10`, N_Omega = N / 100,
T = 20 000 samples, steps :math:`(a / t)^{0.51}`, the a of the paper's table 1. Its step is ours,
without a factor of two. N and the law of the regressors are not printed. Here N = 1000; regressors
are Gaussian with correlation r^|i - j|, r = 0.9 at D = 2, for the narrow ellipse of fig. 1, and 0.5
above (docs/experiments/searches.md).

Added to the paper's results: the error of the covariance; step sizes from a search for the methods
that the printed ones do not suit; the naive quasi-Newton chain of eq. 7; and, since the error of
that chain vanishes at constant curvature, E |theta|^2 under exp(-|theta|^4 / 4).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from alphamf.errors import DivergenceError
from alphamf.inference.chain import run
from alphamf.inference.random import generator
from alphamf.inference.samplers.hamcmc import HAMCMC, NaiveQN
from alphamf.inference.samplers.langevin import PSGLD, RSGLD, SGLD
from alphamf.inference.schedule import Polynomial
from alphamf.inference.targets.gaussian import LinearGaussian
from alphamf.research.experiments.base import Job, Numbers, in_numpy
from alphamf.research.experiments.hamcmc import quartic
from alphamf.tools.arrays import Array

POINTS = 1000
"""N."""

CHAINS = 4
"""Chains on each data set, from different starts, the same for every method."""

CORRELATION = {2: 0.9, 10: 0.5, 100: 0.5}

PRINTED = {
    # a of SGLD, PSGLD, SGRLD, HAMCMC by D: table 1 of the paper.
    2: (1e-5, 5e-2, 5e-2, 1e-6),
    10: (1e-6, 1e-1, 5e-1, 1e-8),
    100: (8e-6, 1e-1, 5e-1, 1e-8),
}

SEARCHED: dict[int, tuple[Any, ...]] = {
    # SGLD, PSGLD, lagged PSGLD, HAMCMC with M = 2 and 3: the least error of the running mean at
    # T = 20 000 on a separate data set (docs/experiments/searches.md).
    2: (
        SGLD(Polynomial(6.4e-4)),
        PSGLD(Polynomial(1e-3), damping=0.1, scale=POINTS),
        PSGLD(Polynomial(1e-3), damping=1.0, scale=POINTS, lagged=True),
        HAMCMC(Polynomial(6.25e-8), 2, 50.0, 1.0),
        HAMCMC(Polynomial(2.5e-7), 3, 50.0, 1.0),
    ),
    10: (
        SGLD(Polynomial(6.4e-5)),
        PSGLD(Polynomial(1e-4), damping=0.1, scale=POINTS),
        PSGLD(Polynomial(1e-4), damping=1.0, scale=POINTS, lagged=True),
        HAMCMC(Polynomial(1.6e-7), 2, 50.0, 100.0),
        HAMCMC(Polynomial(1.6e-7), 3, 50.0, 100.0),
    ),
    100: (
        SGLD(Polynomial(3.2e-5)),
        PSGLD(Polynomial(1e-5), damping=0.1, scale=POINTS),
        PSGLD(Polynomial(1e-3), damping=10.0, scale=POINTS, lagged=True),
        HAMCMC(Polynomial(1e-8), 2, 50.0, 100.0),
        HAMCMC(Polynomial(1e-8), 3, 50.0, 1.0),
    ),
}

METHODS: dict[str, Callable[[int], Any]] = {
    "SGLD": lambda size: SGLD(Polynomial(PRINTED[size][0])),
    "PSGLD": lambda size: PSGLD(Polynomial(PRINTED[size][1]), scale=POINTS),
    "PSGLD, lagged": lambda size: PSGLD(Polynomial(PRINTED[size][1]), scale=POINTS, lagged=True),
    "SGRLD": lambda size: RSGLD(Polynomial(PRINTED[size][2])),
    "HAMCMC, M = 2": lambda size: HAMCMC(Polynomial(PRINTED[size][3]), 2, 50.0, 1.0),
    "HAMCMC, M = 3": lambda size: HAMCMC(Polynomial(PRINTED[size][3]), 3, 50.0, 1.0),
    "naive quasi-Newton, M = 2": lambda size: NaiveQN(Polynomial(PRINTED[size][3]), 2, 50.0, 1.0),
    "SGLD, searched": lambda size: SEARCHED[size][0],
    "PSGLD, searched": lambda size: SEARCHED[size][1],
    "PSGLD, lagged, searched": lambda size: SEARCHED[size][2],
    "HAMCMC, M = 2, searched": lambda size: SEARCHED[size][3],
    "HAMCMC, M = 3, searched": lambda size: SEARCHED[size][4],
}
"""Samplers by D, at the printed settings unless searched."""


def target_of(size: int, seed: int) -> LinearGaussian:
    """Draw a data set from the generative model."""
    rng = generator(seed, size)
    a = rng.standard_normal((POINTS, size))
    r = CORRELATION[size]
    for d in range(1, size):
        a[:, d] = r * a[:, d - 1] + math.sqrt(1 - r * r) * a[:, d]
    theta = rng.standard_normal(size)
    x = a @ theta + math.sqrt(10) * rng.standard_normal(POINTS)
    return LinearGaussian(a, x, 10.0, batch=POINTS // 100)


def jobs(full: bool, seed: int) -> list[Job]:
    """List one job for every size, method and data set, and the runs on the quartic."""
    steps = 20_000 if full else 2000
    listed: list[Job] = [
        {"method": method, "size": size, "steps": steps, "seed": seed + k}
        for k in range(5 if full else 2)
        for size in PRINTED
        for method in METHODS
    ]
    return listed + quartic.jobs(full, seed)


def work(job: Job) -> Numbers:
    """Run the chains of one job, and time a single chain."""
    if job["size"] == quartic.SIZE:
        return quartic.work(job)
    target = target_of(job["size"], job["seed"])
    sampler = METHODS[job["method"]](job["size"])
    numbers = _follow(target, sampler, job["steps"], job["seed"])
    numbers["microseconds"] = _microseconds(target, sampler, job["steps"])
    # With ten data points a step, the interpreter takes most of the time.
    target.batch = POINTS
    numbers["microseconds_large"] = _microseconds(target, sampler, job["steps"])
    if job["size"] == 2:
        numbers["mean"] = target.mean.tolist()
        numbers["posterior"] = target.covariance.tolist()
    return numbers


def _follow(target: LinearGaussian, sampler: Any, steps: int, seed: int) -> Numbers:
    """Return the errors of the running mean, and of mean and covariance over windows (t / 2, t]."""
    marks = sorted({int(mark) for mark in np.geomspace(10, steps, 40)} | {steps})
    windows = sorted({steps >> k for k in range(8)} - {0})
    total: Array = np.zeros((CHAINS, target.size))
    window: list[Array] = []
    numbers: Numbers = {"marks": marks, "running": [], "windows": windows, "covariance": []}
    # A chain that explodes is reported in its numbers.
    with np.errstate(all="ignore"):
        states = run(target, sampler, steps=steps, seed=seed, chains=(CHAINS,))
        try:
            for state in states:
                total += state.theta
                window.append(state.theta)
                if state.step in marks:
                    error = total / state.step - target.mean
                    numbers["running"].append(float((error * error).sum(-1).mean()))
                if state.step in windows:
                    draws = np.stack(window, 1)
                    numbers["covariance"].append(_covariance_error(draws, target))
                    window = []
        except DivergenceError:
            return {**numbers, "exploded": True}
        error = draws.mean(1) - target.mean
        numbers["second_half"] = float((error * error).sum(-1).mean())
        spread = draws.var(1).sum(-1) / np.trace(target.covariance)
    numbers["spread"] = float(spread.mean())
    if target.size == 2:
        numbers["draws"] = np.round(draws[0, :: max(1, draws.shape[1] // 400)], 4).tolist()
    return numbers


def _covariance_error(draws: Array, target: LinearGaussian) -> float:
    """Return the relative error |C' - C| / |C| (Frobenius), of draws (chains, steps, D)."""
    centred = draws - draws.mean(1, keepdims=True)
    found = np.swapaxes(centred, 1, 2) @ centred / draws.shape[1]
    error = np.linalg.norm(found - target.covariance, axis=(1, 2))
    return float(error.mean() / np.linalg.norm(target.covariance))


@in_numpy()
def _microseconds(target: LinearGaussian, sampler: Any, steps: int) -> float:
    """Return the time of one step of a single chain: the minimum of five runs."""
    length = min(500, steps // 10)
    begun, times = 0.0, []
    for state in run(target, sampler, steps=6 * length, seed=0):
        if state.step % length == 0:
            now = time.process_time()
            times.append((now - begun) / length)
            begun = now
    return 1e6 * min(times[1:])
