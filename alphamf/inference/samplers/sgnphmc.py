r"""Nose-Poincare samplers: SG-NPHMC with a mass matrix, SGR-NPHMC with a Riemannian metric.

With a thermostat s, of momentum q and mass Q, and :math:`E(\theta) = U + \frac12 \log |G|`,

.. math:: H = s \left[ E(\theta) + \tfrac12 r^\top G^{-1} r + \frac{q^2}{2 Q} + D \log s - H_0
   \right], \qquad r = p / s,

is the Hamiltonian in D dimensions. Only on the surface H = 0 does r, the physical momentum, follow
Nose-Hoover dynamics, which leave the posterior times N(0, G) for r times N(0, Q) for q invariant. A
leap draws a minibatch and starts at s = 1, with H_0 such that H = 0. Exact friction moves follow,

.. math:: r' = e^{-B h} r + \mathcal{N}(0,\, (1 - e^{-2 B h})\, G), \qquad
   q' = e^{-A h} q + \mathcal{N}(0,\, (1 - e^{-2 A h})\, Q).

Gradient noise of covariance V is a diffusion h V / 2 of r. If V = v G, the thermostat absorbs it:
the mean of q / Q becomes h v / 2. Friction A on q reduces this mean, so that a part of the heat
remains: the mean of r'G^-1 r / D - 1 is A / D times that of q.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from math import exp, expm1, sqrt
from typing import Any, ClassVar, NamedTuple

from alphamf.inference.draws import metric_of
from alphamf.inference.metric import Metric
from alphamf.inference.protocols import Need, RiemannianPotential, Schedule, Target, ValuePotential
from alphamf.inference.random import noise
from alphamf.inference.ranges import FINITE, NOT_NEGATIVE, at_least, check_ranges
from alphamf.inference.samplers.masses import Mass, UnitMass
from alphamf.inference.samplers.reflect import check_mirror_metric, reflect
from alphamf.inference.samplers.sghmc import SGNHTState
from alphamf.inference.schedule import step_size_at
from alphamf.tools.arrays import Array, dot, namespace


class Constant(NamedTuple):
    """A constant metric M, given by its inverse."""

    inverse: Metric

    def solve(self, p: Array) -> Array:
        return self.inverse.apply(p)

    def root(self, z: Array) -> Array:
        return self.inverse.inverse_root(z)

    def log_det(self) -> float:
        """Return 0, because a constant term of the energy cancels."""
        return 0.0

    def force(self, p: Array) -> float:
        """Return 0, the gradient in theta of the kinetic energy."""
        return 0.0


class Point(NamedTuple):
    """A point of the extended phase space; p is conjugate to theta, p / s the physical momentum."""

    # theta, p: shape (*chains, D).
    theta: Array
    p: Array
    # s, q: the thermostat and its momentum, shape (*chains, 1).
    s: Array
    q: Array


class NosePoincare(NamedTuple):
    """The Hamiltonian H of this file, for one potential, and its generalised leapfrog."""

    target: Target[Any]  # Only its ``positive`` is used
    potential: Any  # U
    metric: Callable[[Array], Metric | Constant]  # Function that maps theta to G
    inertia: float  # Q, a number, or an array of shape (*chains, 1)
    fixed_points: int  # Iterations for each implicit equation

    def energy(self, theta: Array, metric: Metric | Constant) -> Array:
        """Return E, shape (*chains, 1)."""
        return (self.potential.value(theta) + 0.5 * metric.log_det())[..., None]

    def leap(
        self, h: float, point: Point, level: Array | None = None
    ) -> tuple[Point, Metric | Constant]:
        """Return the point after a leap of size h, and the metric there.

        `level`: H_0 - E at `point`; None: such that H = 0. The half steps of p and theta are
        implicit where G depends on theta, and solved by fixed-point iterations; that of q is a
        quadratic equation, whose root near q is used. The leap multiplies s by a factor clipped to
        [1/3, 3], which has an effect if |q| > Q / h in the middle of the leap.
        """
        theta, p, s, q = point
        xp = namespace(theta)
        metric = self.metric(theta)
        energy = self.energy(theta, metric)
        bath = theta.shape[-1] * (1 + xp.log(s))
        if level is None:
            level = _kinetic(metric, p / s) + q * q / (2 * self.inertia) + bath - theta.shape[-1]
        push = 0.5 * h
        gradient = self.potential.grad(theta)
        middle = p
        for _ in range(self.fixed_points):
            middle = p - push * s * (gradient + metric.force(middle / s))
        # With x = h q_half / (2 Q): x^2 + 2 x = u and s' / s = (1 + x) / (1 - x).
        u = q + push * (_kinetic(metric, middle / s) + level - bath)
        u *= h / self.inertia
        x = xp.clip(u, -0.75, 1.25)
        x /= 1 + xp.sqrt(1 + x)
        scale = s * (1 + x) / (1 - x)
        half = x * (2 * self.inertia / h)
        velocity = metric.solve(middle) / s
        for _ in range(self.fixed_points):
            new = theta + push * (velocity + metric.solve(middle) / scale)
            turned = middle.copy()
            reflect(new, self.target, turned)
            metric = self.metric(new)
        middle = turned
        bath = theta.shape[-1] * (1 + xp.log(scale))
        level = level - (self.energy(new, metric) - energy)
        last = half + push * (
            _kinetic(metric, middle / scale) + level - bath - half * half / (2 * self.inertia)
        )
        gradient = self.potential.grad(new)
        p = middle - push * scale * (gradient + metric.force(middle / scale))
        return Point(new, p, scale, last), metric


def _kinetic(metric: Metric | Constant, r: Array) -> Array:
    """Return r'G^-1 r / 2, shape (*chains, 1)."""
    return 0.5 * dot(r, metric.solve(r))


RANGES = {
    "leaps": at_least(1),
    "friction": NOT_NEGATIVE,
    "thermostat_friction": NOT_NEGATIVE,
    "inertia": FINITE,
}


class BothMasses(NamedTuple):
    """States of the momentum's mass M and of the thermostat's mass Q."""

    mass: Any
    bath: Any


@dataclass(frozen=True)
class SGNPHMC:
    """Stochastic gradient Nose-Poincare Hamiltonian Monte Carlo with a mass M independent of theta.

    It leaves the posterior times N(0, M) for the momentum r times N(0, Q) for q invariant up to
    O(h^2). A leap costs two gradients and two values. A positive target needs a diagonal M.

    Attributes
    ----------
    step_size, leaps
        h, a number or a function of the step index, and leaps per step.
    friction
        B, the friction of r.
    thermostat_friction
        A, the friction of q; with 0, all gradient noise is absorbed.
    inertia
        Q / D without `bath`; its root is the time in which the thermostat follows kinetic energy.
    mass
        M, the mass matrix, as in `HMC`.
    bath
        A mass in one dimension; Q is `inertia` times D times this mass. None: the mass is 1.
        With a `MassEM` here and as `mass`, this is SG-NPHMC-EM as the paper has it.

    References
    ----------
    Roychowdhury & Parthasarathy, NIPS 2017, section 3.4; Bond, Leimkuhler & Laird, J. Comput. Phys.
    151 (1999), for the Hamiltonian and its leapfrog.

    Examples
    --------
    >>> SGNPHMC(0.1, leaps=5).needs  # run as in the example of `SGLD`
    ('bounded gradient', 'value')
    """

    needs: ClassVar[tuple[Need, ...]] = ("bounded gradient", "value")

    step_size: Schedule = 0.03
    leaps: int = 10
    friction: float = 1.0
    thermostat_friction: float = 0.0
    inertia: float = 1.0
    mass: Mass = field(default_factory=UnitMass)
    bath: Mass | None = None

    def __post_init__(self) -> None:
        check_ranges(self, **RANGES)

    def init(self, rng: Any, theta: Array) -> SGNHTState:
        mass: Any = self.mass.init(theta)
        r = self.mass.inverse(mass).inverse_root(noise(rng, theta))
        if self.bath is not None:
            mass = BothMasses(mass, self.bath.init(_rest(theta)))
        return SGNHTState(theta, 0, r, _rest(theta), mass)

    def step(self, rng: Any, state: SGNHTState, target: Target[ValuePotential]) -> SGNHTState:
        mass, bath = state.mass, None
        unit = inertia = self.inertia * state.theta.shape[-1]
        if self.bath is not None:
            mass, bath = state.mass
            one = namespace(state.theta).ones_like(state.thermostat)
            inertia = unit / self.bath.inverse(bath).apply(one)
        constant = Constant(check_mirror_metric(self.mass.inverse(mass), target))
        theta, r, q = _leaps(rng, self, state, target, inertia, 1, lambda potential, at: constant)
        mass = self.mass.update(rng, mass, theta, r)
        if self.bath is not None:
            mass = BothMasses(mass, self.bath.update(rng, bath, q, q * unit**-0.5))
        return SGNHTState(theta, state.step + 1, r, q, mass)


class SGRNPHMCState(NamedTuple):
    """Position, number of steps, momentum r and the thermostat's momentum q."""

    theta: Array  # Position, shape (*chains, D)
    step: int  # Number of steps made
    momentum: Array  # r, shape (*chains, D)
    thermostat: Array  # q, shape (*chains, 1)


@dataclass(frozen=True)
class SGRNPHMC:
    """Stochastic gradient Riemannian Nose-Poincare HMC: `SGNPHMC` with the target's G(theta).

    It leaves the posterior times N(0, G) times N(0, Q) invariant, up to O(h^2) with two fixed-point
    iterations or more, and O(h) with one. Where G is the Fisher information, the thermostat absorbs
    nearly all gradient noise. A leap costs two gradients, two values and `fixed_points` + 1
    metrics. On a positive target G must be diagonal.

    Attributes
    ----------
    step_size, leaps, friction, thermostat_friction, inertia
        As in `SGNPHMC`.
    fixed_points
        Iterations for each of the two implicit half steps.

    References
    ----------
    Roychowdhury, Kulis & Parthasarathy, ICML 2016.

    Examples
    --------
    >>> SGRNPHMC(0.1, leaps=5).needs  # run as in the example of `SGLD`
    ('bounded gradient', 'value', 'metric')
    """

    needs: ClassVar[tuple[Need, ...]] = ("bounded gradient", "value", "metric")

    step_size: Schedule = 0.3
    leaps: int = 10
    fixed_points: int = 2
    friction: float = 1.0
    thermostat_friction: float = 0.0
    inertia: float = 1.0

    def __post_init__(self) -> None:
        check_ranges(self, **RANGES, fixed_points=at_least(1))

    def init(self, rng: Any, theta: Array) -> SGRNPHMCState:
        # The momentum is drawn in the first step, where the metric is known.
        return SGRNPHMCState(theta, 0, namespace(theta).zeros_like(theta), _rest(theta))

    def step(
        self, rng: Any, state: SGRNPHMCState, target: Target[RiemannianPotential]
    ) -> SGRNPHMCState:
        def metric(potential: RiemannianPotential, theta: Array) -> Metric:
            return check_mirror_metric(metric_of(potential, theta), target)

        if state.step == 0:
            first = metric(target.draw(rng, state.theta), state.theta)
            state = state._replace(momentum=first.root(noise(rng, state.theta)))
        inertia = self.inertia * state.theta.shape[-1]
        theta, r, q = _leaps(rng, self, state, target, inertia, self.fixed_points, metric)
        return SGRNPHMCState(theta, state.step + 1, r, q)


def _rest(theta: Array) -> Array:
    return namespace(theta).zeros((*theta.shape[:-1], 1), theta.dtype)


def _leaps(
    rng: Any,
    sampler: Any,
    state: Any,
    target: Target[Any],
    inertia: Any,
    fixed_points: int,
    metric: Callable[[Any, Array], Metric | Constant],
) -> tuple[Array, Array, Array]:
    """Return theta, r and q after the leaps of one step."""
    theta, r, q = state.theta, state.momentum, state.thermostat
    h = step_size_at(sampler.step_size, state.step)
    one = namespace(q).ones_like(q)
    for _ in range(sampler.leaps):
        potential = target.draw(rng, theta)
        flow = NosePoincare(target, potential, partial(metric, potential), inertia, fixed_points)
        (theta, p, s, q), there = flow.leap(h, Point(theta, r, one, q))
        r = p / s
        r *= exp(-sampler.friction * h)
        r += there.root(noise(rng, r)) * sqrt(-expm1(-2 * sampler.friction * h))
        q = q * exp(-sampler.thermostat_friction * h)
        q += noise(rng, q) * (-expm1(-2 * sampler.thermostat_friction * h) * inertia) ** 0.5
    return theta, r, q
