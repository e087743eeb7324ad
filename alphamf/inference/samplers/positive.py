"""HAMCMC and HMC on positive factors, in unbounded coordinates."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from alphamf.inference.protocols import Need, Schedule, Target
from alphamf.inference.ranges import at_least, check_ranges
from alphamf.inference.samplers.hamcmc import HAMCMC
from alphamf.inference.samplers.hmc import HMC
from alphamf.inference.samplers.sgrld import SGRLD, SGRLDState, learnt_scale
from alphamf.inference.schedule import step_size_at
from alphamf.inference.targets.unbounded import UnboundedTarget
from alphamf.tools.arrays import Array, namespace


class PositiveState(NamedTuple):
    """State of `PositiveHAMCMC` and of `PositiveHMC`: of both phases, before and after `freeze`."""

    theta: Array  # Newest sample, shape (*chains, D)
    step: int  # Number of steps made
    warm: SGRLDState  # SGRLD's state, which does not change from `freeze` on
    # The other sampler's state, in the coordinates of `UnboundedTarget`; used from `freeze` on.
    chain: Any

    @property
    def accepted(self) -> Array:
        """Number of accepted steps of each chain, for `PositiveHMC`; all steps of SGRLD count."""
        return self.chain.accepted


class _TwoPhases:
    """A sampler that is `SGRLD` for `freeze` steps, then another one in unbounded coordinates."""

    step_size: Schedule
    freeze: int

    def __post_init__(self) -> None:
        check_ranges(self, freeze=at_least(1))
        self._phases()

    def _phases(self) -> tuple[SGRLD, Any]:
        raise NotImplementedError

    def init(self, rng: Any, theta: Array) -> PositiveState:
        warm, moved = self._phases()
        chain = moved.init(rng, namespace(theta).zeros_like(theta))
        return PositiveState(theta, 0, warm.init(rng, theta), chain)

    def step(self, rng: Any, state: PositiveState, target: Target[Any]) -> PositiveState:
        step_size_at(self.step_size, state.step)  # refuses one that is not positive at once
        theta, step, learnt, chain = state
        counts = hasattr(chain, "accepted")
        warm, moved = self._phases()
        if step < self.freeze:
            learnt = warm.step(rng, learnt, target)
            if counts:
                chain = chain._replace(accepted=chain.accepted + 1)
            return PositiveState(learnt.theta, step + 1, learnt, chain)
        space = UnboundedTarget(target, learnt_scale(learnt))
        if step == self.freeze:
            kept = {"step": step} | ({"accepted": chain.accepted} if counts else {})
            chain = moved.init(rng, space.coordinates(theta))._replace(**kept)
        chain = moved.step(rng, chain, space)
        return PositiveState(space.position(chain.theta), chain.step, learnt, chain)


@dataclass(frozen=True)
class PositiveHAMCMC(_TwoPhases):
    r"""HAMCMC on positive factors, scaled by SGRLD's metric, without mirroring.

    For `freeze` steps it is `SGRLD`, which learns c; then `HAMCMC`, with gamma = 1, moves u in
    :math:`\theta = \frac c4 \log(1 + e^u)^2` (`UnboundedTarget`), where a dense H is correct. The
    biases of a discretisation, O(h), and of HAMCMC's memory remain.

    Attributes
    ----------
    step_size
        h of both phases, a number or a function of the step index; of the order of 0.1 to 1.
    memory
        M, at least 2.
    trust
        lambda of `HAMCMC`; bounds H where theta is near 0 and the potential of u has no curvature.
    decay, freeze
        As in `SGRLD`; `freeze` cannot be None.

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

    def _phases(self) -> tuple[SGRLD, HAMCMC]:
        moved = HAMCMC(self.step_size, memory=self.memory, gamma=1.0, trust=self.trust)
        return SGRLD(self.step_size, decay=self.decay), moved

    @property
    def turns(self) -> int:
        return self.memory


@dataclass(frozen=True)
class PositiveHMC(_TwoPhases):
    r"""HMC on positive factors with SGRLD's metric as its mass, without mirroring.

    For `freeze` steps it is `SGRLD`; from then on `HMC` moves u as in `PositiveHAMCMC`, and with
    all data the law is exact at any step size; if the target moves latents, this is a Gibbs
    sampler. A step then costs leaps + 2 gradients and two values.

    Attributes
    ----------
    step_size
        epsilon in u, a number or a function of the step index; rejections are O(sqrt(D) epsilon^2).
    leaps
        Leapfrog steps per step.
    warm_up
        Step size h of SGRLD, a number or a function of the step index.
    decay, freeze
        As in `SGRLD`; `freeze` cannot be None.

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

    def _phases(self) -> tuple[SGRLD, HMC]:
        return SGRLD(self.warm_up, decay=self.decay), HMC(self.step_size, leaps=self.leaps)
