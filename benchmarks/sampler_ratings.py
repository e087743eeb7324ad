"""Table of `benchmarks.samplers`: the next steps after HAMCMC and QNHMC, on ratings of films.

Matrix factorisation of MovieLens-1M with the priors of the experiment ``bpmf``, a tenth of the
ratings a gradient, as many gradients for each sampler, from where ``bpmf`` starts: the mode, plus
noise by the second derivatives there. Step sizes are the best of as many for each sampler, on a
tenth of the training ratings held out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.inference.chain import run
from alphamf.inference.random import generator
from alphamf.inference.samplers.hamcmc import HAMCMC
from alphamf.inference.samplers.hamcmc_momentum import HAMCMCMomentum
from alphamf.inference.samplers.hamcmc_richardson import HAMCMCRichardson
from alphamf.inference.samplers.hmc import HMC
from alphamf.inference.samplers.langevin import SGLD
from alphamf.inference.samplers.quasi_noisy import SGQNHMC
from alphamf.inference.samplers.richardson import SGRRLD
from alphamf.inference.samplers.sghmc import SGHMC
from alphamf.inference.targets.bpmf import BPMF
from alphamf.research.experiments.quasi_newton.bpmf import (
    RANK,
    VARIANCE,
    VARIANCE_X,
    optimum,
    outside,
)
from alphamf.research.experiments.ratings import Ratings
from alphamf.tools.arrays import Array
from alphamf.tools.tables import markdown, with_error
from benchmarks.sampler_extensions import Values, extrapolated, newest

GRADIENTS = 4000
SEEDS = 3
PARTS = 10
"""Gradients that all ratings would make."""
HELD_OUT = 0.1
FRICTION = 5.0
"""Per unit of time; the slowest modes, whose curvature is the prior's 10, hardly swing then."""

LANGEVIN = (1.5e-4, 3e-4, 6e-4, 1.2e-3, 2.4e-3)
"""Step sizes h; the largest curvature is some 300."""

MOMENTUM = (0.00125, 0.0025, 0.005, 0.01, 0.02)
"""Those of samplers with momenta: times."""


class Kind(NamedTuple):
    """A sampler by its step size, the sizes that are tried, gradients a step, and its estimate.

    One that reads `whole` data takes as many gradients of minibatches for each of its own.
    """

    sampler: Callable[[float], Any]
    sizes: tuple[float, ...]
    gradients: int
    values: Values = newest
    whole: bool = False


LEAPS = 10

KINDS = {
    "SGLD": Kind(SGLD, LANGEVIN, 1),
    "Richardson-Romberg": Kind(SGRRLD, LANGEVIN, 3, extrapolated),
    "HAMCMC": Kind(lambda h: HAMCMC(h, memory=3, trust=100.0), LANGEVIN, 2),
    "Richardson-Romberg around HAMCMC": Kind(
        lambda h: HAMCMCRichardson(h, memory=3, trust=100.0), LANGEVIN, 5, extrapolated
    ),
    "SGHMC": Kind(lambda h: SGHMC(h, 1, FRICTION, integrator="splitting"), MOMENTUM, 1),
    "HAMCMC with momenta": Kind(
        lambda h: HAMCMCMomentum(h, FRICTION, memory=3, trust=100.0), MOMENTUM, 3
    ),
    "stochastic QNHMC": Kind(
        lambda h: SGQNHMC(h, LEAPS, FRICTION, freeze=GRADIENTS // LEAPS // 5), MOMENTUM, LEAPS
    ),
    "HMC on all ratings": Kind(lambda h: HMC(h, LEAPS), MOMENTUM, LEAPS * PARTS, whole=True),
}


class Outcome(NamedTuple):
    """RMSE of the mean predictions and of the last ones, U at the end, and CPU seconds."""

    rmse: float
    last: float
    energy: float
    seconds: float


class Data(NamedTuple):
    """Ratings, the posterior given all of them and given minibatches, and where chains start."""

    split: Ratings
    whole: BPMF
    part: BPMF
    start: Array


@cache
def data(seed: int, hold_out: float) -> Data:
    """Read the ratings, and find the mode."""
    split = Ratings(None, hold_out)
    prior = {"variance_w": VARIANCE, "variance_h": VARIANCE, "variance_x": VARIANCE_X}
    whole = split.target(rank=RANK, **prior)
    part = split.target(rank=RANK, batch=len(split.train[2]) // PARTS, **prior)
    start = outside(whole, optimum(whole, whole.start(generator(seed, 0))), seed)
    return Data(split, whole, part, start)


def measure(kind: Kind, size: float, seed: int, hold_out: float) -> Outcome:
    """Run a chain; predictions are averaged over its second half."""
    split, whole, part, start = data(seed, hold_out)
    target = whole if kind.whole else part
    pairs = split.test[:2]
    steps, total, count = GRADIENTS // kind.gradients, np.zeros(len(pairs[0])), 0
    every = max(1, steps // 200)
    seconds, began = 0.0, time.process_time()

    def predictions(theta: Array) -> Array:
        return target.predict(theta, *pairs)

    try:
        with np.errstate(all="ignore"):
            for state in run(target, kind.sampler(size), steps=steps, seed=seed, start=start):
                seconds += time.process_time() - began
                if state.step > steps // 2 and state.step % every == 0:
                    total += kind.values(state, predictions)
                    count += 1
                began = time.process_time()
    except AlphaMFError:  # it diverged
        return Outcome(np.inf, np.inf, np.inf, seconds)
    return Outcome(
        split.rmse(total / count),
        split.rmse(predictions(state.theta)),
        float(whole.draw(None, state.theta).value(state.theta)),
        seconds,
    )


def searched(kind: Kind) -> float:
    """Return the step size with the least error on the training ratings held out."""
    return min(kind.sizes, key=lambda size: measure(kind, size, 0, HELD_OUT).rmse)


def ratings() -> str:
    """Return the table of all samplers."""
    rows = []
    for name, kind in KINDS.items():
        size = searched(kind)
        found = [measure(kind, size, seed, 0.0) for seed in range(SEEDS)]
        mean, error = np.mean(found, 0), np.std(found, 0, ddof=1) / np.sqrt(SEEDS)
        rows.append(
            [
                f"{name} ({kind.gradients})",
                f"{size:g}",
                with_error(mean[0], error[0], 4),
                with_error(mean[1], error[1], 4),
                with_error(mean[2] / 1e5, error[2] / 1e5, 3),
                f"{mean[3]:.0f}",
            ]
        )
    headings = [
        "sampler (gradients a step)",
        "step",
        "test RMSE of the mean",
        "of the last sample",
        "U at the end / 1e5",
        "CPU s",
    ]
    return markdown(headings, rows)
