r"""Samplers of positive factors, for gradients that split into two positive parts: SGRLD, EM."""

from dataclasses import dataclass
from math import sqrt
from typing import Any, ClassVar, NamedTuple

from alphamf.inference.draws import draw_gradient, draw_parts
from alphamf.inference.protocols import FactorPotential, Need, Schedule, Target
from alphamf.inference.random import noise
from alphamf.inference.ranges import SHARE, Range, at_least, check_ranges
from alphamf.inference.samplers.langevin import SGLDState
from alphamf.inference.samplers.reflect import reflect
from alphamf.inference.schedule import step_size_at
from alphamf.tools.arrays import Array, namespace


class SGRLDState(NamedTuple):
    """Position, number of steps, and the running mean of `plus` of the gradient's `Parts`."""

    theta: Array  # Position, shape (*chains, D)
    step: int  # Number of steps made
    plus: Array  # Weighted sum of all `plus` until `freeze`, of the shape of theta
    weight: Array  # Sum of the weights; `plus` / `weight` is the running mean


@dataclass(frozen=True)
class SGRLD:
    r"""Stochastic gradient Riemannian Langevin dynamics on positive factors.

    .. math:: \theta' = \left| \theta + h\,(c - \theta \circ c \circ \nabla \tilde U)
       + \mathcal{N}(0,\, 2 h\, \theta \circ c) \right|,

    with 1 / c the running mean of ``plus`` of the gradient's `Parts`, so that a factor moves in
    proportion to its size; c is 0 where ``plus`` always was 0. Near zero the drift is h c times the
    prior's shape, which is finite for shapes below one, too. From step `freeze` on, c is fixed, and
    the posterior is invariant up to O(h); before, h c is only the leading term of the exact drift.

    Attributes
    ----------
    step_size
        h, a number or a function of the step index; about 0.1 to 1, whatever the units of theta.
    decay
        Weight of the past in the running mean, from 0 to below 1.
    freeze
        Number of steps after which c is fixed, at least 1; None for never.

    References
    ----------
    Patterson & Teh, NIPS 2013, section 3; Ma et al., NIPS 2015, for the drift h c.

    Examples
    --------
    >>> from alphamf.inference.chain import run
    >>> from alphamf.inference.protocols import Parts
    >>> class Gamma:
    ...     # The Gamma law of shape 3 and mean 3: target and potential in one.
    ...     size, positive, latents = 1, True, {}
    ...     def draw(self, rng, theta):
    ...         return self
    ...     def grad(self, theta):
    ...         return 1 - 2 / theta
    ...     def parts(self, theta):
    ...         return Parts(np.ones_like(theta), np.zeros_like(theta), np.full(1, 3.0), np.ones(1))
    >>> start = np.ones((4000, 1))
    >>> *_, last = run(Gamma(), SGRLD(0.05, freeze=10), steps=200, seed=0, start=start)
    >>> last.theta.mean(0).round(), last.theta.var(0).round()
    (array([3.]), array([3.]))
    """

    needs: ClassVar[tuple[Need, ...]] = ("parts",)

    step_size: Schedule = 0.2
    decay: float = 0.9
    freeze: int | None = None

    def __post_init__(self) -> None:
        check_ranges(self, decay=SHARE, freeze=at_least(1))

    def init(self, rng: Any, theta: Array) -> SGRLDState:
        nothing = namespace(theta).zeros_like(theta)
        return SGRLDState(theta, 0, nothing, nothing)

    def step(self, rng: Any, state: SGRLDState, target: Target[FactorPotential]) -> SGRLDState:
        theta, step, mean, weight = state
        xp = namespace(theta)
        h = step_size_at(self.step_size, step)
        if self.freeze is None or step < self.freeze:
            _, (plus, minus, shape, _) = draw_parts(target, rng, theta)
            # A row of W that is not in the minibatch must not lose its scale meanwhile.
            read = plus > 0
            mean = xp.where(read, self.decay * mean + (1 - self.decay) * plus, mean)
            weight = xp.where(read, self.decay * weight + (1 - self.decay), weight)
            drift = minus
            drift -= plus
            drift *= theta
            drift += shape
        else:
            drift = -theta
            drift *= draw_gradient(target, rng, theta)[1]
            drift += 1.0
        # What no minibatch has read yet has no scale, and rests.
        unbiased = mean / xp.where(weight > 0, weight, 1)
        c = xp.where(unbiased > 0, 1 / xp.maximum(unbiased, xp.finfo(theta.dtype).tiny), 0)
        drift *= c
        drift *= h
        drift += theta
        c *= theta
        xp.sqrt(c, out=c)
        c *= noise(rng, theta)
        c *= sqrt(2 * h)
        drift += c
        return SGRLDState(reflect(drift, target), step + 1, mean, weight)


def learnt_scale(learnt: SGRLDState) -> Array:
    """Return c from a state of `SGRLD`, or theta in entries that no minibatch has read."""
    theta, _, mean, weight = learnt
    xp = namespace(theta)
    tiny = xp.finfo(theta.dtype).tiny
    return xp.where(mean > tiny, weight / xp.maximum(mean, tiny), xp.maximum(theta, tiny))


@dataclass(frozen=True)
class EM:
    r"""Stochastic EM: the target's latents move by MCMC, the factors by multiplicative updates.

    .. math:: \theta' = \theta \left( \frac{\mathit{minus} + (s - 1)_+ / \theta}
       {\mathit{plus} + (1 - s)_+ / \theta} \right)^{\rho e}

    with the shape s and the exponent e of the gradient's `Parts`; (.)_+ is the positive part. This
    gives a point estimate: fixed points are the stationary points of the posterior at given
    latents. At rho = 1, -log p does not rise when one factor is updated and the other is fixed.

    Attributes
    ----------
    relaxation
        rho, above 0 and below 2; values above one are faster, but near two EM may oscillate.

    References
    ----------
    Fevotte & Idier, Neural Computation 23 (2011), for alpha = 2.

    Examples
    --------
    >>> EM(relaxation=1.2).needs  # a target as in the example of `SGRLD`
    ('parts',)
    """

    needs: ClassVar[tuple[Need, ...]] = ("parts",)

    relaxation: float = 1.0

    def __post_init__(self) -> None:
        check_ranges(self, relaxation=Range("must lie between 0 and 2", lambda x: 0 < x < 2))

    def init(self, rng: Any, theta: Array) -> SGLDState:
        return SGLDState(theta, 0)

    def step(self, rng: Any, state: SGLDState, target: Target[FactorPotential]) -> SGLDState:
        theta, step = state
        xp = namespace(theta)
        _, (plus, minus, shape, exponent) = draw_parts(target, rng, theta)
        tiny = float(xp.finfo(theta.dtype).tiny)
        inverse = 1 / xp.maximum(theta, 1e-12)
        plus += xp.maximum(1 - shape, 0) * inverse
        minus += xp.maximum(shape - 1, 0) * inverse
        # Rows that the minibatch does not read have neither part, and stay.
        ratio = (minus + tiny) / (plus + tiny)
        ratio **= self.relaxation * exponent
        ratio *= theta
        # Factors that die out would become subnormal, and products of those are slow.
        return SGLDState(xp.maximum(ratio, sqrt(tiny), out=ratio), step + 1)
