"""Counterexamples to the papers' theorems: ``python -m benchmarks.counterexamples hamcmc --write``.

The parts are those of docs/papers/not_said.md: ``hamcmc`` (theorem 1), ``momenta`` (masses learned
by Monte Carlo EM) and ``qnhmc`` (theorem 4). Each takes less than a minute.
"""

from dataclasses import replace
from math import inf
from typing import Annotated, Any

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
from alphamf.research.experiments.hamcmc.quartic import Quartic
from alphamf.tools import tables
from benchmarks.report import ROOT, publish, run_main

PAGE = ROOT / "docs" / "papers" / "not_said.md"


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
        """Gradient, of the shape of theta."""
        return theta / self.deviations**2

    def value(self, theta: Any) -> Any:
        """Return U without its constant."""
        return 0.5 * ((theta / self.deviations) ** 2).sum(-1)


def hamcmc() -> str:
    """Check HAMCMC, and SGLD beside it, on exp(-|theta|^4 / 4)."""
    lines = []
    samplers: list[tuple[str, Any]] = [("SGLD", SGLD(0.08))]
    samplers += [(f"HAMCMC, M = {m}", HAMCMC(0.08, m, gamma=1.0, trust=1.0)) for m in (2, 3)]
    for name, sampler in samplers:
        report = check(sampler, Quartic(), chains=20_000)
        # The last moment is the second coordinate's variance.
        cells = [
            f"{100 * each.bias[-1]:+.1f} ± {100 * each.error[-1]:.1f}" for each in report.biases
        ]
        lines.append([name, *cells, "passed" if report.passed else "**failed**"])
    headings = ["sampler", "bias of a variance at h = .08, %", "at .04", "at .02", "check"]
    return tables.markdown(headings, lines)


def momenta() -> str:
    """Learn masses of HMC from momenta and from positions, in equilibrium."""
    target = Gaussian()
    lines = []
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
    headings = ["mass", "exponent of the variance in M⁻¹", "least ESS per 1000 steps"]
    return tables.markdown(headings, lines)


def qnhmc() -> str:
    """Check QNHMC with a C that learns for ever, and with one that rests."""
    lines = []
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
    return tables.markdown(["sampler", "bias of the moment furthest off, %", "check"], lines)


PARTS = {"hamcmc": hamcmc, "momenta": momenta, "qnhmc": qnhmc}


def main(part: Annotated[str, PARTS], *, write: bool = False) -> None:
    """Run one counterexample, and print its table."""
    publish(PAGE, f"counterexamples:{part}", PARTS[part](), write=write)


if __name__ == "__main__":
    run_main(main)
