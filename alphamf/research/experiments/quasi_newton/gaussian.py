r"""``gaussian-qn``: HMC, HMC-BFGS and QNHMC on a Gaussian that is elongated in one direction.

Fu, Luo & Zhang (UAI 2016), section 5.1: :math:`\mathcal{N}(0, 1 1^\top + 4 I)` in 100 dimensions,
step 0.01, 10 leaps, 100 000 samples of which the last half counts. The paper's leapfrog is the
usual one, as ours is, so its step needs no conversion. A fourth method is ours: HMC with a hundred
times the step, since 0.01 is far below HMC's limit of stability here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from alphamf.inference import diagnostics
from alphamf.inference.chain import run
from alphamf.inference.random import generator
from alphamf.inference.records import Trace
from alphamf.inference.samplers.hmc import HMC, HMCBFGS
from alphamf.inference.samplers.qnhmc import QNHMC
from alphamf.research.experiments.base import (
    Job,
    JobRecord,
    Numbers,
    blank_panels,
    mean_and_error,
    seconds_per_step,
)
from alphamf.tools.arrays import Array

LAGS = 500
ENSEMBLE = 5
"""Number of chains in the ensemble of HMC-BFGS, the paper's K."""

METHODS: dict[str, str | None] = {
    # Sum of |autocorrelations|, seconds of burn-in, ESS and ESS per second of table 1.
    "HMC": "98.27, 81 s, 253, 7.22",
    "HMC-BFGS": "49.74, 47 s, 497, 9.65",
    "QNHMC": "2.65, 0.93 s, 7936, 93.36",
    "HMC, step 1": None,
}

FAR = 10.0
"""Standard deviation of the starts, whose U is about 25 times that of the typical set."""


class Gaussian:
    """The target N(0, 1 1' + 4 I), given by its precision matrix."""

    positive = False

    def __init__(self, size: int) -> None:
        self.size = size
        self.latents: dict[str, Array] = {}
        self.precision: Array = np.linalg.inv(np.ones((size, size)) + 4 * np.eye(size))

    def start(self, rng: Any, chains: tuple[int, ...] = ()) -> Array:
        """Draw starts far from the mode, shape (*chains, D)."""
        return FAR * rng.standard_normal((*chains, self.size))

    def draw(self, rng: Any, theta: Array) -> Gaussian:
        """Return the target itself, which is its own potential."""
        return self

    def grad(self, theta: Array) -> Array:
        """Return the gradient of U, shape (*chains, D)."""
        return theta @ self.precision

    def value(self, theta: Array) -> Array:
        """Return U, shape (*chains,)."""
        return 0.5 * (self.grad(theta) * theta).sum(-1)


def sampler_of(job: Job, **quasi: Any) -> Any:
    """Return the sampler of a job; `quasi` are further settings of QNHMC."""
    step, leaps, gamma = job["step"], job["leaps"], job.get("gamma") or 1.0
    if job["method"] == "QNHMC":
        return QNHMC(step, leaps, gamma=gamma, **quasi)
    if job["method"] == "HMC-BFGS":
        return HMCBFGS(step, leaps, ENSEMBLE, gamma=gamma)
    return HMC(step, leaps)


def ess_of_chains(draws: Array, method: str) -> list[Array]:
    """Return the effective sample sizes by chain; `draws` has the shape (draws, chains, ...)."""
    count = ENSEMBLE if method == "HMC-BFGS" else 1
    chains = (draws[:, [c]] for c in range(draws.shape[1]))
    return [diagnostics.ess(diagnostics.separate_chains(each, count)) for each in chains]


def jobs(full: bool, seed: int) -> list[Job]:
    """List one job per method, with several chains in one array instead of several seeds."""
    sizes = {"size": 100, "leaps": 10, "samples": 100_000 if full else 4000}
    return [
        {
            "method": method,
            "step": 1.0 if method == "HMC, step 1" else 0.01,
            **sizes,
            "chains": 5 if full else 2,
            "seed": seed,
        }
        for method in METHODS
    ]


def axis_coordinates(theta: Array, target: Gaussian) -> Array:
    """Return the coordinates along and across the long axis, and 2 U, shape (*chains, 3)."""
    long = theta.sum(-1) / np.sqrt(target.size)
    across = (theta[..., 0] - theta[..., 1]) / np.sqrt(2)
    return np.stack([long, across, 2 * target.value(theta)], -1)


def work(job: Job) -> Numbers:
    """Run one method; return diagnostics of its chains, and the time per step of a single chain."""
    from scipy.stats import chi2

    target, sampler = Gaussian(job["size"]), sampler_of(job)
    start = target.start(generator(job["seed"], 0), (job["chains"],))
    trace = Trace(axis_coordinates)
    for state in run(
        target, sampler, steps=job["samples"], seed=job["seed"], start=start, record=trace
    ):
        accepted = state.accepted
    energy = trace.values[..., 2]
    kept = trace.values[job["samples"] // 2 :]
    lags = min(LAGS, len(kept) // 4)
    sums = [diagnostics.autocorrelation_sum(kept[:, [c], 0], lags) for c in range(job["chains"])]
    # The first state inside the region that holds 99 % of the probability ends the burn-in.
    inside = energy < chi2.ppf(0.99, job["size"])
    burn_in = [int(steps.argmax()) + 1 if steps.any() else None for steps in inside.T]
    of_ess = ess_of_chains(kept[..., :2], job["method"])
    shown = np.unique(np.geomspace(1, job["samples"], 300).astype(int)) - 1
    return {
        "acceptance": float(np.mean(accepted) / job["samples"]),
        "kept": len(kept),
        "sums": [float(value) for value in sums],
        "burn_in": burn_in,
        "ess_long": [float(ess[0]) for ess in of_ess],
        "ess_across": [float(ess[1]) for ess in of_ess],
        "variance": [float(v) for v in kept[..., 0].var(0) / (job["size"] + 4)],
        "seconds": np.mean(seconds_per_step(target, [sampler], min(2000, job["samples"]))).item(),
        "energy": [[int(i) + 1, float(energy[i, 0])] for i in shown],
    }


def optimum(target: Any, start: Array, steps: int = 15_000) -> Array:
    """Return a mode near `start`, shape (D,), found by at most `steps` iterations of L-BFGS."""
    from scipy.optimize import minimize

    potential = target.draw(None, start)

    def loss(x: Array) -> tuple[float, Array]:
        theta = x.astype(start.dtype)
        return float(potential.value(theta)), potential.grad(theta).astype(np.float64)

    begin, options = start.astype(np.float64), {"maxiter": steps}
    found: Array = minimize(loss, begin, jac=True, method="L-BFGS-B", options=options).x
    return found.astype(start.dtype)


def table(records: list[JobRecord]) -> list[dict[str, Any]]:
    """Return table 1, one row per method, with further diagnostics."""
    rows = []
    for job, numbers in records:
        # As in the paper: ESS from the sum of table 1, with its absolute values.
        ess = [numbers["kept"] / (1 + 2 * value) for value in numbers["sums"]]
        ended = [steps * numbers["seconds"] for steps in numbers["burn_in"] if steps]
        rows.append(
            {
                "method": job["method"],
                "sum of |rho|": mean_and_error(numbers["sums"]),
                "burn-in (s)": mean_and_error(ended, 3) if ended else None,
                "ESS": mean_and_error(ess),
                "ESS per second": mean_and_error([e / _time(numbers) for e in ess]),
                "paper": METHODS[job["method"]],
                "ESS, Geyer": mean_and_error(numbers["ess_long"], 3),
                "ESS across, Geyer": mean_and_error(numbers["ess_across"], 3),
                "variance / exact": mean_and_error(numbers["variance"], 3),
                "acceptance": numbers["acceptance"],
                "ms per sample": 1000 * numbers["seconds"],
            }
        )
    return rows


def _time(numbers: Numbers) -> float:
    return float(numbers["kept"] * numbers["seconds"])


def figure(records: list[JobRecord]) -> Any:
    """Draw fig. 1: x' Sigma^-1 x of each method's first chain against the iteration."""
    drawing, axes = blank_panels(6, 4)
    for job, numbers in records:
        axes.loglog(*zip(*numbers["energy"], strict=True), label=job["method"])
    axes.axhline(records[0].job["size"], color="grey", lw=0.8, ls="--")
    axes.set(xlabel="iteration", ylabel=r"$x^\top \Sigma^{-1} x$")
    axes.legend()
    return drawing
