r"""Fractional Langevin dynamics: samplers that jump, driven by symmetric alpha-stable noise.

The noise L of index alpha, above 1 and at most 2, has independent coordinates with
:math:`E e^{i \omega L_t} = e^{-t |\omega|^\alpha}`; alpha = 2 is N(0, 2 t), as SGLD adds.
Below 2 its variance is infinite: it jumps, so that chains cross valleys and reach heavy tails in a
few steps. For an invariant law, FLA makes its drift from a Riesz derivative of negative order,

.. math:: D^{\alpha - 2}\{f\}, \quad \text{in Fourier space} \quad |\omega|^{\alpha - 2} \hat f.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import exp, gamma
from typing import Any, ClassVar, NamedTuple

import numpy as np

from alphamf.inference.draws import draw_gradient
from alphamf.inference.protocols import Need, Schedule, Target, ValuePotential
from alphamf.inference.random import stable_noise
from alphamf.inference.ranges import NOT_NEGATIVE, POSITIVE, Range, at_least, check_ranges
from alphamf.inference.samplers.langevin import SGLDState
from alphamf.inference.samplers.reflect import refuse_wall
from alphamf.inference.schedule import step_size_at
from alphamf.tools.arrays import Array, namespace

INDEX = Range("must be above 1 and at most 2", lambda x: 1 < x <= 2)

EXTENT = 20.0
"""Absolute momentum from which on the velocity is computed by an asymptotic series."""

FARTHEST = 1e6
"""Largest absolute momentum in the table of velocities; larger ones get its velocity."""

POINTS = 8192
"""Number of points in the table of velocities, evenly spaced in asinh of the momentum; linear
interpolation between them is accurate to 1e-6."""


@dataclass(frozen=True)
class FLA:
    r"""Fractional Langevin algorithm, of first order.

    .. math:: \theta' = \theta + h\, b(\theta) + h^{1/\alpha} s, \qquad
       b_i = \frac{D^{\alpha - 2}_{\theta_i} \{\partial_i \varphi\}}{\varphi}, \qquad
       \varphi = e^{-U},

    with s of index alpha and scale 1. It leaves the posterior invariant up to O(h) if b grows at
    most linearly: with posterior tails no lighter than those of the stable law of index alpha.

    b is the potential's own ``fractional_drift(theta, alpha)``, shape (*chains, D), if it has one.
    If not, it is a sum of 2 K + 1 gradients and values in each coordinate,

    .. math:: b_i = -d^{2 - \alpha} \sum_{k=-K}^{K} g_k\, e^{U(\theta) - U(\theta - k d e_i)}\,
       \partial_i U(\theta - k d e_i), \qquad
       g_k = \frac{(-1)^k\, \Gamma(\alpha - 1)}
       {\Gamma(\frac\alpha2 - k)\, \Gamma(\frac\alpha2 + k)},

    which is near b where the window of K d on both sides has nearly all mass. K = 0, the paper's
    practice, costs one gradient and leaves another law, on a Gaussian a stable law of index alpha.

    Attributes
    ----------
    step_size
        h, a number or a function of the step index.
    alpha
        Index of the noise, above 1 and at most 2.
    terms, spacing
        K and d; with K = 0, d has no effect.

    References
    ----------
    Simsekli, "Fractional Langevin Monte Carlo", ICML 2017, theorem 1 and eqs. 7 to 10; Ortigueira,
    Int. J. Math. Math. Sci. (2006), for the differences.

    Examples
    --------
    >>> from alphamf.inference.chain import run
    >>> class Cauchy:
    ...     # The Cauchy law, whose quartiles are -1 and 1: target and potential in one.
    ...     size, positive, latents = 1, False, {}
    ...     def draw(self, rng, theta):
    ...         return self
    ...     def fractional_drift(self, theta, alpha):
    ...         angle = np.sin(alpha * np.arctan(theta))
    ...         return -gamma(alpha) * angle * (1 + theta**2) ** (1 - alpha / 2)
    >>> start = np.zeros((4000, 1))
    >>> *_, last = run(Cauchy(), FLA(0.02, alpha=1.5), steps=1000, seed=0, start=start)
    >>> np.median(np.abs(last.theta)).round(1)
    np.float64(1.0)
    """

    step_size: Schedule = 1e-3
    alpha: float = 1.7
    terms: int = 0
    spacing: float = 1.0

    @property
    def needs(self) -> tuple[Need, ...]:
        plain: tuple[Need, ...] = ("bounded gradient", "no wall")
        return (*plain, "value") if self.terms else plain

    def __post_init__(self) -> None:
        check_ranges(self, alpha=INDEX, terms=NOT_NEGATIVE, spacing=POSITIVE)

    def init(self, rng: Any, theta: Array) -> SGLDState:
        return SGLDState(theta, 0)

    def step(self, rng: Any, state: SGLDState, target: Target[Any]) -> SGLDState:
        refuse_wall(self, target)
        theta, step = state
        h = step_size_at(self.step_size, step)
        potential = target.draw(rng, theta)
        if hasattr(potential, "fractional_drift"):
            drift = potential.fractional_drift(theta, self.alpha)
        elif self.terms:
            drift = self._differences(potential, theta)
        else:
            drift = potential.grad(theta) * -float(self.weights()[0])
        new = stable_noise(rng, self.alpha, theta)
        new *= h ** (1 / self.alpha)
        new += theta
        new += h * drift
        return SGLDState(new, step + 1)

    def weights(self) -> Array:
        """Return g_k for k from -K to K, shape (2 K + 1,)."""
        half = self.alpha / 2
        found = [gamma(self.alpha - 1) / gamma(half) ** 2]
        for k in range(self.terms):
            found.append(found[-1] * (k + 1 - half) / (k + half))
        return np.array([*found[:0:-1], *found])

    def _differences(self, potential: ValuePotential, theta: Array) -> Array:
        xp, size = namespace(theta), theta.shape[-1]
        offsets: Any = self.spacing * xp.arange(-self.terms, self.terms + 1, dtype=theta.dtype)
        weights = xp.asarray(self.weights().astype(theta.dtype))
        drift: Array = xp.empty_like(theta)
        here = potential.value(theta)
        for i in range(size):
            total: Any = xp.zeros_like(here)
            for offset, weight in zip(offsets, weights, strict=True):
                there = theta.copy()
                there[..., i] -= offset
                ratio = xp.exp(here - potential.value(there))
                total = total + weight * ratio * potential.grad(there)[..., i]
            drift[..., i] = total
        drift *= -(self.spacing ** (2 - self.alpha))
        return drift


class FULDState(NamedTuple):
    """Position, number of steps and momentum."""

    theta: Array  # Position, shape (*chains, D)
    step: int  # Number of steps made
    momentum: Array  # v, shape (*chains, D)


@dataclass(frozen=True)
class FULD:
    r"""Fractional underdamped Langevin dynamics: momenta with a stable law.

    .. math:: dv = -\gamma v\, dt - \nabla \tilde U\, dt + \gamma^{1/\alpha} dL, \qquad
       d\theta = G(v)\, dt, \qquad G = -\frac{\psi'}{\psi}, \qquad
       \hat\psi(\omega) = e^{-|\omega|^\alpha / \alpha}.

    The dynamics leave the posterior times the stable law psi for each coordinate of v invariant,
    for posteriors with any tails. For alpha < 2, G is bounded and falls like (alpha + 1) / v, so a
    momentum that has jumped hardly moves theta. A leap is half a drift, half a kick, the friction's
    exact move, half a kick and half a drift, with one gradient; its bias is O(h^2).

    Attributes
    ----------
    step_size
        h, a number or a function of the step index.
    alpha
        Index of the noise, above 1 and at most 2.
    leaps
        Leaps per step.
    friction
        gamma, the rate at which momenta decay.

    References
    ----------
    Simsekli, Zhu, Teh & Gurbuzbalaban, "Fractional underdamped Langevin dynamics", ICML 2020,
    theorem 1 with the stable kinetic energy of section 3.

    Examples
    --------
    >>> FULD(0.2, leaps=5).needs  # run as in the example of `SGLD`
    ('bounded gradient', 'no wall')
    """

    needs: ClassVar[tuple[Need, ...]] = ("bounded gradient", "no wall")

    step_size: Schedule = 0.03
    alpha: float = 1.7
    leaps: int = 10
    friction: float = 1.0

    def __post_init__(self) -> None:
        check_ranges(self, alpha=INDEX, leaps=at_least(1), friction=NOT_NEGATIVE)

    def init(self, rng: Any, theta: Array) -> FULDState:
        momentum = stable_noise(rng, self.alpha, theta)
        momentum *= self.alpha ** (-1 / self.alpha)
        return FULDState(theta, 0, momentum)

    def step(self, rng: Any, state: FULDState, target: Target[Any]) -> FULDState:
        refuse_wall(self, target)
        theta, step, v = state
        h = step_size_at(self.step_size, step)
        keep = exp(-self.friction * h)
        spread = ((1 - keep**self.alpha) / self.alpha) ** (1 / self.alpha)
        for _ in range(self.leaps):
            middle = theta + (h / 2) * velocity(v, self.alpha)
            kick = draw_gradient(target, rng, middle)[1] * (-h / 2)
            v = keep * (v + kick)
            v += spread * stable_noise(rng, self.alpha, theta)
            v += kick
            theta = middle + (h / 2) * velocity(v, self.alpha)
        return FULDState(theta, step + 1, v)


def velocity(v: Array, alpha: float) -> Array:
    r"""Return G(v) of `FULD`, the slope of the kinetic energy -log psi; shape as v.

    Examples
    --------
    >>> velocity(np.array([-3.0, 0.0, 3.0]), 2.0)
    array([-3.,  0.,  3.])
    >>> velocity(np.array([0.5, 3.0, 300.0]), 1.5).round(3)
    array([0.609, 0.983, 0.008])
    """
    if alpha == 2:
        return v.copy()
    xp = namespace(v)
    grid, values = (xp.asarray(each) for each in _velocities(alpha))
    found: Array = xp.interp(xp.arcsinh(xp.abs(v)), grid, values)
    return xp.copysign(found.astype(v.dtype), v)


@lru_cache(maxsize=8)
def _velocities(alpha: float) -> tuple[Array, Array]:
    """Return `POINTS` evenly spaced numbers asinh(v), and G(v) of `FULD` at each."""
    grid = np.linspace(0, np.arcsinh(FARTHEST), POINTS)
    v = np.sinh(grid)
    near = v < EXTENT
    found = np.empty_like(v)
    found[near] = _by_quadrature(v[near], alpha)
    found[~near] = _by_series(v[~near], alpha)
    return grid, found


def _by_quadrature(v: Array, alpha: float) -> Array:
    r"""Return G from the Fourier integrals of psi and psi'; omega = u^4 smooths the cusp at 0."""
    nodes, weights = np.polynomial.legendre.leggauss(20)
    most, panels = (40 * alpha) ** (1 / alpha / 4), 60
    u = (most / panels * (np.arange(panels)[:, None] + (nodes + 1) / 2)).ravel()
    weights = np.tile(weights, panels)
    omega = u**4
    weights = weights * np.exp(-(omega**alpha) / alpha) * u**3
    phase = np.multiply.outer(v, omega)
    return np.asarray((np.sin(phase) @ (weights * omega)) / (np.cos(phase) @ weights))


def _by_series(v: Array, alpha: float) -> Array:
    """Return G from the asymptotic series of psi and psi' in powers of v^-alpha."""
    density, slope, factorial = np.zeros_like(v), np.zeros_like(v), 1.0
    for n in range(1, 7):
        factorial *= -n
        power = alpha * n + 1
        term = gamma(power) / factorial * np.sin(np.pi * n * alpha / 2) * alpha**-n * v**-power
        density += term
        slope += power * term / v
    return np.asarray(slope / density)
