"""The samplers of the Monte Carlo EM paper by name: plain, and with an adaptive mass."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import exp
from typing import Any

import numpy as np

from alphamf.inference.metric import Dense, Diagonal, Metric
from alphamf.inference.samplers.hmc import HMC, RHMC
from alphamf.inference.samplers.masses import MassEM, MassEMState
from alphamf.inference.samplers.sghmc import SGHMC, SGNHT
from alphamf.inference.samplers.sgnphmc import SGNPHMC, SGRNPHMC
from alphamf.tools.arrays import Array

KINDS: dict[str, Callable[..., Any]] = {
    "HMC": HMC,
    "RHMC": RHMC,
    "SGHMC": SGHMC,
    "SG-NPHMC": SGNPHMC,
    "SGR-NPHMC": SGRNPHMC,
    "SGNHT": SGNHT,
}

ADAPTIVE = ("HMC", "SGHMC", "SG-NPHMC", "SGNHT")
"""Samplers with an adaptive mass in the paper; the others have a metric."""

EM, BOTH, POSITIONS = "-EM", "-EM (Q)", " (positions)"
"""Endings of a method's name, by what is adapted: the mass to momenta, as in the paper; the mass
and the thermostat's mass Q to momenta; or the mass to positions."""

METHODS = tuple(
    name + ending
    for name in KINDS
    for ending in (("", EM, BOTH, POSITIONS) if name in ADAPTIVE else ("",))
    if ending != BOTH or name == "SG-NPHMC"
)
"""The rows of the paper's tables 1 to 3 in order, with a third row (mass adapted to positions) for
each adaptive sampler, and a row for SG-NPHMC-EM that adapts Q as well."""


@dataclass(frozen=True)
class LearntMass:
    """A base for masses that `learner` adapts; a subclass defines `inverse`, which returns M^-1."""

    learner: MassEM

    @property
    def test(self) -> str:
        """Name of the learner's test function, as in `MassEM`."""
        return self.learner.test

    def init(self, theta: Array) -> MassEMState:
        """Return the state that starts at M = I."""
        return self.learner.init(theta)

    def update(self, *after: Any) -> MassEMState:
        """Return the mass's state after a step; the parameters are those of `MassEM.update`."""
        return self.learner.update(*after)


@dataclass(frozen=True)
class PositionMass(LearntMass):
    r"""A mass adapted to positions, scaled to :math:`\det M = 1`.

    The covariance of the positions has their units, and would change the meaning of the step size
    during adaptation. The scaling keeps only its shape, so that the step size of M = I applies.
    """

    # Approximate variance of the positions. The learner adds samples that agree with the present
    # M^-1, which begins as `variance` times I: with 1 they would outweigh those of a posterior of
    # width 0.01.
    variance: float = 1.0

    def init(self, theta: Array) -> MassEMState:
        """Return the state that starts at M^-1 = `variance` I, which `inverse` scales to I."""
        state = super().init(theta)
        return state._replace(inverse=state.inverse * self.variance)

    def inverse(self, state: MassEMState) -> Metric:
        """Return M^-1, scaled to determinant one."""
        metric = self.learner.inverse(state)
        scale = np.exp(metric.log_det() / metric.g.shape[-1])[..., None]
        return (
            Dense(metric.g / scale[..., None]) if self.learner.dense else Diagonal(metric.g / scale)
        )


def base_method(method: str) -> str:
    """Return a method's name without its ending: that of the sampler with a fixed mass."""
    for ending in (BOTH, EM, POSITIONS):
        method = method.removesuffix(ending)
    return method


def sampler(
    method: str,
    settings: dict[str, Any],
    *,
    samples: int,
    freeze: int,
    dense: bool,
    growth: float = 10.0,
    variance: float = 1.0,
) -> Any:
    """Build a sampler of `METHODS`; parameters as in `MassEM`, `variance` as in `PositionMass`."""
    settings = dict(settings)
    learner = MassEM(samples=samples, growth=growth, dense=dense, freeze=freeze)
    if method.endswith(EM):
        of_sgnht = base_method(method) == "SGNHT"
        settings["mass"] = replace(learner, test="sgnht") if of_sgnht else learner
    elif method.endswith(BOTH):
        settings |= {"mass": learner, "bath": replace(learner, dense=False)}
    elif method.endswith(POSITIONS):
        settings["mass"] = PositionMass(replace(learner, source="positions"), variance)
    return KINDS[base_method(method)](**settings)


def condition(sampler: Any, state: Any) -> float | None:
    """Return the condition number of an adapted mass, geometric mean over chains; None if fixed."""
    mass = getattr(state, "mass", None)
    mass = getattr(mass, "mass", mass)  # If Q is adapted, too, the state holds both masses
    if not isinstance(mass, MassEMState):
        return None
    inverse = sampler.mass.inverse(mass)
    values = np.linalg.eigvalsh(inverse.g) if isinstance(inverse, Dense) else inverse.g
    return exp(float(np.log(values.max(-1) / values.min(-1)).mean()))


def ratio(own: Sequence[float] | None, plain: Sequence[float] | None) -> str | None:
    """Return the time of a method over its plain form's, as text; None if either is missing."""
    return f"{np.mean(own) / np.mean(plain):.2f}" if own and plain else None
