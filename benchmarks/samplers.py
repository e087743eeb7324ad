r"""What the samplers cost, and two questions about their laws.

The tables and figures of docs/samplers.md::

    python -m benchmarks.samplers cost
    python -m benchmarks.samplers size
    python -m benchmarks.samplers memory
    python -m benchmarks.samplers mass

cost
    Time of a step on linear regression with 10 000 points in 100 dimensions, minibatches of 100
    (all points for samplers that accept or reject), as a ratio to SGLD's in the same run.
size
    Time and memory of a step, for HAMCMC and others of linear cost, up to a million dimensions;
    and 10 000 chains of SGLD moved as one array.
memory
    Does HAMCMC's memory disturb the invariant law? E |theta|^2 under exp(-|theta|^4 / 4) in the
    plane against the step size, for Langevin chains and for HAMCMC.
mass
    What does a mass learn from momenta, and what from positions? A Gaussian in 10 dimensions with
    standard deviations from 0.1 to 10.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from alphamf.inference.chain import run
from alphamf.inference.diagnostics import ess
from alphamf.inference.random import generator
from alphamf.inference.records import Trace
from alphamf.inference.samplers.hamcmc import HAMCMC, NaiveQN
from alphamf.inference.samplers.hmc import HMC, RHMC
from alphamf.inference.samplers.hmc_bfgs import HMCBFGS
from alphamf.inference.samplers.langevin import PSGLD, SGLD
from alphamf.inference.samplers.mass_em import MassEM
from alphamf.inference.samplers.masses import UnitMass
from alphamf.inference.samplers.nose import SGNPHMC, SGRNPHMC
from alphamf.inference.samplers.quasi import QNHMC
from alphamf.inference.samplers.richardson import SGRRHMC, SGRRLD
from alphamf.inference.samplers.riemannian import RSGLD
from alphamf.inference.samplers.sghmc import SGHMC
from alphamf.inference.samplers.thermostat import SGNHT
from alphamf.inference.targets.gaussian import LinearGaussian
from alphamf.research.experiments.hamcmc.quartic import bias
from alphamf.tools.arrays import Array
from alphamf.tools.tables import markdown
from benchmarks.report import caption, write_section

REPOSITORY = Path(__file__).parents[1]
FIGURES = REPOSITORY / "docs" / "figures"

PAGE = REPOSITORY / "docs" / "samplers.md"

PACKAGES = ("alphamf", "numpy", "arviz-stats")


def step_time(
    target: Any, sampler: Any, *, chains: tuple[int, ...] = (), least: float = 0.2
) -> float:
    """Return the seconds of a step: the least mean over rounds that last `least` together."""
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
    """Return a linear regression with regressors and noise of unit variance."""
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


def memory() -> str:
    """Return the table of biases, and draw them against the step size."""
    import matplotlib.pyplot as plt

    steps = (0.08, 0.04, 0.02)
    kinds: dict[str, tuple[Callable[[float], Any], int]] = {"SGLD": (SGLD, 1)}
    for m in (2, 3, 5):
        kinds[f"HAMCMC, M = {m}"] = (lambda h, m=m: HAMCMC(h, memory=m, trust=1.0), m)
    kinds["naive quasi-Newton, M = 2"] = (lambda h: NaiveQN(h, memory=2, trust=1.0), 1)
    rows = []
    # Two panels: the naive chain is far above the others.
    figure, (above, below) = plt.subplots(
        2, 1, sharex=True, height_ratios=(1, 3), figsize=(6, 5), layout="constrained"
    )
    for k, (name, (kind, moves)) in enumerate(kinds.items()):
        found = [bias(kind(h), moves) for h in steps]
        rows.append([name, *(f"{100 * value:+.2f} ± {100 * error:.2f}" for value, error in found)])
        (above if isinstance(kind(0.1), NaiveQN) else below).errorbar(
            steps,
            [100 * value for value, _ in found],
            [200 * error for _, error in found],
            marker="o",
            color=f"C{k}",
            label=name,
        )
    above.set_ylim(25, 38)
    below.axhline(0, color="black", linewidth=0.8)
    below.set(xlabel="step size h", xlim=(0, None))
    figure.supylabel("bias of E |θ|² in %, with two standard errors", fontsize="medium")
    figure.legend(loc="outside upper center", ncols=3, fontsize="small")
    _save(figure, "hamcmc-memory.png")
    return markdown(["bias of E |θ|² in %", *(f"h = {h}" for h in steps)], rows)


class Independent:
    """Independent normals about zero, and gradients with noise.

    Parameters
    ----------
    scales
        Standard deviations.
    heat
        Variance of the gradient noise, in units of the precision.
    far
        Whether chains start with every coordinate at 10, and not in equilibrium.
    """

    positive = False

    def __init__(self, scales: Array, heat: float, far: bool) -> None:
        self.scales, self.size = scales, len(scales)
        self.heat, self.far = heat, far
        self.latents: dict[str, Array] = {}
        self.kick: Array = 0.0

    def start(self, rng: Any, chains: tuple[int, ...] = ()) -> Array:
        """Draw from the law, or start far out."""
        draws = rng.standard_normal((*chains, self.size)) * self.scales
        return np.full_like(draws, 10.0) if self.far else draws

    def draw(self, rng: Any, theta: Array) -> Independent:
        """Draw the noise, and return itself."""
        if self.heat:
            self.kick = rng.standard_normal(theta.shape) * (np.sqrt(self.heat) / self.scales)
        return self

    def grad(self, theta: Array) -> Array:
        """Return theta / scales^2, with the noise."""
        return theta / self.scales**2 + self.kick

    def value(self, theta: Array) -> Array:
        """Return U."""
        return 0.5 * ((theta / self.scales) ** 2).sum(-1)


def mass() -> str:
    """Return the table of what masses learn, and draw the learnt inverse masses of HMC."""
    import matplotlib.pyplot as plt

    scales = np.geomspace(0.1, 10, 10)
    learn, chains = 4000, 8
    hmc, sghmc = partial(HMC, 0.1), partial(SGHMC, 0.05, friction=0.1)
    cases: list[tuple[str, Any, str, float, bool]] = [
        ("HMC", hmc, "none", 0.0, False),
        ("HMC", hmc, "momenta", 0.0, False),
        ("HMC", hmc, "positions", 0.0, False),
        ("HMC, started far out", hmc, "momenta", 0.0, True),
        ("SGHMC, exact gradients", sghmc, "none", 0.0, False),
        ("SGHMC, exact gradients", sghmc, "momenta", 0.0, False),
        ("SGHMC, exact gradients", sghmc, "positions", 0.0, False),
        ("SGHMC, noisy gradients", sghmc, "none", 0.1, False),
        ("SGHMC, noisy gradients", sghmc, "momenta", 0.1, False),
    ]
    rows = []
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for name, kind, source, heat, far in cases:
        target = Independent(scales, heat, far)
        learner = UnitMass() if source == "none" else MassEM(source=source, freeze=learn)
        record = Trace(lambda theta, _: theta, burn_in=learn)
        sampler = kind(mass=learner)
        *_, state = run(target, sampler, steps=2 * learn, seed=0, chains=(chains,), record=record)
        inverse = np.broadcast_to(sampler.mass.inverse(state.mass).g, (chains, target.size))
        exponents = np.polyfit(np.log(scales**2), np.log(inverse.T), 1)[0]
        error = exponents.std(ddof=1) / np.sqrt(chains)
        draws = 1000 / (learn * chains) * ess(record.values)
        heated = record.values[..., 0].var() / scales[0] ** 2
        rows.append(
            [
                name,
                source,
                f"{exponents.mean():+.2f} ± {error:.2f}",
                f"{draws.min():.1f}",
                f"{draws.max():.0f}",
                f"{heated:.2f}",
            ]
        )
        if kind is hmc and source != "none":
            label = f"{source}, started far out" if far else source
            (points,) = axes.loglog(scales**2, np.exp(np.log(inverse).mean(0)), "o-", label=label)
            axes.loglog(scales**2, inverse.T, ".", color=points.get_color(), alpha=0.3)
    axes.loglog(scales**2, scales**2, "k--", label="posterior variance")
    axes.set(xlabel="posterior variance of the coordinate", ylabel="inverse mass learnt by HMC")
    axes.legend()
    _save(figure, "mass.png")
    headings = ["sampler", "mass from", "exponent of the variance in M⁻¹ (ideal: 1)"]
    headings += ["ESS per 1000 steps, least", "most", "variance / posterior's, narrowest"]
    return markdown(headings, rows)


def _save(figure: Any, name: str) -> None:
    FIGURES.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURES / name, dpi=100)


PARTS: dict[str, Callable[[], str]] = {"cost": cost, "size": size, "memory": memory, "mass": mass}


def main() -> None:
    """Make the tables that the command line names, and write them."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.samplers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="+", choices=PARTS, metavar="PART", help=", ".join(PARTS))
    for part in parser.parse_args().parts:
        text = f"{PARTS[part]()}\n\n{caption('benchmarks.samplers', [part], PACKAGES)}"
        write_section(PAGE, f"samplers:{part}", text)
        print(text)


if __name__ == "__main__":
    main()
