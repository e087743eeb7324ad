"""What `check` finds: the tables of docs/checks.md and docs/papers/not_said.md.

``power`` counts how often it fails ten broken samplers and ten right ones, with full gradients, on
a Gaussian posterior in three dimensions whose largest curvature is 63.6. The others are
counterexamples to the papers' theorems; each takes less than a minute.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from alphamf.inference.chain import run
from alphamf.inference.checks import check
from alphamf.inference.diagnostics import ess
from alphamf.inference.records import Trace
from alphamf.inference.samplers.hamcmc import HAMCMC
from alphamf.inference.samplers.hmc import HMC
from alphamf.inference.samplers.langevin import SGLD
from alphamf.inference.samplers.masses import MassEM, UnitMass
from alphamf.inference.samplers.qnhmc import QNHMC
from alphamf.research.experiments.hamcmc.linear import Quartic
from benchmarks.report import run_main
from tests.support import sampler_cases, twins

TARGET = sampler_cases.posterior()
SEEDS = 20

Lines = list[list[str]]


def samplers() -> Iterator[tuple[str, Any, Any, float]]:
    """Yield name, sampler, target and order of bias: ten broken ones, then ten right ones."""
    steep = twins.Wrong(TARGET, grad=lambda right, theta: 1.05 * right.grad(theta))
    wrong = [
        ("sgld", "noise 5 % too hot", twins.Hot),
        ("sgld", "noise of a coordinate 10 % too cold", twins.ColdFirst),
        ("sgld", "noise correlated in time by .1", twins.Remembering),
        ("sgld", "noise of coordinates correlated by .1", twins.Alike),
        ("rsgld-diagonal", "noise 5 % too hot", twins.Hot),
        ("sghmc", "noise 5 % too hot", twins.Hot),
        ("hmc", "momenta 5 % too hot", twins.Hot),
        ("hmc", "no Metropolis test", twins.AcceptsAll),
    ]
    for name, what, draws in wrong:
        sampler = twins.twin(sampler_cases.made(name, TARGET)[0], draws)
        yield f"`{name}`, {what}", sampler, TARGET, inf if name in sampler_cases.EXACT else 1.0
    yield "`sgld`, gradient 5 % too steep", sampler_cases.made("sgld", TARGET)[0], steep, 1.0
    yield "`psgld`, as published", sampler_cases.made("psgld", TARGET)[0], TARGET, 1.0
    for name in RIGHT:
        order = inf if name in sampler_cases.EXACT else 1.0
        yield f"`{name}`", sampler_cases.made(name, TARGET)[0], TARGET, order


RIGHT = ("sgld", "rsgld-diagonal", "sgrrld", "resgld", "sghmc", "sghmc-splitting", "sghmc-baoab",
         "sgnht", "hmc", "rhmc")  # fmt: skip


def power() -> Lines:
    """Check each of `samplers` with `SEEDS` seeds."""
    rows = [["sampler", f"failed, of {SEEDS} seeds", "would have been seen in all variances, %"]]
    for name, sampler, target, order in samplers():
        part = 1 if "," in name else 2  # false alarms do not depend on the number of chains
        reports = [
            check(sampler, target, order=order, steps=400 // part, chains=2000 // part, seed=seed)
            for seed in range(SEEDS)
        ]
        sentence = reports[0].findings[-1].sentence
        (least,) = re.findall(r"any moment, ([\d.]+) %", sentence)
        rows.append([name, str(sum(not each.passed for each in reports)), least])
        print(*rows[-1], file=sys.stderr, flush=True)
    return rows


class Gaussian:
    """Independent normal coordinates of standard deviations from 0.1 to 10."""

    positive = False
    size = 6
    deviations = np.logspace(-1, 1, 6)

    def __init__(self) -> None:
        self.latents: dict[str, Any] = {}

    def draw(self, rng: Any, theta: Any) -> Any:
        """Return the target itself, which is its own potential."""
        return self

    def grad(self, theta: Any) -> Any:
        """Return the gradient of U, of the shape of theta."""
        return theta / self.deviations**2

    def value(self, theta: Any) -> Any:
        """Return the potential U without its constant, shape (chains,)."""
        return 0.5 * ((theta / self.deviations) ** 2).sum(-1)


def hamcmc() -> Lines:
    """Check HAMCMC, and SGLD beside it, on exp(-|theta|^4 / 4)."""
    lines = [["sampler", "bias of a variance at h = .08, %", "at .04", "at .02", "check"]]
    samplers: list[tuple[str, Any]] = [("SGLD", SGLD(0.08))]
    samplers += [(f"HAMCMC, M = {m}", HAMCMC(0.08, m, gamma=1.0, trust=1.0)) for m in (2, 3)]
    for name, sampler in samplers:
        report = check(sampler, Quartic(), chains=20_000)
        # The last moment is the second coordinate's variance.
        cells = [
            f"{100 * each.bias[-1]:+.1f} ± {100 * each.error[-1]:.1f}" for each in report.biases
        ]
        lines.append([name, *cells, "passed" if report.passed else "**failed**"])
    return lines


def momenta() -> Lines:
    """Learn masses of HMC from momenta and from positions, in equilibrium."""
    target = Gaussian()
    lines = [["mass", "exponent of the variance in M⁻¹", "least ESS per 1000 steps"]]
    for name, mass in (
        ("none", UnitMass()),
        ("from momenta, as in the paper", MassEM(samples=50, source="momenta", freeze=3000)),
        ("from positions", MassEM(samples=50, source="positions", freeze=3000)),
    ):
        record = Trace(lambda theta, target: theta, burn_in=3000)
        start = target.deviations * np.random.default_rng(1).standard_normal((16, 6))
        sampler = HMC(0.1, leaps=10, mass=mass)
        for state in run(target, sampler, steps=6000, seed=0, start=start, record=record):
            last = state
        slowest = float(np.min(ess(record.values))) / (record.values.shape[1] * 3)
        slope = "-"
        if name != "none":
            logs = np.log(last.mass.inverse)
            slopes = np.polyfit(2 * np.log(target.deviations), logs.T, 1)[0]
            slope = f"{slopes.mean():+.2f} ± {slopes.std() / 4:.2f}"
        lines.append([name, slope, f"{slowest:.1f}"])
    return lines


def qnhmc() -> Lines:
    """Check QNHMC with a matrix C that is always learned, with a frozen one, and HMC."""
    lines = [["sampler", "bias of the moment furthest off, %", "check"]]
    learning = QNHMC(0.1, leaps=5)
    for name, sampler in (
        ("C learns all the time, as in algorithm 2", learning),
        ("C rests from step 100 on", replace(learning, freeze=100)),
        ("HMC", HMC(0.1, leaps=5)),
    ):
        report = check(sampler, Quartic(), order=inf, steps=2000, chains=1000)
        (bias,) = report.biases
        worst = int(np.argmax(np.abs(bias.bias) / bias.error))
        cells = f"{100 * bias.bias[worst]:+.1f} ± {100 * bias.error[worst]:.1f}"
        lines.append([name, cells, "passed" if report.passed else "**failed**"])
    return lines


PARTS = {each.__name__: each for each in (power, hamcmc, momenta, qnhmc)}

if __name__ == "__main__":
    run_main(PARTS)
