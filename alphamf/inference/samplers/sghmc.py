"""SGHMC and SGNHT: Hamiltonian dynamics with friction or a thermostat, for noisy gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

from alphamf.errors import AlphaMFError
from alphamf.inference.draws import draw_gradient
from alphamf.inference.leaps import Leap, leap_many
from alphamf.inference.metric import Dense, Diagonal, Metric
from alphamf.inference.protocols import Need, Potential, Schedule, Target
from alphamf.inference.random import noise
from alphamf.inference.ranges import NOT_NEGATIVE, at_least, check_ranges
from alphamf.inference.samplers.masses import Mass, UnitMass
from alphamf.inference.samplers.reflect import check_mirror_metric, drift
from alphamf.inference.schedule import square_root, step_size_at
from alphamf.tools.arguments import one_of
from alphamf.tools.arrays import Array, dot, namespace


class SGHMCState(NamedTuple):
    """Position, number of steps, momentum of theta's shape, and the mass's state."""

    theta: Array  # Position, shape (*chains, D)
    step: int  # Number of steps made
    momentum: Array  # p, shape (*chains, D)
    mass: Any  # The mass's state


@dataclass(frozen=True)
class SGHMC:
    r"""Stochastic gradient Hamiltonian Monte Carlo, with friction C.

    For the integrator "euler" a leap is

    .. math:: p' = p - h \nabla \tilde U(\theta) - h C M^{-1} p
       + \mathcal{N}(0,\, 2 h (C - \hat B)), \qquad \theta' = \theta + h M^{-1} p',

    for "splitting" it is

    .. math:: \theta_{1/2} = \theta + \tfrac h2 M^{-1} p, \quad
       p' = R \left[ R p - h \nabla \tilde U(\theta_{1/2})
       + \mathcal{N}(0,\, 2 h (C - \hat B)) \right], \quad
       \theta' = \theta_{1/2} + \tfrac h2 M^{-1} p', \quad R = e^{-h C M^{-1} / 2},

    and for "baoab", whose friction is exact,

    .. math:: p_{1/2} = p - h \nabla \tilde U(\theta), \quad
       \theta_{1/2} = \theta + \tfrac h2 M^{-1} p_{1/2}, \quad
       p' = R^2 p_{1/2} + \mathcal{N}(0,\, (1 - R^4) M), \quad
       \theta' = \theta_{1/2} + \tfrac h2 M^{-1} p'.

    With exact gradients and B = 0 the posterior times N(0, M) is invariant up to O(h) for "euler"
    and O(h^2) for "splitting"; theta alone up to O(h^2) for all, and on a Gaussian exactly for
    "baoab". Gradient noise, if normal and of constant covariance v I, heats the chain; with B = h v
    / 2 the law is that of exact gradients again, at any h. A leap costs one gradient.

    Attributes
    ----------
    step_size, leaps
        h, a number or a function of the step index, and leaps per step.
    friction
        C; momenta are forgotten in a time of M / C.
    noise_estimate
        B, from 0 to C: half the variance of the gradient noise times h; must be 0 for "baoab".
    integrator
        "euler", "splitting" or "baoab".
    mass
        M, the mass matrix, as in `HMC`.

    References
    ----------
    Chen, Fox & Guestrin, ICML 2014, eq. 13, in the order of Roychowdhury & Parthasarathy (2017),
    algorithm 2. Chen, Ding & Carin, NIPS 2015, for "splitting". Leimkuhler & Matthews, Applied
    Mathematics Research eXpress (2013), for BAOAB, here with both half kicks in one.

    Examples
    --------
    >>> SGHMC(0.1, leaps=5, integrator="splitting").needs  # run as in the example of `SGLD`
    ('bounded gradient',)
    """

    needs: ClassVar[tuple[Need, ...]] = ("bounded gradient",)

    step_size: Schedule = 0.03
    leaps: int = 10
    friction: float = 1.0
    noise_estimate: float = 0.0
    integrator: Literal["euler", "splitting", "baoab"] = "euler"
    mass: Mass = field(default_factory=UnitMass)

    def __post_init__(self) -> None:
        check_ranges(self, leaps=at_least(1), friction=NOT_NEGATIVE)
        if not 0 <= self.noise_estimate <= self.friction:
            raise AlphaMFError(
                f"noise_estimate must be from 0 to the friction, not {self.noise_estimate}"
            )
        one_of("integrator", self.integrator, ("euler", "splitting", "baoab"))
        if self.integrator == "baoab" and self.noise_estimate:
            raise AlphaMFError(
                f"noise_estimate must be 0 for the integrator baoab, not {self.noise_estimate}"
            )

    def init(self, rng: Any, theta: Array) -> SGHMCState:
        mass = self.mass.init(theta)
        return SGHMCState(theta, 0, self.mass.inverse(mass).inverse_root(noise(rng, theta)), mass)

    def step(self, rng: Any, state: SGHMCState, target: Target[Potential]) -> SGHMCState:
        theta, step, p, mass = state
        h = step_size_at(self.step_size, step)
        if self.integrator == "euler" and isinstance(self.mass, UnitMass):
            rule = Leap(h, 1 - h * self.friction, self._spread(h), h)
            moved = leap_many(rng, target, theta, rule, self.leaps, p)
            if moved is not None:
                return SGHMCState(moved.theta, step + 1, moved.momentum, mass)
        inverse = check_mirror_metric(self.mass.inverse(mass), target)
        leap = {"euler": self._euler, "splitting": self._splitting, "baoab": self._baoab}[
            self.integrator
        ](h, inverse)
        for _ in range(self.leaps):
            theta, p = leap(rng, theta, p, target)
        mass = self.mass.update(rng, mass, theta, p)
        return SGHMCState(theta, step + 1, p, mass)

    def _kick(self, rng: Any, theta: Array, h: float, target: Target[Potential]) -> Array:
        """Return the sum of the gradient's kick and the noise, shape (*chains, D)."""
        _, gradient = draw_gradient(target, rng, theta)
        kick = noise(rng, theta)
        kick *= self._spread(h)
        kick -= h * gradient
        return kick

    def _spread(self, h: float) -> float:
        """Return the standard deviation of a leap's noise for "euler" and "splitting"."""
        return square_root(2 * h * (self.friction - self.noise_estimate))

    def _euler(self, h: float, inverse: Metric) -> _Leap:
        def leap(rng: Any, theta: Array, p: Array, target: Target[Any]) -> tuple[Array, Array]:
            kick = self._kick(rng, theta, h, target)
            p = p - (h * self.friction) * inverse.apply(p) + kick
            return drift(theta, p, h, inverse, target)

        return leap

    def _splitting(self, h: float, inverse: Metric) -> _Leap:
        decay = _mapped(inverse, lambda xp, g: xp.exp(-0.5 * h * self.friction * g))

        def leap(rng: Any, theta: Array, p: Array, target: Target[Any]) -> tuple[Array, Array]:
            theta, p = drift(theta, p, 0.5 * h, inverse, target)
            p = decay.apply(decay.apply(p) + self._kick(rng, theta, h, target))
            return drift(theta, p, 0.5 * h, inverse, target)

        return leap

    def _baoab(self, h: float, inverse: Metric) -> _Leap:
        decay = _mapped(inverse, lambda xp, g: xp.exp(-h * self.friction * g))
        spread = _mapped(inverse, lambda xp, g: xp.sqrt(-xp.expm1(-2 * h * self.friction * g)))

        def leap(rng: Any, theta: Array, p: Array, target: Target[Any]) -> tuple[Array, Array]:
            _, gradient = draw_gradient(target, rng, theta)
            p = p - h * gradient
            theta, p = drift(theta, p, 0.5 * h, inverse, target)
            p = decay.apply(p) + spread.apply(inverse.inverse_root(noise(rng, theta)))
            return drift(theta, p, 0.5 * h, inverse, target)

        return leap


_Leap = Callable[[Any, Array, Array, Target[Any]], tuple[Array, Array]]


def _mapped(metric: Metric, function: Callable[[Any, Array], Array]) -> Metric:
    """Return a metric with the eigenvectors of `metric`, and `function` of its eigenvalues."""
    xp = namespace(metric.g)
    if isinstance(metric, Diagonal):
        return Diagonal(function(xp, metric.g))
    values, vectors = xp.linalg.eigh(metric.g)
    scaled = vectors * function(xp, values)[..., None, :]
    return Dense(xp.matmul(scaled, xp.swapaxes(vectors, -1, -2)))


class SGNHTState(NamedTuple):
    """Position, number of steps, momentum, thermostat and the mass's state."""

    theta: Array
    step: int
    momentum: Array
    thermostat: Array  # xi, or q of `SGNPHMC`, shape (*chains, 1)
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
    leap costs one gradient. The paper prints p'M^-1 p / D instead of v'v / tr M^-1, which is
    correct for M = m I.

    Attributes
    ----------
    step_size, leaps
        h, a number or a function of the step index, and leaps per step.
    diffusion
        A, half the variance of the added noise per unit of time.
    mass
        M, the mass matrix, as in `HMC`.

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
        check_ranges(self, leaps=at_least(1), diffusion=NOT_NEGATIVE)

    def init(self, rng: Any, theta: Array) -> SGNHTState:
        mass = self.mass.init(theta)
        p = self.mass.inverse(mass).inverse_root(noise(rng, theta))
        xi = namespace(theta).full((*theta.shape[:-1], 1), self.diffusion, theta.dtype)
        return SGNHTState(theta, 0, p, xi, mass)

    def step(self, rng: Any, state: SGNHTState, target: Target[Potential]) -> SGNHTState:
        theta, step, p, xi, mass = state
        h = step_size_at(self.step_size, step)
        if isinstance(self.mass, UnitMass):
            rule = Leap(h, 0.0, square_root(2 * h * self.diffusion), h)
            moved = leap_many(rng, target, theta, rule, self.leaps, p, xi)
            if moved is not None:
                return SGNHTState(moved.theta, step + 1, moved.momentum, moved.thermostat, mass)
        inverse = check_mirror_metric(self.mass.inverse(mass), target)
        trace = _trace(inverse, theta)
        for _ in range(self.leaps):
            _, gradient = draw_gradient(target, rng, theta)
            kick = noise(rng, theta)
            kick *= square_root(2 * h * self.diffusion)
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
    """Return the trace of a metric, shape (*chains, 1), for `like` of shape (*chains, D)."""
    g = metric.diagonal().g if isinstance(metric, Dense) else metric.g
    return namespace(g).broadcast_to(g, like.shape).sum(-1, keepdims=True)
