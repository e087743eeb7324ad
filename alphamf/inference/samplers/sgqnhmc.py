r"""SGQNHMC: the dynamics of QNHMC on minibatches, with friction and no Metropolis test."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, expm1, sqrt
from typing import Any, ClassVar, NamedTuple

from alphamf.errors import AlphaMFError
from alphamf.inference.draws import draw_gradient
from alphamf.inference.protocols import Need, Potential, Schedule, Target
from alphamf.inference.random import noise
from alphamf.inference.samplers import lbfgs
from alphamf.inference.samplers.metropolis import check_leaps
from alphamf.inference.samplers.qnhmc import LBFGS
from alphamf.inference.samplers.reflect import refuse_wall
from alphamf.inference.schedule import step_size_at
from alphamf.tools.arrays import Array, namespace


class SGQNHMCState(NamedTuple):
    """Position, number of steps, momentum and the inverse Hessian."""

    theta: Array  # Position, shape (*chains, D)
    step: int  # Number of steps made
    momentum: Array  # p, shape (*chains, D)
    inverse: LBFGS  # C


@dataclass(frozen=True)
class SGQNHMC:
    r"""Stochastic gradient quasi-Newton HMC.

    QNHMC's :math:`\dot\theta = C p,\ \dot p = -C \nabla U` with friction A, in leaps of one
    gradient each,

    .. math:: \theta &\leftarrow \theta + \tfrac h2 C p, \qquad
       p \leftarrow p - \tfrac h2 C \nabla \tilde U(\theta), \\
       p &\leftarrow e^{-hA} p + \mathcal N(0, 1 - e^{-2hA}), \\
       p &\leftarrow p - \tfrac h2 C \nabla \tilde U(\theta), \qquad
       \theta \leftarrow \theta + \tfrac h2 C p,

    where C is L-BFGS's of the displacements of the latest steps, each with two gradients on one
    minibatch. From step `freeze` on C rests, and the posterior times N(0, I) is invariant to
    O(h^2) with full gradients; before, C depends on theta, and it is not (`QNHMC`). The noise of
    minibatches heats in proportion to h / A.

    As with QNHMC, at C = Hessian^-1 the modes turn at the frequency of their own standard
    deviations: h must stay below 2 / (the largest one), and the narrow ones are slow.

    Attributes
    ----------
    step_size
        h, a number or a function of the step index.
    leaps
        Leaps per step.
    friction
        A, per unit of time.
    memory
        Number of pairs.
    freeze
        Number of steps after which C rests.
    gamma
        C where there are no pairs.

    References
    ----------
    Fu, Luo & Zhang, UAI 2016, whose conclusion names it as the next step.

    Examples
    --------
    >>> import numpy as np
    >>> from alphamf.inference.chain import run
    >>> from alphamf.inference.targets.gaussian import LinearGaussian
    >>> target = LinearGaussian(np.eye(2), np.ones(2), 1.0)  # its posterior is N(1/2, I/2)
    >>> sampler = SGQNHMC(0.3, leaps=5, freeze=10)
    >>> *_, last = run(target, sampler, steps=60, seed=0, chains=(4000,))
    >>> last.theta.mean(0).round(1), last.theta.var(0).round(1)
    (array([0.5, 0.5]), array([0.5, 0.5]))
    """

    needs: ClassVar[tuple[Need, ...]] = ("no wall",)

    step_size: Schedule = 0.03
    leaps: int = 10
    friction: float = 1.0
    memory: int = 7
    freeze: int = 1000
    gamma: float = 1.0

    def __post_init__(self) -> None:
        """Check the hyperparameters."""
        check_leaps(self.leaps)
        if not self.friction > 0:
            raise AlphaMFError(f"friction must be positive, not {self.friction}")
        if self.memory < 1:
            raise AlphaMFError(f"memory must be at least 1, not {self.memory}")
        if self.freeze < 0:
            raise AlphaMFError(f"freeze must not be negative, not {self.freeze}")
        lbfgs.check_gamma(self.gamma)

    def init(self, rng: Any, theta: Array) -> SGQNHMCState:
        """Return the state that starts at theta, of shape (*chains, D), with C = gamma I."""
        xp = namespace(theta)
        s, y = (xp.zeros((self.memory, *theta.shape), theta.dtype) for _ in range(2))
        return SGQNHMCState(theta, 0, noise(rng, theta), LBFGS(s, y, self.gamma))

    def step(self, rng: Any, state: SGQNHMCState, target: Target[Potential]) -> SGQNHMCState:
        """Make one step, with one gradient per leap, and two more while C adapts."""
        refuse_wall(self, target)
        start, step, p, inverse = state
        h = step_size_at(self.step_size, step)
        apply, theta = inverse.product(), start
        for _ in range(self.leaps):
            theta = theta + 0.5 * h * apply(p)
            push = 0.5 * h * apply(draw_gradient(target, rng, theta)[1])
            p = exp(-h * self.friction) * (p - push)
            p += sqrt(-expm1(-2 * h * self.friction)) * noise(rng, p)
            p -= push
            theta = theta + 0.5 * h * apply(p)
        if step < self.freeze:
            inverse = _learnt(inverse, target.draw(rng, theta), start, theta)
        return SGQNHMCState(theta, step + 1, p, inverse)


def _learnt(inverse: LBFGS, potential: Potential, start: Array, end: Array) -> LBFGS:
    """Return C updated with the pair of a step."""
    taken = namespace(end).ones(end.shape[:-1], bool)
    y = potential.grad(end) - potential.grad(start)
    return inverse.update(taken, (end - start)[None], y[None])
