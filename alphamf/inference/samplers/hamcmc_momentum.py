r"""HAMCMC with momenta: Hamiltonian dynamics with friction, preconditioned by a factor of H."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, expm1, sqrt
from typing import Any, ClassVar, NamedTuple

from alphamf.errors import AlphaMFError
from alphamf.inference.draws import draw_gradient
from alphamf.inference.protocols import Need, Potential, Schedule, Target
from alphamf.inference.random import noise
from alphamf.inference.samplers.ensemble_pairs import (
    Members,
    check,
    insert_sample,
    inverse,
    start_members,
)
from alphamf.inference.samplers.reflect import refuse_wall
from alphamf.inference.schedule import Held
from alphamf.tools.arrays import Array, namespace


class HAMCMCMomentumState(NamedTuple):
    """Newest sample, number of steps, and the chains with their momenta.

    As for `HAMCMCState`, only theta and step of a state are valid after the next step.
    """

    theta: Array  # Newest sample, shape (*chains, D)
    step: int  # Number of steps made
    members: Members  # Chains and pairs
    momentum: Array  # One for each coordinate, shape (M, *chains, D), in a ring like the samples
    extra: Array  # One for each pair, shape (M, *chains, M - 2)


@dataclass(frozen=True)
class HAMCMCMomentum:
    r"""HAMCMC with momenta, which persist between steps.

    With F F' = H of L-BFGS, D rows and D + M - 2 columns, a step from the sample M steps back and
    its momentum p, of N(0, I) in the posterior, is a leap of leapfrog through F between two half
    steps of friction A:

    .. math:: p &\leftarrow e^{-hA/2} p + \mathcal N(0, 1 - e^{-hA}), \qquad
       p \leftarrow p - \tfrac h2 F^\top \nabla \tilde U(\theta_{t-M}), \\
       \theta_t &= \theta_{t-M} + h F p, \\
       p &\leftarrow p - \tfrac h2 F^\top \nabla \tilde U(\theta_t), \qquad
       p \leftarrow e^{-hA/2} p + \mathcal N(0, 1 - e^{-hA}),

    with both gradients on one minibatch. For a constant F, of any shape, the flow keeps the
    posterior times N(0, I); at H = Hessian^-1 all directions turn at the frequency one. As p has
    the same law under every H, H may differ at each step, and momenta are not drawn again.
    Two things differ from the combination of `HAMCMC` with `SGHMC`, each of which leaves a bias
    that does not shrink with h (``tests/inference/samplers/test_hamcmc_momentum.py``):

    - H is made of pairs *between* the other chains (``samplers.ensemble_pairs``): the directions
      of pairs along the chains depend on p, which persists. This takes a third gradient.
    - The leap is symmetric. That of SGHMC leaves a correlation of theta and p of the order of h,
      which depends on F, so that each change of F heats or cools by as much.

    The law is right to O(h^2) with full gradients; their noise, of variance v, heats in proportion
    to h v / A.

    Attributes
    ----------
    step_size
        h, a time: below 2 / sqrt(gamma x the largest curvature). A number or a function of the
        step index, held over blocks of M steps.
    friction
        A, per unit of time.
    memory
        M, at least 3: the number of chains that move in turn.
    gamma
        Scale of the initial inverse Hessian.
    trust
        lambda, as in `HAMCMC`.

    References
    ----------
    Simsekli et al., ICML 2016, section 1, which names it as an extension; Ma et al., NIPS 2015, for
    dynamics whose skew part is F.

    Examples
    --------
    >>> import numpy as np
    >>> from alphamf.inference.chain import run
    >>> from alphamf.inference.targets.gaussian import LinearGaussian
    >>> target = LinearGaussian(np.eye(2), np.ones(2), 1.0)  # its posterior is N(1/2, I/2)
    >>> sampler = HAMCMCMomentum(0.2, memory=3, gamma=0.5)
    >>> *_, last = run(target, sampler, steps=300, seed=0, chains=(4000,))
    >>> last.theta.mean(0).round(1), last.theta.var(0).round(1)
    (array([0.5, 0.5]), array([0.5, 0.5]))
    """

    needs: ClassVar[tuple[Need, ...]] = ("no wall",)

    step_size: Schedule = 0.03
    friction: float = 1.0
    memory: int = 3
    gamma: float = 1.0
    trust: float = 0.0

    def __post_init__(self) -> None:
        """Check the hyperparameters."""
        if not self.friction > 0:
            raise AlphaMFError(f"friction must be positive, not {self.friction}")
        check(self.memory, self.gamma, self.trust)

    @property
    def turns(self) -> int:
        """Number of chains that move in turn: `memory`."""
        return self.memory

    def init(self, rng: Any, theta: Array) -> HAMCMCMomentumState:
        """Return the state that starts at theta, of shape (*chains, D), with p from N(0, I)."""
        members = start_members(theta, self.memory)
        shape = (*members.past.shape[:-1], self.memory - 2)
        extra = noise(rng, namespace(theta).empty(shape, theta.dtype))
        return HAMCMCMomentumState(theta, 0, members, noise(rng, members.past), extra)

    def step(
        self, rng: Any, state: HAMCMCMomentumState, target: Target[Potential]
    ) -> HAMCMCMomentumState:
        """Make one step, with three gradients."""
        refuse_wall(self, target)
        newest, step, members, momentum, extra = state
        h = Held(self.step_size, self.memory)(step)
        place = step % self.memory
        origin = members.past[place]
        potential, before = draw_gradient(target, rng, origin)
        through = inverse(members, step, self.gamma)
        p = momentum[place], extra[place]
        self._rub(rng, p, h)
        _kick(p, through.pull(before), h)
        new = through.draw(*p)
        new *= h
        new += origin
        after = potential.grad(new)
        _kick(p, through.pull(after), h)
        self._rub(rng, p, h)
        y = after - potential.grad(newest)
        members = insert_sample(members, step, new, new - newest, y, self.trust)
        return HAMCMCMomentumState(new, step + 1, members, momentum, extra)

    def _rub(self, rng: Any, momenta: tuple[Array, Array], h: float) -> None:
        """Apply friction for half a step, in place."""
        for p in momenta:
            p *= exp(-0.5 * h * self.friction)
            p += sqrt(-expm1(-h * self.friction)) * noise(rng, p)


def _kick(momenta: tuple[Array, Array], force: tuple[Array, Array], h: float) -> None:
    """Update momenta by the gradient for half a step, in place."""
    for p, f in zip(momenta, force, strict=True):
        f *= 0.5 * h
        p -= f
