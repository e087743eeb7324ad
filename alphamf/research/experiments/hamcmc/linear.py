r"""``linear-gaussian``: the samplers on a Gaussian posterior that is known exactly.

Simsekli et al. (ICML 2016), section 4.1: eq. 14 with :math:`\sigma_x^2 = 10`, batches of N / 100,
T = 20 000 samples, steps :math:`(a / t)^{0.51}`, the a of the paper's table 1. The steps are used
without a factor of two. N, the number of observations, and the law of the regressors are not
printed: here N = 1000, and regressors are Gaussian with correlation r^|i - j|, r = 0.9 at D = 2 for
the narrow ellipse of fig. 1, and 0.5 above (docs/experiments/searches.md).

Added to the paper's results: the error of the covariance; step sizes from a search for the methods
that the printed ones do not suit; the naive quasi-Newton chain of eq. 7; and, since the error of
that chain vanishes at constant curvature, E |theta|^2 under exp(-|theta|^4 / 4).
"""

from __future__ import annotations

import math
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
from alphamf.research.experiments.base import (
    Job,
    JobRecord,
    Numbers,
    blank_figure,
    mean_and_error,
    seconds_per_step,
)
from alphamf.tools.arrays import Array

QUARTIC = "2, quartic"
STEP_SIZES = (0.08, 0.04, 0.02)

ON_QUARTIC: dict[str, tuple[Any, int]] = {
    # The sampler by step size, and the number of steps in which every position moves once.
    "SGLD": (SGLD, 1),
    "HAMCMC, M = 2": (lambda h: HAMCMC(h, 2, 1.0, 1.0), 2),
    "HAMCMC, M = 3": (lambda h: HAMCMC(h, 3, 1.0, 1.0), 3),
    "naive quasi-Newton, M = 2": (lambda h: NaiveQN(h, 2, 1.0, 1.0), 1),
}


class Quartic:
    """The density exp(-|theta|^4 / 4) in the plane, where E |theta|^2 = 2 / sqrt(pi)."""

    size = 2
    positive = False
    power: float = 2 / math.sqrt(math.pi)

    def __init__(self) -> None:
        self.latents: dict[str, Array] = {}

    def start(self, rng: Any, chains: tuple[int, ...] = ()) -> Array:
        """Draw exactly: |theta|^4 / 2 is chi-square (one degree of freedom), direction uniform."""
        radius = np.sqrt(np.abs(rng.standard_normal((*chains, 1)) * math.sqrt(2)))
        angle = 2 * np.pi * rng.random((*chains, 1))
        return radius * np.concatenate([np.cos(angle), np.sin(angle)], -1)

    def exact(self, rng: Any, count: int) -> Array:
        """Draw `count` independent samples exactly, shape (count, 2)."""
        return self.start(rng, (count,))

    def value(self, theta: Array) -> Array:
        """Return U = |theta|^4 / 4, shape (*chains,)."""
        return (theta * theta).sum(-1) ** 2 / 4

    def draw(self, rng: Any, theta: Array) -> Quartic:
        """Return the target itself, which is its own potential."""
        return self

    def grad(self, theta: Array) -> Array:
        """Return the gradient of U, |theta|^2 theta."""
        return (theta * theta).sum(-1, keepdims=True) * theta


def _quartic_jobs(full: bool, seed: int) -> list[Job]:
    """List one job for every method and step size."""
    return [
        {
            "method": method,
            "size": QUARTIC,
            "step_size": h,
            "time": 20.0 if full else 5.0,
            "chains": 2000 if full else 500,
            "seed": seed,
        }
        for method in ON_QUARTIC
        for h in STEP_SIZES
    ]


def quartic_bias(
    sampler: Any, moves: int, *, time_span: float = 20.0, chains: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """Return relative bias and standard error of E |theta|^2 in `time_span` * `moves` / h steps."""
    steps = round(time_span / sampler.step_size) * moves
    total = np.zeros(chains)
    for state in run(Quartic(), sampler, steps=steps, seed=seed, chains=(chains,)):
        if state.step > steps // 2:
            total += (state.theta**2).sum(-1)
    errors = total / (steps - steps // 2) / Quartic.power - 1
    return float(errors.mean()), float(errors.std() / math.sqrt(chains))


POINTS = 1000
"""N, the number of observations."""

CHAINS = 4
"""Number of chains per data set; their starts differ, but are the same for every method."""

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
"""Functions from D to a sampler, at the printed settings unless the name says searched."""


def target_of(size: int, seed: int) -> LinearGaussian:
    """Return the posterior given a data set drawn from the generative model."""
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
    return listed + _quartic_jobs(full, seed)


def work(job: Job) -> Numbers:
    """Run the chains of one job, and time a single chain, except on the quartic."""
    if job["size"] == QUARTIC:
        kind, moves = ON_QUARTIC[job["method"]]
        sizes = {"time_span": job["time"], "chains": job["chains"], "seed": job["seed"]}
        found, error = quartic_bias(kind(job["step_size"]), moves, **sizes)
        return {"bias": found, "error": error}
    target = target_of(job["size"], job["seed"])
    sampler = METHODS[job["method"]](job["size"])
    numbers = _follow(target, sampler, job["steps"], job["seed"])
    timed = 5 * min(500, job["steps"] // 10)
    numbers["microseconds"] = 1e6 * min(seconds_per_step(target, [sampler], timed)[0])
    # With ten data points a step, the interpreter takes most of the time.
    target.batch = POINTS
    numbers["microseconds_large"] = 1e6 * min(seconds_per_step(target, [sampler], timed)[0])
    if job["size"] == 2:
        numbers["mean"] = target.mean.tolist()
        numbers["posterior"] = target.covariance.tolist()
    return numbers


def _follow(target: LinearGaussian, sampler: Any, steps: int, seed: int) -> Numbers:
    """Return errors of running means, the last half's mean, and the covariances over (t / 2, t]."""
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
    """Return the mean relative error (Frobenius) of covariances of draws (chains, steps, D)."""
    centred = draws - draws.mean(1, keepdims=True)
    found = np.swapaxes(centred, 1, 2) @ centred / draws.shape[1]
    error = np.linalg.norm(found - target.covariance, axis=(1, 2))
    return float(error.mean() / np.linalg.norm(target.covariance))


CLAIMS = {
    "SGLD": "above HAMCMC",
    "PSGLD, lagged": "above HAMCMC",
    "SGRLD": "lowest, slow",
    "HAMCMC, M = 2": "below SGLD, PSGLD",
    "HAMCMC, M = 3": "near SGRLD",
}
"""Order of the errors in fig. 2 and its text, which have no numbers."""

DRAWN = tuple(name for name in METHODS if "M = 2, s" not in name)
BIAS = f"bias in % at h = {', '.join(map(str, STEP_SIZES))}"
PANELS = ("SGLD", "PSGLD", "PSGLD, searched", "SGRLD", "HAMCMC, M = 2")
"""Samplers of fig. 1, and PSGLD with a step size at which it does not diverge."""


def table(records: list[JobRecord]) -> list[dict[str, Any]]:
    """Return a row for each size and method, then the biases on the quartic."""
    rows = []
    for size in PRINTED:
        plain = _found(records, "SGLD", size)
        base, base_large = _time(plain), _time(plain, "microseconds_large")
        for method in METHODS:
            found = _found(records, method, size)
            cost, large = _time(found), _time(found, "microseconds_large")
            rows.append(
                {
                    "method": method,
                    "D": str(size),
                    "error of the mean": _of(found, "running"),
                    "of the mean over the last half": _of(found, "second_half"),
                    "of the covariance": _of(found, "covariance"),
                    "variance / posterior's": _of(found, "spread"),
                    "µs per step (/ SGLD's)": f"{cost:.0f} ({cost / base:.1f})",
                    "with 1000 points": f"{large:.0f} ({large / base_large:.1f})",
                    BIAS: None,
                    "paper": CLAIMS.get(method) if size > 2 else None,
                }
            )
    for method in ON_QUARTIC:
        found = sorted(_found(records, method, QUARTIC), key=lambda r: -float(r.job["step_size"]))
        row: dict[str, Any] = dict.fromkeys(rows[0])
        row |= {"method": method, "D": QUARTIC}
        row[BIAS] = ", ".join(
            f"{100 * r.numbers['bias']:+.1f} ± {100 * r.numbers['error']:.1f}" for r in found
        )
        rows.append(row)
    return rows


def _found(records: list[JobRecord], method: str, size: Any) -> list[JobRecord]:
    return [r for r in records if r.job["method"] == method and r.job["size"] == size]


def _of(found: list[JobRecord], name: str) -> str:
    values = [r.numbers.get(name, math.inf) for r in found if not r.numbers.get("exploded")]
    if len(values) < len(found):
        return f"{len(found) - len(values)} of {len(found)} diverged"
    return mean_and_error([v[-1] if isinstance(v, list) else v for v in values], 3)


def _time(found: list[JobRecord], name: str = "microseconds") -> float:
    # Other load only increases a time.
    return float(min(r.numbers[name] for r in found))


def figure(records: list[JobRecord]) -> Any:
    """Draw fig. 1, fig. 2 with the error of the covariance, and the biases on the quartic."""
    drawn = blank_figure(12, 12)
    parts: Any = drawn.subfigures(2, 1, height_ratios=(1, 2.6))
    scatter, errors = parts
    panels: Any = scatter.subplots(1, len(PANELS), sharex=True, sharey=True)
    for axes, method in zip(panels, PANELS, strict=True):
        _draw_scatter(axes, _found(records, method, 2)[0].numbers, method)
    grid = errors.subplots(3, 3)
    for row, size in zip(grid, (10, 100), strict=False):
        for k, method in enumerate(DRAWN):
            found = [r for r in _found(records, method, size) if "second_half" in r.numbers]
            if found:
                _draw_errors(row, found, method, k)
        for axes, label in zip(row, ("step", "seconds", "step"), strict=True):
            axes.set(xscale="log", yscale="log", xlabel=label, title=f"D = {size}")
        row[0].set(ylabel="squared error of the mean", ylim=(None, 1e3))
        row[1].set(ylim=row[0].get_ylim())
        row[2].set(ylabel="error of the covariance", ylim=(None, 1e3))
    _draw_bias(grid[2, 0], records)
    for axes in grid[2, 1:]:
        axes.axis("off")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    grid[2, 1].legend(handles, labels, loc="upper left", frameon=False)
    return drawn


def _draw_scatter(axes: Any, numbers: dict[str, Any], method: str) -> None:
    mean, root = np.array(numbers["mean"]), np.linalg.cholesky(np.array(numbers["posterior"]))
    angle = np.linspace(0, 2 * np.pi, 100)
    for radius in (1, 2, 3):
        ring = mean + radius * np.stack([np.cos(angle), np.sin(angle)], 1) @ root.T
        axes.plot(*ring.T, "k--", linewidth=0.8)
    axes.plot(*np.array(numbers["draws"]).T, ".", markersize=2)
    reach = 4 * np.linalg.norm(root, axis=1)
    axes.set(title=method, xlim=mean[0] + reach[0] * np.array([-1, 1]))
    axes.set(ylim=mean[1] + reach[1] * np.array([-1, 1]))


def _draw_errors(row: Any, found: list[JobRecord], method: str, k: int) -> None:
    marks = np.array(found[0].numbers["marks"])
    running = np.mean([r.numbers["running"] for r in found], 0)
    covariance = np.mean([r.numbers["covariance"] for r in found], 0)
    style = {"color": f"C{k}", "linestyle": "--" if "searched" in method else "-"}
    row[0].plot(marks, running, label=method, **style)
    row[1].plot(1e-6 * _time(found) * marks, running, **style)
    row[2].plot(found[0].numbers["windows"], covariance, **style)


def _draw_bias(axes: Any, records: list[JobRecord]) -> None:
    for method in ON_QUARTIC:
        found = _found(records, method, QUARTIC)
        axes.errorbar(
            [r.job["step_size"] for r in found],
            [100 * r.numbers["bias"] for r in found],
            [200 * r.numbers["error"] for r in found],
            color=f"C{DRAWN.index(method)}",
            marker=".",
        )
    axes.axhline(0, color="grey", linewidth=0.8)
    axes.set(xlabel="step size", ylabel="bias of E |θ|² in %", title="exp(-|θ|⁴ / 4)", xscale="log")
