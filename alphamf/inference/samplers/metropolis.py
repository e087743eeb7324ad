r"""Shared parts of the Metropolis-Hastings samplers: extended potential, leapfrog, acceptance."""

from collections.abc import Callable, Iterator
from typing import Any

from numpy.linalg import LinAlgError

from alphamf.inference.draws import metric_of
from alphamf.inference.metric import Dense, Metric
from alphamf.inference.random import noise
from alphamf.tools.arrays import Array, dot, namespace

Point = tuple[Array, Array, Array]
"""Position, momentum and gradient of a trajectory, each of shape (*chains, D)."""


class ExtendedPotential:
    r"""A potential extended to the whole space for an integrator, with bounded gradients.

    If the target is positive, U and the metric are extended as even functions of each
    coordinate, a step starts at random signs, and the absolute value of its end has the target's
    law. With a diagonal mass this equals mirroring position and momentum at zero. With any other
    mass mirroring would be wrong, because reversing some coordinates of p changes its kinetic
    energy. The price is that a dense mass, which fits one orthant, is used in all of them.

    Outside of a box far wider than any posterior U is infinite, and gradients are clipped far above
    any useful value, so that a trajectory that diverges stays finite and is rejected. The clipped
    force is a function of the position alone, which is all that reversibility and the preservation
    of volume need.
    """

    potential: Any
    positive: bool

    def __init__(self, potential: Any, positive: bool) -> None:
        self.potential, self.positive = potential, positive

    def unfold(self, rng: Any, theta: Array) -> Array:
        """Give theta random signs if the target is positive."""
        if not self.positive:
            return theta
        chance = rng.random(theta.shape, dtype=theta.dtype)
        momentum: Array = namespace(theta).where(chance < 0.5, -theta, theta)
        return momentum

    def fold(self, theta: Array) -> Array:
        """Map theta to the corresponding position in the target's support."""
        return namespace(theta).abs(theta) if self.positive else theta

    def turn_gradient(self, theta: Array, gradient: Array) -> Array:
        """Convert a gradient between theta and the folded position."""
        return namespace(theta).where(theta < 0, -gradient, gradient) if self.positive else gradient

    def clipped_position(self, theta: Array) -> Array:
        """Return the folded position, clipped to where U can be evaluated."""
        return clip_large(self.fold(theta))

    def grad(self, theta: Array) -> Array:
        return self.turn_gradient(
            theta, clip_large(self.potential.grad(self.clipped_position(theta)), 1 / 3)
        )

    def value(self, theta: Array) -> Array:
        xp = namespace(theta)
        u = self.potential.value(self.clipped_position(theta))
        inside: Array = xp.where((clip_large(theta) == theta).all(-1), u, xp.inf)
        return inside

    def metric(self, theta: Array) -> Metric:
        """Return G, with derivatives adapted to theta's signs; I if G is not definite.

        The law is invariant under any metric, so I is used if a diverging trajectory leads to a G
        that is singular to working precision.
        """
        xp = namespace(theta)
        metric = metric_of(self.potential, self.clipped_position(theta))
        if metric.slope is None:
            return metric
        axes = (-2, -1) if isinstance(metric, Dense) else (-1,)
        slope = metric.slope
        if self.positive:
            slope = slope * xp.expand_dims(xp.where(theta < 0, -1, 1).astype(theta.dtype), axes)
        unit = xp.eye(theta.shape[-1], dtype=theta.dtype) if isinstance(metric, Dense) else 1
        good = xp.expand_dims(_definite(metric), axes)
        return metric._replace(
            g=xp.where(good, metric.g, unit), slope=xp.where(good[..., None], slope, 0)
        )


def _definite(metric: Metric) -> Array:
    """Return for which chains a metric is positive definite to working precision."""
    g, xp = metric.g, namespace(metric.g)
    definite: Array
    if not isinstance(metric, Dense):
        definite = (xp.isfinite(g) & (g > 0)).all(-1)
        return definite
    g = xp.where(xp.isfinite(g).all((-2, -1), keepdims=True), g, 0)
    scale = xp.sqrt(xp.maximum(xp.diagonal(g, axis1=-2, axis2=-1), float(xp.finfo(g.dtype).tiny)))
    g = g / scale[..., :, None] / scale[..., None, :]
    least = 10 * g.shape[-1] * float(xp.finfo(g.dtype).eps)
    try:
        pivots = xp.diagonal(xp.linalg.cholesky(g), axis1=-2, axis2=-1)
        definite = (pivots * pivots > least).all(-1)
    except LinAlgError:  # NumPy stops at the first chain that has none
        definite = xp.linalg.eigvalsh(g)[..., 0] > least
    return definite


def clip_large(x: Array, power: float = 0.2) -> Array:
    """Clip to a power of the dtype's largest number: 5e7 in float32 by default."""
    xp = namespace(x)
    most = float(xp.finfo(x.dtype).max) ** power
    clipped: Array = xp.clip(x, -most, most)
    return clipped


def leapfrog(
    potential: ExtendedPotential,
    theta: Array,
    momentum: Array,
    gradient: Array,
    h: float,
    leaps: int,
    velocity: Callable[[Array], Array],
    force: Callable[[Array], Array] = lambda gradient: gradient,
) -> Iterator[Point]:
    """Yield the point after each leap of size h from a point, with one gradient each."""
    kick = force(gradient)
    for _ in range(leaps):
        momentum = momentum - 0.5 * h * kick
        theta = theta + h * velocity(momentum)
        gradient = potential.grad(theta)
        kick = force(gradient)
        momentum -= 0.5 * h * kick
        yield theta, momentum, gradient


def metropolis(rng: Any, before: Array, after: Array) -> Array:
    """Decide which chains accept the energies `after`, if finite; all of shape (*chains,).

    A chain whose energy before the move is not finite accepts any finite energy.
    """
    xp = namespace(after)
    finite = xp.isfinite(after)
    most = float(xp.finfo(after.dtype).max)
    rise = xp.where(finite, after, 0) - xp.where(xp.isfinite(before), before, most)
    accepted: Array = finite & (rise <= rng.standard_exponential(after.shape, dtype=after.dtype))
    return accepted


def select_accepted(taken: Array, new: Array, old: Array | int) -> Array:
    """Return `new` for chains that are `taken`, shape (*chains,), or `old`, shape (*chains, D)."""
    theta: Array = namespace(new).where(taken[..., None], new, old)
    return theta


def travel(
    rng: Any,
    potential: ExtendedPotential,
    origin: Array,
    inverse: Any,
    h: float,
    leaps: int,
    product: Callable[[Array], Array] = lambda v: v,
    path: list[Point] | None = None,
) -> tuple[Array, Point, Point]:
    """Return which chains accept a trajectory, its start and its end.

    `inverse`: M^-1, with `apply` and `inverse_root` as a `Metric` has them. `product`: v -> C v,
    which the dynamics apply to velocities and forces. `path` gets the points after the start.
    """
    start = origin, inverse.inverse_root(noise(rng, origin)), potential.grad(origin)

    def velocity(momentum: Array) -> Array:
        return product(inverse.apply(momentum))

    for end in leapfrog(potential, *start, h, leaps, velocity, product):
        if path is not None:
            path.append(end)
    before, after = (
        potential.value(theta) + 0.5 * dot(momentum, inverse.apply(momentum))[..., 0]
        for theta, momentum, _ in (start, end)
    )
    return metropolis(rng, before, after), start, end


def move(
    rng: Any, potential: ExtendedPotential, origin: Array, inverse: Any, h: float, leaps: int
) -> tuple[Array, Array, Array]:
    """Make one step of HMC; return which chains accept, and the resulting position and momentum."""
    taken, start, end = travel(rng, potential, origin, inverse, h, leaps)
    return taken, select_accepted(taken, end[0], origin), select_accepted(taken, end[1], start[1])


def count(accepted: Array, taken: Array) -> Array:
    """Return the number of acceptances so far, as an array even for a single chain."""
    total: Array = namespace(accepted).asarray(accepted + taken)
    return total
