"""HMC-BFGS: an ensemble of HMC chains that precondition each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from alphamf.errors import AlphaMFError
from alphamf.inference.protocols import Need, Schedule, Target, ValuePotential
from alphamf.inference.samplers import lbfgs
from alphamf.inference.samplers.metropolis import (
    ExtendedPotential,
    check_leaps,
    count,
    move,
)
from alphamf.inference.schedule import step_size_at
from alphamf.tools.arrays import Array, namespace


class HMCBFGSState(NamedTuple):
    """Newest sample, number of steps, acceptances, and the ensemble."""

    theta: Array  # Newest sample, shape (*chains, D)
    step: int  # Number of steps made
    accepted: Array  # Number of acceptances of each chain, of all its members, shape (*chains,)
    # The ensemble in the order of their last moves, shape (K, *chains, D); the last one is theta.
    past: Array


@dataclass(frozen=True)
class HMCBFGS:
    r"""HMC-BFGS: HMC in an ensemble whose other members determine the inverse mass.

    .. math:: p \sim \mathcal{N}(0, H^{-1}), \qquad
       \dot\theta = H p, \qquad \dot p = -\nabla U(\theta),

    where H is that of L-BFGS from the K - 2 pairs of successive others, in the order of their last
    moves. Each step moves the member that was moved least recently, on which H does not depend, so
    the product of K posteriors is invariant, exactly, at any step size. All start at one theta, and
    share latents, which is exact only if `draw` draws them afresh. A step costs K + leaps gradients
    and two values.

    Attributes
    ----------
    step_size
        epsilon, a number or a function of the step index.
    leaps
        Leapfrog steps per step.
    ensemble
        K, at least 3.
    gamma
        H is gamma I in directions of no pair.

    References
    ----------
    Zhang & Sutton, NIPS 2011; Nocedal & Wright (2006), algorithm 7.4.

    Examples
    --------
    >>> HMCBFGS(0.5, leaps=3, ensemble=5).turns  # run as in the example of `HMC`
    5
    """

    needs: ClassVar[tuple[Need, ...]] = ("bounded gradient", "value")

    step_size: Schedule = 0.03
    leaps: int = 10
    ensemble: int = 8
    gamma: float = 1.0

    def __post_init__(self) -> None:
        """Check the hyperparameters."""
        check_leaps(self.leaps)
        if self.ensemble < 3:
            raise AlphaMFError(f"ensemble must be at least 3, not {self.ensemble}")
        lbfgs.check_gamma(self.gamma)

    @property
    def turns(self) -> int:
        """Number of chains that move in turn: `ensemble`."""
        return self.ensemble

    def init(self, rng: Any, theta: Array) -> HMCBFGSState:
        """Return the state whose members all start at theta, of shape (*chains, D)."""
        xp = namespace(theta)
        past = xp.stack([theta] * self.ensemble)
        return HMCBFGSState(theta, 0, xp.zeros(theta.shape[:-1], int), past)

    def step(self, rng: Any, state: HMCBFGSState, target: Target[ValuePotential]) -> HMCBFGSState:
        """Make one step, with one draw of the potential given the member that moves."""
        _, step, accepted, past = state
        xp = namespace(past)
        h = step_size_at(self.step_size, step)
        first, others = past[0], past[1:]
        potential = ExtendedPotential(target.draw(rng, first), target.positive)
        gradients = xp.stack([potential.grad(other) for other in others])
        s, y = others[1:] - others[:-1], gradients[1:] - gradients[:-1]
        inverse = lbfgs.inverse_hessian(s, y, self.gamma)
        origin = potential.unfold(rng, first)
        taken, end, _ = move(rng, potential, origin, inverse, h, self.leaps)
        theta = potential.fold(end)
        past = xp.concatenate([others, theta[None]])
        return HMCBFGSState(theta, step + 1, count(accepted, taken), past)
