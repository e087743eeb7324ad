"""SGNHT: Hamiltonian dynamics with a thermostat, for noisy gradients."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import Any, ClassVar, NamedTuple

from alphamf.errors import AlphaMFError
from alphamf.inference.draws import draw_gradient
from alphamf.inference.leaps import Leap, leap_many
from alphamf.inference.metric import Dense, Metric
from alphamf.inference.protocols import Need, Potential, Schedule, Target
from alphamf.inference.random import noise
from alphamf.inference.samplers.masses import Mass, UnitMass
from alphamf.inference.samplers.metropolis import check_leaps
from alphamf.inference.samplers.momentum import check_mirror_metric, drift
from alphamf.inference.schedule import step_size_at
from alphamf.tools.arrays import Array, dot, namespace


class SGNHTState(NamedTuple):
    """Position, number of steps, momentum, thermostat and the mass's state."""

    theta: Array
    step: int
    momentum: Array
    thermostat: Array  # xi, of shape (*chains, 1)
    mass: Any


@dataclass(frozen=True)
class SGNHT:
    r"""Stochastic gradient Nose-Hoover thermostat: the friction xi follows the kinetic energy.

    With velocities v = M^-1 p a leap is

    .. math:: p' &= p - h \nabla \tilde U(\theta) - h \xi v + \mathcal{N}(0,\, 2 h A), \\
       \theta' &= \theta + h v', \qquad
       \xi' = \xi + h \left( \frac{v'^\top v'}{\operatorname{tr} M^{-1}} - 1 \right).

    It leaves the posterior times N(0, M) times N(A, 1 / tr M^-1) for xi invariant, up to O(h).
    Gradient noise of covariance v I, known or not, only moves xi's mean to A + h v / 2; other noise
    is absorbed on the average over coordinates. Where h v / 2 is large, xi needs a long burn-in. A
    leap costs one gradient. The paper prints p'M^-1 p / D in the place of v'v / tr M^-1, which is
    right for M = m I.

    Attributes
    ----------
    step_size
        h, a number or a function of the step index.
    leaps
        Leaps per step.
    diffusion
        A.
    mass
        M.

    References
    ----------
    Ding et al., NIPS 2014, algorithm 2; Roychowdhury & Parthasarathy (2017), algorithm 2.

    Examples
    --------
    >>> SGNHT(0.05).needs  # run as in the example of `SGLD`
    ('bounded gradient',)
    """

    needs: ClassVar[tuple[Need, ...]] = ("bounded gradient",)

    step_size: Schedule = 0.03
    leaps: int = 10
    diffusion: float = 1.0
    mass: Mass = field(default_factory=UnitMass)

    def __post_init__(self) -> None:
        """Check the hyperparameters."""
        check_leaps(self.leaps)
        if not self.diffusion >= 0:
            raise AlphaMFError(f"diffusion must not be negative, not {self.diffusion}")

    def init(self, rng: Any, theta: Array) -> SGNHTState:
        """Return the state that starts at theta, of shape (*chains, D), with xi = A."""
        mass = self.mass.init(theta)
        p = self.mass.inverse(mass).inverse_root(noise(rng, theta))
        xi = namespace(theta).full((*theta.shape[:-1], 1), self.diffusion, theta.dtype)
        return SGNHTState(theta, 0, p, xi, mass)

    def step(self, rng: Any, state: SGNHTState, target: Target[Potential]) -> SGNHTState:
        """Make one step, with one gradient per leap."""
        theta, step, p, xi, mass = state
        h = step_size_at(self.step_size, step)
        if isinstance(self.mass, UnitMass):
            rule = Leap(h, 0.0, sqrt(2 * h * self.diffusion), h)
            moved = leap_many(rng, target, theta, rule, self.leaps, p, xi)
            if moved is not None:
                return SGNHTState(moved.theta, step + 1, moved.momentum, moved.thermostat, mass)
        inverse = check_mirror_metric(self.mass.inverse(mass), target)
        trace = _trace(inverse, theta)
        for _ in range(self.leaps):
            _, gradient = draw_gradient(target, rng, theta)
            kick = noise(rng, theta)
            kick *= sqrt(2 * h * self.diffusion)
            kick -= h * gradient
            p = p - h * xi * inverse.apply(p) + kick
            theta, p = drift(theta, p, h, inverse, target)
            v = inverse.apply(p)
            xi = xi + h * (dot(v, v) / trace - 1)
        learner: Any = self.mass
        if getattr(learner, "test", None) == "sgnht":
            mass = learner.update(rng, mass, theta, p, (gradient, xi))
        else:
            mass = learner.update(rng, mass, theta, p)
        return SGNHTState(theta, step + 1, p, xi, mass)


def _trace(metric: Metric, like: Array) -> Array:
    """Return tr G, shape (*chains, 1)."""
    g = metric.diagonal().g if isinstance(metric, Dense) else metric.g
    trace: Array = namespace(g).broadcast_to(g, like.shape).sum(-1, keepdims=True)
    return trace
