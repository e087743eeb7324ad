"""HAMCMC and HMC on positive factors, in unbounded coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from alphamf.errors import AlphaMFError
from alphamf.inference.protocols import FactorPotential, Need, Schedule, Target
from alphamf.inference.samplers.hamcmc import HAMCMC, HAMCMCState
from alphamf.inference.samplers.hmc import HMC, HMCState
from alphamf.inference.samplers.sgrld import SGRLD, SGRLDState, learnt_scale
from alphamf.inference.schedule import step_size_at
from alphamf.inference.targets.unbounded import UnboundedTarget
from alphamf.tools.arrays import Array, namespace


class PositiveHAMCMCState(NamedTuple):
    """Newest sample, number of steps, and the states of both phases (before, after `freeze`)."""

    theta: Array  # Newest sample, shape (*chains, D)
    step: int  # Number of steps made
    warm: SGRLDState  # SGRLD's state, which rests from `freeze` on
    # HAMCMC's state in the coordinates of `UnboundedTarget`, without meaning before.
    chain: HAMCMCState


@dataclass(frozen=True)
class PositiveHAMCMC:
    r"""HAMCMC on positive factors with SGRLD's metric as H_0, without mirroring.

    For `freeze` steps it is `SGRLD`, which learns c. After that `HAMCMC` moves u in
    :math:`\theta = \frac c4 \log(1 + e^u)^2` (`UnboundedTarget`), with gamma = 1. u has no wall, so
    a dense H is right: what remains is the bias of a discretisation, O(h), and of HAMCMC's memory.

    Attributes
    ----------
    step_size
        h of both stretches, a number or a function of the step index; of the order of 0.1 to 1.
    memory
        M, at least 2.
    trust
        lambda, in units of the metric; V is flat at minus infinity, where H would grow without it.
    decay, freeze
        As in `SGRLD`.

    References
    ----------
    Simsekli et al., ICML 2016; Patterson & Teh, NIPS 2013, for the metric.

    Examples
    --------
    >>> PositiveHAMCMC(0.2, freeze=20).needs  # a target as in the example of `SGRLD`
    ('parts',)
    """

    needs: ClassVar[tuple[Need, ...]] = ("parts",)

    step_size: Schedule = 0.2
    memory: int = 2
    trust: float = 1.0
    decay: float = 0.9
    freeze: int = 100

    def __post_init__(self) -> None:
        """Check the hyperparameters."""
        if self.freeze < 1:
            raise AlphaMFError(f"freeze must be at least 1, not {self.freeze}")
        self._stretches()

    def _stretches(self) -> tuple[SGRLD, HAMCMC]:
        moved = HAMCMC(self.step_size, memory=self.memory, gamma=1.0, trust=self.trust)
        return SGRLD(self.step_size, decay=self.decay), moved

    @property
    def turns(self) -> int:
        """Number of chains that move in turn: `memory`."""
        return self.memory

    def init(self, rng: Any, theta: Array) -> PositiveHAMCMCState:
        """Return the state that starts at theta, of shape (*chains, D)."""
        warm, moved = self._stretches()
        chain = moved.init(rng, namespace(theta).zeros_like(theta))
        return PositiveHAMCMCState(theta, 0, warm.init(rng, theta), chain)

    def step(
        self, rng: Any, state: PositiveHAMCMCState, target: Target[FactorPotential]
    ) -> PositiveHAMCMCState:
        """Make one step, with one gradient before `freeze` and two after it."""
        theta, step, learnt, chain = state
        warm, moved = self._stretches()
        if step < self.freeze:
            learnt = warm.step(rng, learnt, target)
            return PositiveHAMCMCState(learnt.theta, step + 1, learnt, chain)
        space = UnboundedTarget(target, learnt_scale(learnt))
        if step == self.freeze:
            chain = moved.init(rng, space.coordinates(theta))._replace(step=step)
        chain = moved.step(rng, chain, space)
        return PositiveHAMCMCState(space.position(chain.theta), chain.step, learnt, chain)


class PositiveHMCState(NamedTuple):
    """Position, number of steps, acceptances, and the states before and after `freeze`."""

    theta: Array  # Position, shape (*chains, D)
    step: int  # Number of steps made
    # Number of accepted steps of each chain, shape (*chains,); those of SGRLD all are.
    accepted: Array
    warm: SGRLDState  # SGRLD's state, which rests from `freeze` on
    chain: HMCState  # HMC's state in the coordinates of `UnboundedTarget`, without meaning before


@dataclass(frozen=True)
class PositiveHMC:
    r"""HMC on positive factors with SGRLD's metric as its mass, without mirroring.

    For `freeze` steps it is `SGRLD`, which learns c. From then on `HMC` moves u in :math:`\theta =
    \frac c4 \log(1 + e^u)^2` (`UnboundedTarget`), and the law is exact at any step size; latents
    that the target moves make it a step of Gibbs. A step then costs leaps + 1 gradients and two
    values.

    Attributes
    ----------
    step_size
        epsilon in u, a number or a function of the step index; rejections are of order D epsilon^4.
    leaps
        Leapfrog steps per step.
    warm_up
        h of SGRLD.
    decay, freeze
        As in `SGRLD`.

    References
    ----------
    Neal, Handbook of MCMC (2011), chapter 5; Patterson & Teh, NIPS 2013, for the metric.

    Examples
    --------
    >>> PositiveHMC(0.1, freeze=20).needs  # a target as in the example of `SGRLD`
    ('parts', 'value')
    """

    needs: ClassVar[tuple[Need, ...]] = ("parts", "value")

    step_size: Schedule = 0.3
    leaps: int = 10
    warm_up: Schedule = 0.5
    decay: float = 0.9
    freeze: int = 100

    def __post_init__(self) -> None:
        """Check the hyperparameters."""
        if self.freeze < 1:
            raise AlphaMFError(f"freeze must be at least 1, not {self.freeze}")
        self._stretches()

    def _stretches(self) -> tuple[SGRLD, HMC]:
        return SGRLD(self.warm_up, decay=self.decay), HMC(self.step_size, leaps=self.leaps)

    def init(self, rng: Any, theta: Array) -> PositiveHMCState:
        """Return the state that starts at theta, of shape (*chains, D)."""
        warm, moved = self._stretches()
        chain = moved.init(rng, namespace(theta).zeros_like(theta))
        return PositiveHMCState(theta, 0, chain.accepted, warm.init(rng, theta), chain)

    def step(self, rng: Any, state: PositiveHMCState, target: Target[Any]) -> PositiveHMCState:
        """Make one step, with one draw of the potential."""
        theta, step, accepted, learnt, chain = state
        warm, moved = self._stretches()
        step_size_at(self.step_size, step)  # refuses one that is not positive before it is needed
        if step < self.freeze:
            learnt = warm.step(rng, learnt, target)
            return PositiveHMCState(learnt.theta, step + 1, accepted + 1, learnt, chain)
        space = UnboundedTarget(target, learnt_scale(learnt))
        if step == self.freeze:
            chain = moved.init(rng, space.coordinates(theta))
            chain = chain._replace(step=step, accepted=accepted)
        chain = moved.step(rng, chain, space)
        theta = space.position(chain.theta)
        return PositiveHMCState(theta, chain.step, chain.accepted, learnt, chain)
