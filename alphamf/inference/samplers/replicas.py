"""Replica exchange: a hot chain finds the modes; a cold chain that swaps with it samples them."""

from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar, NamedTuple

from alphamf.inference.protocols import Need, Schedule, Target, ValuePotential
from alphamf.inference.ranges import FINITE, Range, at_least, check_ranges
from alphamf.inference.samplers.richardson import move_by, refuse_latents
from alphamf.inference.schedule import step_size_at
from alphamf.tools.arrays import Array, namespace


class ReplicaExchangeState(NamedTuple):
    """Positions of both chains, number of steps, variance of the energy difference, and swaps."""

    theta: Array  # Position of the cold chain, shape (*chains, D)
    step: int  # Number of steps made
    hot: Array  # Position of the hot chain, shape (*chains, D)
    variance: Array  # Estimate of the variance of the energy difference, shape (*chains,)
    swaps: Array  # Number of swaps so far, shape (*chains,)


@dataclass(frozen=True)
class ReplicaExchange:
    r"""Replica exchange SGLD: two temperatures that swap positions, corrected for minibatch noise.

    Both chains are SGLD, of the posterior and of its density to the power 1 / T,

    .. math:: \theta' = \theta - h \nabla \tilde U(\theta) + \mathcal{N}(0,\, 2 h), \qquad
       \vartheta' = \vartheta - h_T \nabla \tilde U(\vartheta) + \mathcal{N}(0,\, 2 h_T T),

    and after each step they swap with the probability

    .. math:: \min\left\{1,\, \exp\left[ c\, \tilde\Delta
       - \frac{c^2 \hat\sigma^2}{2 F} \right]\right\}, \qquad c = 1 - \frac1T, \qquad
       \tilde\Delta = \tilde U(\theta) - \tilde U(\vartheta),

    both energies of one minibatch. sigma^2, the variance of their difference, is half the running
    mean of its squared change between two minibatches. At F = 1 and under normal noise the
    posterior times its hot form is invariant, up to O(h), but hardly any swap is made where c sigma
    is far above one; a larger F swaps more, with a bias. A step costs two gradients and four
    values.

    Attributes
    ----------
    step_size
        h of the cold chain, a number or a function of the step index.
    temperature
        T, above 1: hot enough to cross from mode to mode.
    hot_size
        h_T / h.
    factor
        F, at least 1; `math.inf` for no correction.
    memory
        Weight of the newest squared change in sigma^2; the first 1 / `memory` are averaged evenly.

    References
    ----------
    Deng et al., "Non-convex learning via replica exchange stochastic gradient MCMC", ICML 2020,
    algorithm 1; Ceperley & Dewing, J. Chem. Phys. 110 (1999), for the penalty.

    Examples
    --------
    >>> from alphamf.inference.chain import run
    >>> class Hills:
    ...     # U = 8 (theta^2 - 1)^2: hills at -1 and 1.
    ...     size, positive, latents = 1, False, {}
    ...     def draw(self, rng, theta):
    ...         return self
    ...     def value(self, theta):
    ...         return 8 * (theta[..., 0] ** 2 - 1) ** 2
    ...     def grad(self, theta):
    ...         return 32 * theta * (theta**2 - 1)
    >>> start = np.full((1000, 1), -1.0)
    >>> *_, last = run(Hills(), ReplicaExchange(0.005), steps=300, seed=0, start=start)
    >>> float((last.theta > 0).mean().round(1))
    0.5
    """

    needs: ClassVar[tuple[Need, ...]] = ("bounded gradient", "value", "no latents")

    step_size: Schedule = 1e-3
    temperature: float = 10.0
    hot_size: float = 1.0
    factor: float = 1.0
    memory: float = 0.01

    def __post_init__(self) -> None:
        check_ranges(
            self,
            temperature=Range("must be above 1", lambda x: 1 < x < inf),
            hot_size=FINITE,
            factor=at_least(1),
            memory=Range("must be above 0 and at most 1", lambda x: 0 < x <= 1),
        )

    def init(self, rng: Any, theta: Array) -> ReplicaExchangeState:
        zeros = namespace(theta).zeros(theta.shape[:-1], theta.dtype)
        return ReplicaExchangeState(theta, 0, theta, zeros, zeros)

    def step(
        self, rng: Any, state: ReplicaExchangeState, target: Target[ValuePotential]
    ) -> ReplicaExchangeState:
        refuse_latents(self, target)
        xp = namespace(state.theta)
        h = step_size_at(self.step_size, state.step)
        cold = move_by(rng, state.theta, target, h)
        hot = move_by(rng, state.hot, target, h * self.hot_size, temperature=self.temperature)
        difference, other = (_difference(rng, target, cold, hot) for _ in range(2))
        weight = max(self.memory, 1 / (state.step + 1))
        variance = (1 - weight) * state.variance + (weight / 2) * (difference - other) ** 2
        c = 1 - 1 / self.temperature
        log_ratio = c * difference - (c * c / (2 * self.factor)) * variance
        swapped = -rng.standard_exponential(log_ratio.shape, dtype=log_ratio.dtype) < log_ratio
        chosen = swapped[..., None]
        theta = xp.where(chosen, hot, cold)
        hot = xp.where(chosen, cold, hot)
        return ReplicaExchangeState(
            theta, state.step + 1, hot, variance, state.swaps + swapped.astype(theta.dtype)
        )


def _difference(rng: Any, target: Target[ValuePotential], cold: Array, hot: Array) -> Array:
    """Return U(cold) - U(hot) of a new minibatch, shape (*chains,)."""
    potential = target.draw(rng, cold)
    return potential.value(cold) - potential.value(hot)
