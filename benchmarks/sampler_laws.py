"""Tables and figures of `benchmarks.samplers`: HAMCMC's memory, and adaptive masses."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from alphamf.inference.chain import run
from alphamf.inference.diagnostics import ess
from alphamf.inference.records import Trace
from alphamf.inference.samplers.hamcmc import HAMCMC, NaiveQN
from alphamf.inference.samplers.hmc import HMC
from alphamf.inference.samplers.langevin import SGLD
from alphamf.inference.samplers.mass_em import MassEM
from alphamf.inference.samplers.masses import UnitMass
from alphamf.inference.samplers.sghmc import SGHMC
from alphamf.research.experiments.hamcmc.quartic import bias
from alphamf.tools.arrays import Array
from alphamf.tools.tables import markdown, with_error

FIGURES = Path(__file__).parents[1] / "docs" / "figures"


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
        rows.append(
            [name, *(with_error(100 * value, 100 * error, 2, "+") for value, error in found)]
        )
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
    """Return the table of adapted masses, and draw the inverse masses of HMC."""
    import matplotlib.pyplot as plt

    scales = np.geomspace(0.1, 10, 10)
    adapt, chains = 4000, 8
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
        learner = UnitMass() if source == "none" else MassEM(source=source, freeze=adapt)
        record = Trace(lambda theta, _: theta, burn_in=adapt)
        sampler = kind(mass=learner)
        *_, state = run(target, sampler, steps=2 * adapt, seed=0, chains=(chains,), record=record)
        inverse = np.broadcast_to(sampler.mass.inverse(state.mass).g, (chains, target.size))
        exponents = np.polyfit(np.log(scales**2), np.log(inverse.T), 1)[0]
        error = exponents.std(ddof=1) / np.sqrt(chains)
        draws = 1000 / (adapt * chains) * ess(record.values)
        heated = record.values[..., 0].var() / scales[0] ** 2
        rows.append(
            [
                name,
                source,
                with_error(exponents.mean(), error, 2, "+"),
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
    axes.set(xlabel="posterior variance of the coordinate", ylabel="adapted inverse mass of HMC")
    axes.legend()
    _save(figure, "mass.png")
    headings = ["sampler", "mass from", "exponent of the variance in M⁻¹ (ideal: 1)"]
    headings += ["ESS per 1000 steps, least", "most", "variance / posterior's, narrowest"]
    return markdown(headings, rows)


def _save(figure: Any, name: str) -> None:
    FIGURES.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURES / name, dpi=100)
