"""``mnist-7v9``: logistic regression of the digits 7 and 9, by optimisation and by three samplers.

Fu, Luo & Zhang (UAI 2016), section 5.2: 784 pixels, no intercept, 5 leaps, step 0.1, L-BFGS with 7
pairs, and a "weakly informative" prior after Girolami & Calderhead, who take a variance of 100, and
whose code standardises features. Here features are centred, and the variance is 1
(docs/experiments/searches.md).

The printed step has no scale: the largest curvature of U is 1e4. So all three samplers take it with
an inverse mass, or an initial inverse Hessian, of gamma I; for HMC that is a step of
0.1 gamma^(1/2). QNHMC's C is frozen for the second half, whose samples are kept: while it adapts,
the chain has another law.

GD is gradient descent on U, from zero, with the step 1 / L, where L bounds the curvature of U, and
as many steps as a sampler draws samples. The row "optimum" has the minimum of U for comparison,
found by L-BFGS.
"""

import time
from typing import Any

import numpy as np

from alphamf.inference.chain import run
from alphamf.inference.random import generator
from alphamf.inference.targets.logistic import LogisticRegression
from alphamf.research.corpora import find
from alphamf.research.experiments.base import (
    Job,
    JobRecord,
    Numbers,
    blank_panels,
    mean_and_error,
    seconds_per_step,
)
from alphamf.research.experiments.quasi_newton import gaussian
from alphamf.research.experiments.quasi_newton.gaussian import optimum
from alphamf.tools.arrays import Array

MEMORY = 7
STEP = 0.1

GAMMA = 0.02
"""Scale of the initial inverse Hessian, chosen on training digits: docs/experiments/searches.md."""

VARIANCE = 1.0
"""Variance of the prior, also chosen on training digits."""

METHODS: dict[str, str | None] = {
    # Error, seconds of burn-in and ESS per second of table 2.
    "HMC": ".0493, 64 s, .286",
    "HMC-BFGS": ".0501, 36 s, .418",
    "QNHMC": ".0496, 17 s, 1.30",
    "GD": ".0578",
    "optimum": None,
}


def data(rows: int | None = None) -> tuple[Array, Array, Array, Array]:
    """Return training pixels and labels (the first `rows` of them), and those of the test set.

    Pixels, shape (digits, 784), are scaled to 0 to 1, less the training means. Labels: 1 for a 9.
    """
    with np.load(find("mnist-7v9")) as file:
        x, x_test = (
            file[name].reshape(-1, 784).astype(np.float32) / 255 for name in ("x_train", "x_test")
        )
        y, y_test = ((file[name] == 9).astype(np.float32) for name in ("y_train", "y_test"))
    x, y = x[:rows], y[:rows]
    mean = x.mean(0, dtype=np.float64).astype(np.float32)
    return x - mean, y, x_test - mean, y_test


def jobs(full: bool, seed: int) -> list[Job]:
    """List one job per method, with several chains in one array instead of several seeds."""
    sizes = {
        "rows": None if full else 3000,
        "samples": 1024 if full else 256,
        "chains": 5 if full else 2,
    }
    settings = {"step": STEP, "gamma": GAMMA, "variance": VARIANCE, "leaps": 5}
    return [{"method": method, **settings, **sizes, "seed": seed} for method in METHODS]


def sampler_of(job: Job) -> Any:
    """Return the sampler of a job; HMC's step is scaled, as by an inverse mass of gamma I."""
    if job["method"] == "HMC":
        job = {**job, "step": job["step"] * job["gamma"] ** 0.5}
    return gaussian.sampler_of(job, memory=MEMORY, freeze=job["samples"] // 2)


def work(job: Job) -> Numbers:
    """Run one method on the training digits, and return test errors, times and diagnostics."""
    x, y, x_test, y_test = data(job["rows"])
    target = LogisticRegression(x, y, prior_variance=job["variance"])
    if job["method"] in ("GD", "optimum"):
        begun = time.process_time()
        w = (
            descend(target, job["samples"])
            if job["method"] == "GD"
            else optimum(target, np.zeros(target.size, np.float32))
        )
        return {
            "seconds": time.process_time() - begun,
            "errors": [float(((x_test @ w > 0) != y_test).mean())],
            "energy": [float(target.draw(None, w).value(w))],
        }
    chains, samples = job["chains"], job["samples"]
    start = target.start(generator(job["seed"], 0), (chains,))
    sampler = sampler_of(job)
    energies, weights = np.empty((samples, chains)), []
    predicted = np.zeros((chains, len(y_test)))
    curve = []
    for state in run(target, sampler, steps=samples, seed=job["seed"], start=start):
        energies[state.step - 1] = target.draw(None, state.theta).value(state.theta)
        if 2 * state.step > samples:
            weights.append(state.theta)
        # At each power of two: the prediction averaged over the latter half of the samples so far.
        predicted += target.predict(state.theta, x_test)
        if state.step & (state.step - 1) == 0:
            wrong = (predicted > predicted.dtype.type(state.step - state.step // 2) / 2) != y_test
            curve.append([state.step, [float(value) for value in wrong.mean(-1)]])
            predicted[...] = 0
    kept = np.stack(weights)
    level = energies[samples // 2 :]
    inside = energies < level.mean(0) + 2 * level.std(0)
    ess = gaussian.ess_of_chains(kept, job["method"])
    return {
        "errors": curve[-1][1],
        "curve": curve,
        "acceptance": float(state.accepted.mean() / samples),
        "burn_in": [int(steps.argmax()) + 1 for steps in inside.T],
        "kept": len(kept),
        "ess": [float(np.median(values)) for values in ess],
        "energy": [float(value) for value in level.mean(0)],
        "seconds": np.mean(seconds_per_step(target, [sampler], min(samples, 100))).item(),
    }


def descend(target: LogisticRegression, steps: int) -> Array:
    """Run gradient descent on U for a number of steps of 1 / L from zero; return the end point.

    L = |X|^2 / 4 + 1 / v bounds the curvature of U, with the spectral norm of the features X and
    the prior's variance v, so that U falls at every step.

    The end point has the shape (D,).
    """
    w: Array = np.zeros(target.size, target.features.dtype)
    potential = target.draw(None, w)
    norm = float(np.linalg.norm(target.features, 2))
    size = w.dtype.type(1 / (norm * norm / 4 + 1 / target.prior_variance))
    for _ in range(steps):
        w -= size * potential.grad(w)
    return w


def table(records: list[JobRecord]) -> list[dict[str, Any]]:
    """Return table 2, one row per method."""
    rows = []
    for job, numbers in records:
        row = {
            "method": job["method"],
            "error": mean_and_error(numbers["errors"]),
            "burn-in (s)": None,
            "ESS per second": None,
            "paper": METHODS[job["method"]],
            "acceptance": None,
            "mean of U": mean_and_error(numbers["energy"]),
            "ms per sample": None,
        }
        if "ess" in numbers:
            seconds = numbers["seconds"]
            ess = [value / (numbers["kept"] * seconds) for value in numbers["ess"]]
            row |= {
                "burn-in (s)": mean_and_error([steps * seconds for steps in numbers["burn_in"]], 3),
                "ESS per second": mean_and_error(ess, 3),
                "acceptance": numbers["acceptance"],
                "ms per sample": 1000 * seconds,
            }
        rows.append(row)
    return rows


def figure(records: list[JobRecord]) -> Any:
    """Draw the test error of predictions averaged over the latter half of samples, against time."""
    drawing, axes = blank_panels(6, 4)
    for job, numbers in records:
        if "curve" in numbers:
            steps, errors = zip(*numbers["curve"], strict=True)
            seconds = np.array(steps) * numbers["seconds"]
            axes.plot(seconds, np.mean(errors, 1), marker=".", label=job["method"])
        else:
            style = "--" if job["method"] == "GD" else ":"
            axes.axhline(numbers["errors"][0], color="grey", ls=style, label=job["method"])
    axes.set(xscale="log", yscale="log", xlabel="CPU seconds", ylabel="test error")
    axes.legend()
    return drawing
