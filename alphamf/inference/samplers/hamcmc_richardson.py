r"""Richardson-Romberg extrapolation around HAMCMC: two chains with one H."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any, ClassVar, NamedTuple

from alphamf.inference.draws import draw_gradient
from alphamf.inference.protocols import Need, Potential, Schedule, Target
from alphamf.inference.random import noise
from alphamf.inference.samplers import lbfgs
from alphamf.inference.samplers.ensemble_pairs import (
    Members,
    check,
    insert_sample,
    inverse,
    start_members,
)
from alphamf.inference.samplers.reflect import refuse_wall
from alphamf.inference.samplers.richardson import refuse_latents
from alphamf.inference.schedule import Held
from alphamf.tools.arrays import Array


class HAMCMCRichardsonState(NamedTuple):
    """Both chains after one step, as `Extrapolated` reads them, and their memory.

    The next step overwrites `members` and `past`, so that they are valid in the newest state only.
    """

    theta: Array  # The fine chain's newest sample, shape (*chains, D)
    step: int  # Number of steps made
    middle: Array  # The fine chain half a step before
    coarse: Array  # The coarse chain's newest sample
    size: float  # h of the step that led here
    members: Members  # The fine chains, and the pairs between them
    past: Array  # The coarse chains' newest samples, shape (M, *chains, D), in a ring


@dataclass(frozen=True)
class HAMCMCRichardson:
    r"""Richardson-Romberg extrapolation of HAMCMC.

    From the samples M steps back, with one H and noise of the fine chain's two half steps,

    .. math:: \theta_{1/2} &= \theta_{t-M} - \tfrac h2 H \nabla \tilde U(\theta_{t-M})
       + \sqrt h\, Z_1, \qquad
       \theta_t = \theta_{1/2} - \tfrac h2 H \nabla \tilde U(\theta_{1/2}) + \sqrt h\, Z_2, \\
       \theta'_t &= \theta'_{t-M} - h H \nabla \tilde U(\theta'_{t-M}) + \sqrt h\, (Z_1 + Z_2),
       \qquad Z \sim \mathcal N(0, H),

    with one H for both, so that their difference stays small, of pairs *between* the other chains
    (``samplers.ensemble_pairs``). The pairs of HAMCMC itself depend on the chain that moves, to the
    order of h and alike for both step sizes, so that this bias would not cancel. `Extrapolated`
    combines both chains into an estimate whose bias is of second order in h. A step costs five
    gradients.

    Attributes
    ----------
    step_size
        h of the coarse chain, a number or a function of the step index, held over blocks of M
        steps.
    memory
        M, at least 3: the number of pairs of chains that move in turn.
    gamma
        Scale of the initial inverse Hessian.
    trust
        lambda, as in `HAMCMC`.

    References
    ----------
    Durmus et al., NIPS 2016, eqs. 4 to 7, around Simsekli et al., ICML 2016, eq. 10.

    Examples
    --------
    >>> import numpy as np
    >>> from alphamf.inference.chain import run
    >>> from alphamf.inference.records import Extrapolated
    >>> from alphamf.inference.targets.gaussian import LinearGaussian
    >>> target = LinearGaussian(np.eye(2), np.zeros(2), 1.0)  # its posterior is N(0, I/2)
    >>> record = Extrapolated(lambda theta, target: theta**2, burn_in=100)
    >>> sampler = HAMCMCRichardson(0.2, memory=4, gamma=0.5)
    >>> for _ in run(target, sampler, steps=400, seed=0, chains=(2000,), record=record):
    ...     pass
    >>> record.mean.round(2)
    array([0.5, 0.5])
    """

    needs: ClassVar[tuple[Need, ...]] = ("no wall", "no latents")

    step_size: Schedule = 1e-3
    memory: int = 3
    gamma: float = 1.0
    trust: float = 0.0

    def __post_init__(self) -> None:
        """Check the hyperparameters."""
        check(self.memory, self.gamma, self.trust)

    @property
    def turns(self) -> int:
        """Number of chains that move in turn: `memory`."""
        return self.memory

    def init(self, rng: Any, theta: Array) -> HAMCMCRichardsonState:
        """Return the state with both chains at theta, of shape (*chains, D), without pairs."""
        members = start_members(theta, self.memory)
        return HAMCMCRichardsonState(theta, 0, theta, theta, 0.0, members, members.past.copy())

    def step(
        self, rng: Any, state: HAMCMCRichardsonState, target: Target[Potential]
    ) -> HAMCMCRichardsonState:
        """Make one step of the coarse chain and two of the fine one."""
        refuse_wall(self, target)
        refuse_latents(self, target)
        newest, step, members, past = state.theta, state.step, state.members, state.past
        h = Held(self.step_size, self.memory)(step)
        place = step % self.memory
        origin, rough = members.past[place], past[place]
        h_t = inverse(members, step, self.gamma)
        first, second = (_kick(rng, h_t, origin, h) for _ in range(2))
        potential, gradient = draw_gradient(target, rng, origin)
        middle = origin - 0.5 * h * h_t.apply(gradient) + first
        _, gradient = draw_gradient(target, rng, middle)
        new = middle - 0.5 * h * h_t.apply(gradient) + second
        _, gradient = draw_gradient(target, rng, rough)
        coarse = rough - h * h_t.apply(gradient) + (first + second)
        past[place] = coarse
        y = potential.grad(new) - potential.grad(newest)
        members = insert_sample(members, step, new, new - newest, y, self.trust)
        return HAMCMCRichardsonState(new, step + 1, middle, coarse, h, members, past)


def _kick(rng: Any, h_t: lbfgs.InverseHessian, like: Array, h: float) -> Array:
    """Draw from N(0, h H): the noise of half a step."""
    kick = h_t.draw(noise(rng, like), noise(rng, h_t.form.sy))
    kick *= sqrt(h)
    return kick
