"""QNHMC: Hamiltonian Monte Carlo whose dynamics use an inverse Hessian of (L-)BFGS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

from alphamf.inference.protocols import Need, Schedule, Target, ValuePotential
from alphamf.inference.ranges import NOT_NEGATIVE, POSITIVE, at_least, check_ranges
from alphamf.inference.samplers import lbfgs
from alphamf.inference.samplers.hmc import (
    ExtendedPotential,
    Point,
    count,
    select_accepted,
    travel,
)
from alphamf.inference.samplers.masses import ConstantMass, Mass, UnitMass
from alphamf.inference.schedule import step_size_at
from alphamf.tools.arrays import Array, dot, namespace


class BFGS(NamedTuple):
    """A dense inverse Hessian B, shape (*chains, D, D), updated by BFGS."""

    b: Array

    def apply(self, v: Array) -> Array:
        """Return B v, of the shape of v: (*chains, D)."""
        return namespace(v).matmul(self.b, v[..., None])[..., 0]

    def product(self) -> Callable[[Array], Array]:
        """Return the function that maps v to B v."""
        return self.apply

    def update(self, taken: Array, s: Array, y: Array) -> BFGS:
        """Return B updated by n pairs (n, *chains, D), oldest first, in the chains `taken` only."""
        xp = namespace(s)
        b = self.b
        s, y = (select_accepted(taken, array, 0) for array in (s, y))  # a pair of zeros is skipped
        for rho, step, change in zip(lbfgs.curvatures(s, y)[1], s, y, strict=True):
            image = BFGS(b).apply(change)
            half = rho * (0.5 * (1 + rho * dot(change, image)) * step - image)
            cross = step[..., :, None] * half[..., None, :]
            b = b + (cross + xp.swapaxes(cross, -1, -2))
        return BFGS(b)


class LBFGS(NamedTuple):
    """An inverse Hessian B given by gamma and its m latest pairs (m, *chains, D), oldest first."""

    s: Array
    y: Array
    gamma: float

    def product(self) -> Callable[[Array], Array]:
        """Return the function that maps v to B v."""
        return lbfgs.inverse_hessian(self.s, self.y, self.gamma).apply

    def update(self, taken: Array, s: Array, y: Array) -> LBFGS:
        """Return B updated by n pairs (n, *chains, D), oldest first, in the chains `taken` only."""
        join, m = namespace(s).concatenate, len(self.s)
        s, y = join([self.s, s])[-m:], join([self.y, y])[-m:]
        return LBFGS(
            select_accepted(taken, s, self.s), select_accepted(taken, y, self.y), self.gamma
        )


class QNHMCState(NamedTuple):
    """Position, number of steps, acceptances of each chain, and the inverse Hessian."""

    theta: Array  # Position, shape (*chains, D)
    step: int  # Number of steps made
    accepted: Array  # Number of acceptances of each chain, shape (*chains,)
    inverse: BFGS | LBFGS  # C, the inverse Hessian of the dynamics


@dataclass(frozen=True)
class QNHMC:
    r"""Quasi-Newton HMC: the law of momenta does not depend on C, which the dynamics apply twice.

    .. math:: p \sim \mathcal{N}(0, M), \qquad \dot\theta = C M^{-1} p, \qquad
       \dot p = -C \nabla U(\theta)

    by leapfrog, with C the inverse Hessian of (L-)BFGS at the start of the step, from the pairs of
    consecutive positions on the trajectories accepted so far. If C is fixed and U is of all data,
    the posterior is invariant, exactly, at any step size; while C changes, it is not: set `freeze`.
    At C = Hessian^-1 and M = I, epsilon must stay below 2 / (the largest standard deviation).

    A step costs leaps + 1 gradients and two values. A chain's C is D^2 numbers or, with `memory` m,
    2 m D.

    Attributes
    ----------
    step_size, leaps
        epsilon, a number or a function of the step index, and leapfrog steps per step.
    memory
        Number of pairs of L-BFGS. None: BFGS, dense.
    freeze
        Number of steps after which C is fixed. None: never.
    gamma
        C = gamma I at the start, from which L-BFGS computes every later C, too.
    mass
        M: a `masses.UnitMass` or `masses.ConstantMass`.

    References
    ----------
    Fu, Luo & Zhang, UAI 2016, algorithm 2, which prints the acceptance with exp(E_1 - E_0).

    Examples
    --------
    >>> QNHMC(0.3, leaps=5, freeze=10).needs  # run as in the example of `HMC`
    ('bounded gradient', 'value')
    """

    needs: ClassVar[tuple[Need, ...]] = ("bounded gradient", "value")

    step_size: Schedule = 0.03
    leaps: int = 10
    memory: int | None = None
    freeze: int | None = None
    gamma: float = 1.0
    mass: UnitMass | ConstantMass = field(default_factory=UnitMass)

    def __post_init__(self) -> None:
        check_ranges(
            self, leaps=at_least(1), memory=at_least(1), freeze=NOT_NEGATIVE, gamma=POSITIVE
        )

    def init(self, rng: Any, theta: Array) -> QNHMCState:
        xp = namespace(theta)
        inverse: BFGS | LBFGS
        if self.memory is None:
            b = xp.zeros((*theta.shape, theta.shape[-1]), theta.dtype)
            b[...] = self.gamma * xp.eye(theta.shape[-1])
            inverse = BFGS(b)
        else:
            shape = (self.memory, *theta.shape)
            inverse = LBFGS(xp.zeros(shape, theta.dtype), xp.zeros(shape, theta.dtype), self.gamma)
        return QNHMCState(theta, 0, xp.zeros(theta.shape[:-1], int), inverse)

    def step(self, rng: Any, state: QNHMCState, target: Target[ValuePotential]) -> QNHMCState:
        theta, step, accepted, inverse = state
        xp = namespace(theta)
        h = step_size_at(self.step_size, step)
        potential = ExtendedPotential(target.draw(rng, theta), target.positive)
        origin = potential.unfold(rng, theta)
        mass: Mass = self.mass
        light = mass.inverse(mass.init(theta))  # M^-1
        points: list[Point] = []
        taken, start, end = travel(
            rng, potential, origin, light, h, self.leaps, inverse.product(), points
        )
        if self.freeze is None or step < self.freeze:
            points.insert(0, start)
            folded = [(potential.fold(q), potential.turn_gradient(q, g)) for q, _, g in points]
            s = xp.stack([new[0] - old[0] for old, new in pairwise(folded)])
            y = xp.stack([new[1] - old[1] for old, new in pairwise(folded)])
            inverse = inverse.update(taken, s, y)
        theta = potential.fold(select_accepted(taken, end[0], origin))
        return QNHMCState(theta, step + 1, count(accepted, taken), inverse)
