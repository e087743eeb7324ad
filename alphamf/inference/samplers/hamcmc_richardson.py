r"""Richardson-Romberg extrapolation around HAMCMC: two chains under one H."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any, ClassVar, NamedTuple

from alphamf.inference.protocols import Need, Potential, Schedule, Target
from alphamf.inference.random import noise
from alphamf.inference.samplers import lbfgs
from alphamf.inference.samplers.hamcmc import HAMCMC, HAMCMCState, remember
from alphamf.inference.samplers.reflect import refuse_wall
from alphamf.inference.samplers.richardson import refuse_latents
from alphamf.inference.schedule import at
from alphamf.tools.arrays import Array


class HAMCMCRichardsonState(NamedTuple):
    """Both chains after one step, as `Extrapolated` reads them, and their memory.

    Of a state that has been moved on from, `chain` and `past` no longer hold.

    Attributes
    ----------
    theta
        The fine chain's newest sample, shape (*chains, D).
    step
        Number of steps made.
    middle
        The fine chain half a step before.
    coarse
        The coarse chain's newest sample.
    size
        h of the step that led here.
    chain
        The fine chain as `HAMCMC` keeps it, from whose pairs H is made.
    past
        Samples of the coarse chain still to be moved from, shape (M, *chains, D), in a ring.
    """

    theta: Array
    step: int
    middle: Array
    coarse: Array
    size: float
    chain: HAMCMCState
    past: Array


@dataclass(frozen=True)
class HAMCMCRichardson:
    r"""Richardson-Romberg extrapolation of HAMCMC.

    From the samples M steps back, with one H and noise of the fine chain's two half steps,

    .. math:: \theta_{1/2} &= \theta_{t-M} - \tfrac h2 H \nabla \tilde U(\theta_{t-M})
       + \sqrt h\, Z_1, \qquad
       \theta_t = \theta_{1/2} - \tfrac h2 H \nabla \tilde U(\theta_{1/2}) + \sqrt h\, Z_2, \\
       \theta'_t &= \theta'_{t-M} - h H \nabla \tilde U(\theta'_{t-M}) + \sqrt h\, (Z_1 + Z_2),
       \qquad Z \sim \mathcal N(0, H),

    with H of the fine chain's pairs for both, so that their difference stays small. `Extrapolated`
    makes of both an estimate whose bias is of second order in h, where HAMCMC's is of first order.
    What the memory adds where the curvature varies does not fall with h, and does not cancel
    either. A step costs four gradients.

    Attributes
    ----------
    step_size
        h of the coarse chain, a number or a function of the step index, held over blocks of M
        steps.
    memory, gamma, trust
        As in `HAMCMC`.

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
    >>> sampler = HAMCMCRichardson(0.2, memory=3, gamma=0.5)
    >>> for _ in run(target, sampler, steps=400, seed=0, chains=(2000,), record=record):
    ...     pass
    >>> record.mean.round(2)
    array([0.5, 0.5])
    """

    needs: ClassVar[tuple[Need, ...]] = ("no wall", "no latents")

    step_size: Schedule
    memory: int = 2
    gamma: float = 1.0
    trust: float = 0.0

    def __post_init__(self) -> None:
        """Check the hyperparameters."""
        self._kept()

    def _kept(self) -> HAMCMC:
        return HAMCMC(self.step_size, self.memory, self.gamma, self.trust)

    def init(self, rng: Any, theta: Array) -> HAMCMCRichardsonState:
        """Return the state with both chains at theta, of shape (*chains, D), without pairs."""
        chain = self._kept().init(rng, theta)
        return HAMCMCRichardsonState(theta, 0, theta, theta, 0.0, chain, chain.past.copy())

    def step(
        self, rng: Any, state: HAMCMCRichardsonState, target: Target[Potential]
    ) -> HAMCMCRichardsonState:
        """Make one step of the coarse chain and two of the fine one.

        Parameters
        ----------
        rng
            Generator of theta's array module.
        state
            State to move from.
        target
            Posterior to sample.

        Raises
        ------
        AlphaMFError
            The target is positive, or has latents.
        """
        refuse_wall(self, target)
        refuse_latents(self, target)
        step, chain, past = state.step, state.chain, state.past
        h = at(self.step_size, step - step % self.memory)
        origin, rough = (ring[step % self.memory] for ring in (chain.past, past))
        inverse = lbfgs.from_products(
            chain.s, chain.y, self.gamma, chain.products, oldest=step % (self.memory - 1)
        )
        first, second = (_kick(rng, inverse, origin, h) for _ in range(2))
        potential = target.draw(rng, origin)
        before = potential.grad(origin)
        middle = origin - 0.5 * h * inverse.apply(before) + first
        new = middle - 0.5 * h * inverse.apply(target.draw(rng, middle).grad(middle)) + second
        coarse = rough - h * inverse.apply(target.draw(rng, rough).grad(rough)) + (first + second)
        past[step % self.memory] = coarse
        chain = remember(chain, new, before, potential.grad(new), self.trust)
        return HAMCMCRichardsonState(new, step + 1, middle, coarse, h, chain, past)


def _kick(rng: Any, inverse: lbfgs.InverseHessian, like: Array, h: float) -> Array:
    """Draw from N(0, h H): the noise of half a step."""
    kick = inverse.draw(noise(rng, like), noise(rng, inverse.form.sy))
    kick *= sqrt(h)
    return kick
