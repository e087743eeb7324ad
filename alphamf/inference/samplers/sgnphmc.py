r"""Nose-Poincare samplers: SG-NPHMC with a constant mass, SGR-NPHMC with a Riemannian metric.

Every leap draws a minibatch, and begins on the surface H = 0 of ``nose_poincare.py``, which has the
symbols: at s = 1, with the H0 for which H = 0. It is a time-reversible, symplectic leapfrog, at
whose end theta, r = p / s and q are read. Then r and q have exact Ornstein-Uhlenbeck moves of the
law that the flow on the surface leaves invariant,

.. math:: r' = e^{-B h} r + \mathcal{N}(0,\, (1 - e^{-2 B h})\, G), \qquad
   q' = e^{-A h} q + \mathcal{N}(0,\, (1 - e^{-2 A h})\, Q).

Gradient noise of covariance V is a diffusion h V / 2 of r. Where V = v G the thermostat absorbs it:
the mean of q / Q becomes h v / 2. Friction A on q pulls it back and lets a part of the heat
through, E r'G^-1 r / D - 1 = (A / D) E q.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from math import exp, expm1, inf, sqrt
from typing import Any, ClassVar, NamedTuple

from alphamf.errors import AlphaMFError
from alphamf.inference.metric import Metric, metric_of
from alphamf.inference.protocols import Need, RiemannianPotential, Schedule, Target, ValuePotential
from alphamf.inference.random import noise
from alphamf.inference.samplers.masses import Mass, UnitMass
from alphamf.inference.samplers.metropolis import check_leaps
from alphamf.inference.samplers.momentum import check_mirror_metric
from alphamf.inference.samplers.nose_poincare import Constant, NosePoincare, Point
from alphamf.inference.schedule import step_size_at
from alphamf.tools.arrays import Array, namespace


class SGNPHMCState(NamedTuple):
    """Position, number of steps, physical momentum, thermostat's momentum and the mass's state."""

    theta: Array
    step: int
    momentum: Array  # r, of theta's shape
    thermostat: Array  # q, of shape (*chains, 1)
    mass: Any


class BothMasses(NamedTuple):
    """States of the mass M and of the bath, whose mass Q learns as well."""

    mass: Any
    bath: Any


@dataclass(frozen=True)
class SGNPHMC:
    """Stochastic gradient Nose-Poincare Hamiltonian Monte Carlo: the above with G = M.

    Leaves the posterior times N(0, M) times N(0, Q) invariant up to a bias of O(h^2). A leap costs
    two gradients and two values of U. On a positive target M must be diagonal.

    Attributes
    ----------
    step_size
        h, a number or a function of the step index.
    leaps
        Leaps per step.
    friction
        B, of r.
    thermostat_friction
        A, of q; 0 absorbs all gradient noise.
    inertia
        Q / D; its root is the time in which the thermostat follows the kinetic energy.
    mass
        M.
    bath
        Mass of q in units of its Q, in one dimension; None: Q stays at `inertia` times D. With a
        `MassEM` here and as `mass`, this is SG-NPHMC-EM as the paper has it.

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
        """Check the hyperparameters."""
        _check(self)

    def init(self, rng: Any, theta: Array) -> SGNPHMCState:
        """Return the state that starts at theta, of shape (*chains, D), with r from N(0, M)."""
        mass: Any = self.mass.init(theta)
        r = self.mass.inverse(mass).inverse_root(noise(rng, theta))
        if self.bath is not None:
            mass = BothMasses(mass, self.bath.init(_rest(theta)))
        return SGNPHMCState(theta, 0, r, _rest(theta), mass)

    def step(self, rng: Any, state: SGNPHMCState, target: Target[ValuePotential]) -> SGNPHMCState:
        """Make one step, with two gradients and two values per leap."""
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
        return SGNPHMCState(theta, state.step + 1, r, q, mass)


class SGRNPHMCState(NamedTuple):
    """Position, number of steps, physical momentum and thermostat's momentum, as above."""

    theta: Array  # Position, shape (*chains, D)
    step: int  # Number of steps made
    momentum: Array  # r, shape (*chains, D)
    thermostat: Array  # q, shape (*chains, 1)


@dataclass(frozen=True)
class SGRNPHMC:
    """Stochastic gradient Riemannian Nose-Poincare HMC: the above with the target's G(theta).

    Leaves the posterior times N(0, G) times N(0, Q) invariant, up to O(h^2) from two fixed-point
    iterations on, and O(h) with one. Where G is the Fisher information, gradient noise is nearly of
    the form that the thermostat absorbs. A leap costs two gradients, two values and `fixed_points`
    + 1 metrics. On a positive target G must be diagonal.

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
        """Check the hyperparameters."""
        _check(self)
        if self.fixed_points < 1:
            raise AlphaMFError(f"fixed_points must be at least 1, not {self.fixed_points}")

    def init(self, rng: Any, theta: Array) -> SGRNPHMCState:
        """Return the state that starts at theta, of shape (*chains, D).

        The momentum is drawn in the first step, where the metric is known.
        """
        return SGRNPHMCState(theta, 0, namespace(theta).zeros_like(theta), _rest(theta))

    def step(
        self, rng: Any, state: SGRNPHMCState, target: Target[RiemannianPotential]
    ) -> SGRNPHMCState:
        """Make one step, with two gradients, two values and the metrics per leap."""

        def metric(potential: RiemannianPotential, theta: Array) -> Metric:
            return check_mirror_metric(metric_of(potential, theta), target)

        if state.step == 0:
            first = metric(target.draw(rng, state.theta), state.theta)
            state = state._replace(momentum=first.root(noise(rng, state.theta)))
        inertia = self.inertia * state.theta.shape[-1]
        theta, r, q = _leaps(rng, self, state, target, inertia, self.fixed_points, metric)
        return SGRNPHMCState(theta, state.step + 1, r, q)


def _check(sampler: Any) -> None:
    check_leaps(sampler.leaps)
    for name in ("friction", "thermostat_friction"):
        if not getattr(sampler, name) >= 0:
            raise AlphaMFError(f"{name} must not be negative, not {getattr(sampler, name)}")
    if not 0 < sampler.inertia < inf:
        raise AlphaMFError(f"inertia must be a positive number, not {sampler.inertia}")


def _rest(theta: Array) -> Array:
    zeros: Array = namespace(theta).zeros((*theta.shape[:-1], 1), theta.dtype)
    return zeros


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
