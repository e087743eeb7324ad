"""Table of `benchmarks.samplers`: what momenta and extrapolation give HAMCMC on a Gaussian."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from alphamf.inference.chain import run
from alphamf.inference.samplers.hamcmc import HAMCMC
from alphamf.inference.samplers.hamcmc_momentum import HAMCMCMomentum
from alphamf.inference.samplers.hamcmc_richardson import HAMCMCRichardson
from alphamf.inference.samplers.langevin import SGLD
from alphamf.inference.samplers.sghmc import SGHMC
from alphamf.inference.targets.gaussian import LinearGaussian
from alphamf.tools.arrays import Array
from alphamf.tools.tables import markdown, with_error

SIZE, POINTS, CHAINS, GRADIENTS = 10, 300, 150, 6000
STEPS = (0.6, 0.3, 0.15)
"""Step sizes, in units that make an H of the narrowest direction's variance one."""

Values = Callable[[Any, Callable[[Array], Array]], Array]


def newest(state: Any, statistic: Callable[[Array], Array]) -> Array:
    """Return the statistic of a chain's newest sample."""
    return statistic(state.theta)


def extrapolated(state: Any, statistic: Callable[[Array], Array]) -> Array:
    """Return the estimate of both chains: that of `Extrapolated`, for each chain by itself."""
    return statistic(state.middle) + statistic(state.theta) - statistic(state.coarse)


def posterior() -> LinearGaussian:
    """Return a posterior of condition 100 with correlated coordinates."""
    rng = np.random.default_rng(0)
    turn, _ = np.linalg.qr(rng.standard_normal((SIZE, SIZE)))
    a = rng.standard_normal((POINTS, SIZE)) * np.geomspace(1, 0.1, SIZE) @ turn.T
    return LinearGaussian(a, a @ np.ones(SIZE) + rng.standard_normal(POINTS), 1.0)


def measure(
    target: LinearGaussian, sampler: Any, gradients: int, values: Values
) -> tuple[float, float, float]:
    """Return the bias of the variance, its error, and the ESS per 1000 gradients.

    All in whitened coordinates, in which the posterior is standard normal; the ESS, of the widest
    direction, is from the squared errors of the chains' means.
    """
    spread, turn = np.linalg.eigh(target.covariance)
    steps = GRADIENTS // gradients

    def white(theta: Array) -> Array:
        whitened: Array = (theta - target.mean) @ (turn / np.sqrt(spread))
        return whitened

    rng = np.random.default_rng(1)
    start = target.mean + rng.standard_normal((CHAINS, SIZE)) * np.sqrt(spread) @ turn.T
    first: Array = np.zeros((CHAINS, SIZE))
    second: Array = np.zeros((CHAINS, SIZE))
    for state in run(target, sampler, steps=steps, seed=2, start=start):
        if state.step > steps // 3:
            first = first + values(state, white)
            second = second + values(state, lambda theta: white(theta) ** 2)
    kept = steps - steps // 3
    found = (second / kept).mean(1) - 1
    squared = ((first / kept)[:, -1] ** 2).mean()
    used = kept * gradients / 1000
    return float(found.mean()), float(found.std() / math.sqrt(CHAINS)), float(1 / squared / used)


def extensions() -> str:
    """Return the table of biases and of effective sample sizes."""
    target = posterior()
    narrow = float(np.linalg.eigvalsh(target.covariance)[0])
    memory: dict[str, Any] = {"memory": 4, "gamma": narrow}
    kinds: dict[str, tuple[Callable[[float], Any], int, Values]] = {
        "SGLD": (lambda h: SGLD(h * narrow), 1, newest),
        "SGHMC": (
            lambda h: SGHMC(h * narrow**0.5, 1, 0.3 / narrow**0.5, integrator="splitting"),
            1,
            newest,
        ),
        "HAMCMC": (partial(HAMCMC, **memory), 2, newest),
        "HAMCMC with momenta": (partial(HAMCMCMomentum, friction=0.3, **memory), 3, newest),
        "Richardson-Romberg": (partial(HAMCMCRichardson, **memory), 5, extrapolated),
    }
    rows = []
    for name, (kind, gradients, values) in kinds.items():
        cells, rate = [], ""
        for h in STEPS:
            bias, error, found = measure(target, kind(h), gradients, values)
            cells.append(with_error(100 * bias, 100 * error, 1, "+"))
            rate = rate or f"{found:.1f}"
        rows.append([name, str(gradients), *cells, rate])
    headings = [
        "sampler",
        "gradients a step",
        *(f"bias of the variance in %, h = {h}" for h in STEPS),
    ]
    return markdown([*headings, f"ESS per 1000 gradients, h = {STEPS[0]}"], rows)
