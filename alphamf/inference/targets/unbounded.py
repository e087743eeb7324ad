r"""A positive posterior in unbounded coordinates, so that any sampler can be used.

.. math:: \theta = \frac c4\, \zeta(u)^2, \qquad \zeta(u) = \log(1 + e^u).

Far from zero :math:`u = 2 \sqrt{\theta / c}`, in which the metric of `SGRLD` is the identity; near
zero :math:`2 u = \log \theta` up to a constant, so theta = 0 is at u = minus infinity. The law
of u has the potential

.. math:: V(u) = U(\theta(u)) - \log \theta'(u), \qquad
   \nabla V = \tfrac c2 \zeta \sigma\, (\mathit{plus} - \mathit{minus})
   + (1 - 2\, \mathit{shape})\, \sigma / \zeta - (1 - \sigma), \qquad \sigma = \zeta',

with the target's `Parts`. At minus infinity this gradient tends to -2 shape, for any Gamma prior.
"""

from __future__ import annotations

from math import exp
from typing import Any, NamedTuple

from alphamf.inference.draws import draw_parts, parts_of
from alphamf.inference.protocols import FactorPotential, Parts, Target
from alphamf.tools.arrays import Array, namespace

LOWEST = -20.0
"""Coordinate below which theta stays at 1e-18 c: smaller values would become subnormal, which
makes products slow. The gradient has reached its limit there."""

FLAT = -8.0
"""Coordinate below which V is a straight line, to single precision: theta is below 1e-7 c there."""


class UnboundedTarget:
    r"""A positive target in unbounded coordinates u: :math:`\theta = c \log(1 + e^u)^2 / 4`.

    Parameters
    ----------
    target
        A target of positive factors, whose potentials have ``parts``.
    scale
        c, positive, shape (*chains, D) or (D,), constant during a run. With 1 / ``plus`` of the
        potential's ``parts``, the potential of u has a curvature of about one.

    Attributes
    ----------
    size, latents
        The target's own.

    Examples
    --------
    >>> from alphamf.inference.chain import run
    >>> from alphamf.inference.protocols import Parts
    >>> from alphamf.inference.samplers.langevin import SGLD
    >>> class Gamma:
    ...     # Shape 3 and rate 2.
    ...     size, positive, latents = 1, True, {}
    ...     def draw(self, rng, theta):
    ...         return self
    ...     def parts(self, theta):
    ...         return Parts(np.full_like(theta, 2.0), 0 * theta, np.array([3.0]), np.ones(1))
    >>> space = UnboundedTarget(Gamma(), scale=np.array([0.5]))
    >>> start = space.coordinates(np.ones((4000, 1)))
    >>> *_, last = run(space, SGLD(0.05), steps=200, seed=0, start=start)
    >>> space.position(last.theta).mean().round(1)  # shape / rate
    np.float64(1.5)
    """

    positive = False

    def __init__(self, target: Target[FactorPotential], scale: Array) -> None:
        self.target: Target[FactorPotential] = target
        self.scale: Array = scale
        self.size: int = target.size

    @property
    def latents(self) -> dict[str, Array]:
        """The target's latents; its `start` may replace them."""
        return self.target.latents

    def position(self, u: Array) -> Array:
        """Return theta at coordinates u, of the same shape."""
        theta, _ = _softplus(u)
        theta *= theta
        theta *= self.scale
        theta *= 0.25
        return theta

    def coordinates(self, theta: Array) -> Array:
        """Return the coordinates u of theta, of the same shape; at least about `LOWEST`."""
        xp = namespace(theta)
        root = xp.maximum(2 * xp.sqrt(theta / self.scale), exp(LOWEST))
        return root + xp.log(-xp.expm1(-root))

    def start(self, rng: Any, chains: tuple[int, ...] = ()) -> Array:
        """Draw a start from the target; return its coordinates u, shape (*chains, D)."""
        return self.coordinates(self.target.start(rng, chains))

    def draw(self, rng: Any, theta: Array) -> UnboundedPotential:
        """Draw from the target, with `theta` as coordinates u, and return the potential V."""
        potential, parts = draw_parts(self.target, rng, self.position(theta))
        return UnboundedPotential(self, potential, theta, parts)


class UnboundedPotential(NamedTuple):
    """The potential V of coordinates u at a fixed minibatch and latents."""

    space: UnboundedTarget
    potential: Any  # A `FactorPotential`; some have a value, too
    # Coordinates of the draw, and the parts of the gradient there.
    origin: Array
    known: Parts

    def value(self, theta: Array) -> Array:
        """Return V up to a constant, shape (*chains,); the target's potential must have a value.

        Below `FLAT` it continues as a straight line, because targets may clip a tiny theta.
        """
        xp = namespace(theta)
        bounded = xp.maximum(theta, FLAT)
        place = self.space.position(bounded)
        root, slope = _softplus(bounded)
        line = xp.log(root * slope) + 2 * self.known.shape * (theta - bounded)
        return self.potential.value(place) - line.sum(-1)

    def grad(self, theta: Array) -> Array:
        if theta is self.origin:
            parts = self.known
        else:
            parts = parts_of(self.potential, self.space.position(theta))
        plus, minus, shape, _ = parts
        root, slope = _softplus(theta)
        gradient: Array = plus - minus
        gradient *= self.space.scale
        gradient *= 0.5
        gradient *= root
        gradient += (1 - 2 * shape) / root
        gradient *= slope
        gradient += slope
        gradient -= 1
        return gradient


def _softplus(u: Array) -> tuple[Array, Array]:
    """Return zeta(u) and its slope, a logistic function, with u clipped to at least `LOWEST`."""
    xp = namespace(u)
    bounded = xp.maximum(u, LOWEST)
    small = xp.exp(-xp.abs(bounded))
    slope = xp.where(bounded > 0, 1, small)
    root: Array = xp.maximum(bounded, 0)
    root += xp.log1p(small)
    small += 1
    slope /= small
    return root, slope
