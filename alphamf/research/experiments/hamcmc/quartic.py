r"""Bias of the naive quasi-Newton chain if the curvature is not constant.

E |theta|^2 under exp(-|theta|^4 / 4) in the plane, from exact starts: a part of
``linear-gaussian`` that the paper does not have.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from alphamf.inference.chain import run
from alphamf.inference.samplers.hamcmc import HAMCMC, NaiveQN
from alphamf.inference.samplers.langevin import SGLD
from alphamf.research.experiments.base import Job, Numbers
from alphamf.tools.arrays import Array

SIZE = "2, quartic"
STEP_SIZES = (0.08, 0.04, 0.02)

METHODS: dict[str, tuple[Any, int]] = {
    # With the number of steps in which every position moves once.
    "SGLD": (SGLD, 1),
    "HAMCMC, M = 2": (lambda h: HAMCMC(h, 2, 1.0, 1.0), 2),
    "HAMCMC, M = 3": (lambda h: HAMCMC(h, 3, 1.0, 1.0), 3),
    "naive quasi-Newton, M = 2": (lambda h: NaiveQN(h, 2, 1.0, 1.0), 1),
}


class Quartic:
    """exp(-|theta|^4 / 4) in the plane, where E |theta|^2 = 2 / sqrt(pi)."""

    size = 2
    positive = False
    power: float = 2 / math.sqrt(math.pi)

    def __init__(self) -> None:
        self.latents: dict[str, Array] = {}

    def start(self, rng: Any, chains: tuple[int, ...] = ()) -> Array:
        """Draw exactly: |theta|^4 / 2 is chi-square with one degree, the direction uniform."""
        radius = np.sqrt(np.abs(rng.standard_normal((*chains, 1)) * math.sqrt(2)))
        angle = 2 * np.pi * rng.random((*chains, 1))
        theta: Array = radius * np.concatenate([np.cos(angle), np.sin(angle)], -1)
        return theta

    def exact(self, rng: Any, count: int) -> Array:
        """Draw from the law, shape (count, 2): `check` asks for it."""
        return self.start(rng, (count,))

    def value(self, theta: Array) -> Array:
        """Return |theta|^4 / 4."""
        value: Array = (theta * theta).sum(-1) ** 2 / 4
        return value

    def draw(self, rng: Any, theta: Array) -> Quartic:
        """Return the target itself, which is its own potential."""
        return self

    def grad(self, theta: Array) -> Array:
        """Return |theta|^2 theta."""
        gradient: Array = (theta * theta).sum(-1, keepdims=True) * theta
        return gradient


def jobs(full: bool, seed: int) -> list[Job]:
    """List one job for every method and step size."""
    return [
        {
            "method": method,
            "size": SIZE,
            "step_size": h,
            "time": 20.0 if full else 5.0,
            "chains": 2000 if full else 500,
            "seed": seed,
        }
        for method in METHODS
        for h in STEP_SIZES
    ]


def work(job: Job) -> Numbers:
    """Return the relative bias of E |theta|^2, and its standard error over the chains."""
    kind, moves = METHODS[job["method"]]
    found, error = bias(
        kind(job["step_size"]),
        moves,
        time_span=job["time"],
        chains=job["chains"],
        seed=job["seed"],
    )
    return {"bias": found, "error": error}


def bias(
    sampler: Any, moves: int, *, time_span: float = 20.0, chains: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """Return the relative bias of E |theta|^2 and its standard error, from an exact start."""
    steps = round(time_span / sampler.step_size) * moves
    total = np.zeros(chains)
    for state in run(Quartic(), sampler, steps=steps, seed=seed, chains=(chains,)):
        if state.step > steps // 2:
            total += (state.theta**2).sum(-1)
    errors = total / (steps - steps // 2) / Quartic.power - 1
    return float(errors.mean()), float(errors.std() / math.sqrt(chains))
