"""Tables of `benchmarks.samplers`: time and memory of a step."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import numpy as np

from alphamf.inference.random import generator
from alphamf.inference.samplers.hamcmc import HAMCMC, NaiveQN
from alphamf.inference.samplers.hmc import HMC, RHMC
from alphamf.inference.samplers.hmc_bfgs import HMCBFGS
from alphamf.inference.samplers.langevin import PSGLD, SGLD
from alphamf.inference.samplers.nose import SGNPHMC, SGRNPHMC
from alphamf.inference.samplers.quasi import QNHMC
from alphamf.inference.samplers.richardson import SGRRHMC, SGRRLD
from alphamf.inference.samplers.riemannian import RSGLD
from alphamf.inference.samplers.sghmc import SGHMC
from alphamf.inference.samplers.thermostat import SGNHT
from alphamf.inference.targets.gaussian import LinearGaussian
from alphamf.tools.arrays import Array
from alphamf.tools.tables import markdown


def step_time(
    target: Any, sampler: Any, *, chains: tuple[int, ...] = (), least: float = 0.2
) -> float:
    """Return the seconds of a step: the least mean over several rounds.

    Parameters
    ----------
    target, sampler
        Of the chain.
    chains
        Shape of the chains.
    least
        Seconds that all rounds last together.
    """
    rng = generator(0, 0)
    state = sampler.init(rng, target.start(rng, chains))
    for _ in range(6):
        state = sampler.step(rng, state, target)
    best, spent, count = np.inf, 0.0, 4
    while spent < least:
        begun = time.perf_counter()
        for _ in range(count):
            state = sampler.step(rng, state, target)
        passed = time.perf_counter() - begun
        best, spent = min(best, passed / count), spent + passed
    return best


def regression(size: int, points: int, batch: int | None) -> LinearGaussian:
    """Return a linear regression with regressors and noise of unit variance.

    Parameters
    ----------
    size
        Dimension.
    points
        Number of data.
    batch
        Size of a minibatch; None: all data.
    """
    rng = np.random.default_rng(0)
    a = rng.standard_normal((points, size))
    x = a @ rng.standard_normal(size) + rng.standard_normal(points)
    return LinearGaussian(a, x, 1.0, batch=batch)


def cost() -> str:
    """Return the table of times of a step, each sampler timed in turn, three rounds."""
    h = 1e-5
    stochastic: dict[str, Any] = {
        "SGLD": SGLD(h),
        "PSGLD": PSGLD(h),
        "PSGLD with Gamma": PSGLD(h, correction=True),
        "RSGLD": RSGLD(0.1),
        "HAMCMC, M = 2": HAMCMC(h, memory=2, gamma=1e-4),
        "HAMCMC, M = 3": HAMCMC(h, memory=3, gamma=1e-4),
        "HAMCMC, M = 5": HAMCMC(h, memory=5, gamma=1e-4),
        "naive quasi-Newton, M = 5": NaiveQN(h, memory=5, gamma=1e-4),
        "SGHMC, a leap": SGHMC(1e-3, leaps=1),
        "SGHMC by splitting, a leap": SGHMC(1e-3, leaps=1, integrator="splitting"),
        "SGNHT, a leap": SGNHT(1e-3, leaps=1),
        "SG-NPHMC, a leap": SGNPHMC(1e-3, leaps=1),
        "SGR-NPHMC, a leap": SGRNPHMC(1e-3, leaps=1),
        "SGRRLD (three gradients)": SGRRLD(h),
        "SGRRHMC (three gradients)": SGRRHMC(1e-3),
    }
    full: dict[str, Any] = {
        "SGLD": SGLD(h),
        "HMC, 10 leaps": HMC(1e-3),
        "RHMC, 10 leaps": RHMC(0.1),
        "QNHMC with BFGS, 10 leaps": QNHMC(1e-2),
        "QNHMC with L-BFGS of 5 pairs, 10 leaps": QNHMC(1e-2, memory=5),
        "HMC-BFGS of 5 chains, 10 leaps": HMCBFGS(1e-1),
    }
    rows = []
    for data, samplers, target in (
        ("batch of 100", stochastic, regression(100, 10_000, 100)),
        ("all, by sufficient statistics", full, regression(100, 10_000, None)),
    ):
        times = {
            name: min(step_time(target, sampler) for _ in range(3))
            for name, sampler in samplers.items()
        }
        for name, seconds in times.items():
            ratio = seconds / times["SGLD"]
            rows.append([name, data, f"{seconds * 1e6:.0f}", f"{ratio:.1f}"])
    return markdown(["sampler", "data", "µs per step", "ratio to SGLD"], rows)


class Wide:
    """A standard normal in D dimensions, whose gradient costs one copy."""

    positive = False

    def __init__(self, size: int) -> None:
        self.size = size
        self.latents: dict[str, Array] = {}

    def start(self, rng: Any, chains: tuple[int, ...] = ()) -> Array:
        """Draw from the law, in float32."""
        return rng.standard_normal((*chains, self.size), dtype=np.float32)

    def draw(self, rng: Any, theta: Array) -> Wide:
        """Return itself."""
        return self

    def grad(self, theta: Array) -> Array:
        """Return theta."""
        return theta.copy()


def size() -> str:
    """Return the table of times and memory against D, and of many chains."""
    rows = []
    sizes = (1_000, 10_000, 100_000, 1_000_000)
    for name, sampler in (
        ("SGLD", SGLD(1e-2)),
        ("PSGLD", PSGLD(1e-2)),
        ("HAMCMC, M = 5", HAMCMC(1e-2, memory=5)),
        ("SGHMC, a leap", SGHMC(1e-2, leaps=1)),
        ("SGRRLD", SGRRLD(1e-2)),
    ):
        targets = [Wide(d) for d in sizes]
        times = [step_time(target, sampler) / target.size * 1e9 for target in targets]
        peaks = [_peak(target, sampler) for target in targets]
        cells = [f"{ns:.0f} / {peak:.1f}" for ns, peak in zip(times, peaks, strict=True)]
        rows.append([name, *cells])
    many = markdown(["ns / peak", *(f"D = {d:,}" for d in sizes)], rows)
    rows = []
    target = regression(10, 1000, None)
    one = step_time(target, SGLD(1e-4))
    for chains in (1, 100, 10_000):
        seconds = step_time(target, SGLD(1e-4), chains=(chains,))
        rows.append([f"{chains:,}", f"{seconds * 1e6:.0f}", f"{seconds / one:.0f}"])
    together = markdown(["chains of SGLD, D = 10", "µs per step", "ratio to one chain"], rows)
    return f"{many}\n\n{together}"


def _peak(target: Any, sampler: Any) -> float:
    """Return the most memory that a chain holds, in vectors of theta's size."""
    tracemalloc.start()
    rng = generator(0, 0)
    state = sampler.init(rng, target.start(rng))
    for _ in range(8):
        state = sampler.step(rng, state, target)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / state.theta.nbytes
