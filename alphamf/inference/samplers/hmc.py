r"""Hamiltonian Monte Carlo: HMC with a mass matrix, RHMC with a metric of the position, HMC-BFGS.

A step draws a momentum and follows Hamilton's equations of H = U + kinetic energy. The end is
accepted with probability min(1, exp(H at the start - H at the end)). U must be of all data.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from numpy.linalg import LinAlgError

from alphamf.inference.draws import metric_of
from alphamf.inference.metric import Dense, Metric
from alphamf.inference.protocols import Need, RiemannianPotential, Schedule, Target, ValuePotential
from alphamf.inference.random import noise
from alphamf.inference.ranges import POSITIVE, at_least, check_ranges
from alphamf.inference.samplers import lbfgs
from alphamf.inference.samplers.masses import Mass, UnitMass
from alphamf.inference.schedule import step_size_at
from alphamf.tools.arrays import Array, dot, namespace

Point = tuple[Array, Array, Array]
"""Position, momentum and U's gradient at a point of a trajectory, each of shape (*chains, D)."""


class ExtendedPotential(NamedTuple):
    r"""A potential extended to the whole space for an integrator, with bounded gradients.

    If the target is positive, U and the metric are extended as even functions of each
    coordinate, a step starts at random signs, and the absolute value of its end has the target's
    law. With a diagonal mass this equals mirroring position and momentum at zero. With any other
    mass mirroring would be wrong, because reversing some coordinates of p changes its kinetic
    energy. The price is that a dense mass, which fits one orthant, is used in all of them.

    Outside of a box that is far wider than any posterior, U is infinite; gradients are clipped far
    above any useful value. So a trajectory that diverges stays finite and is rejected. The clipped
    force is a function of the position alone, which is all that reversibility and the preservation
    of volume need.
    """

    potential: Any
    positive: bool

    def unfold(self, rng: Any, theta: Array) -> Array:
        """Return theta, with random signs if the target is positive."""
        if not self.positive:
            return theta
        chance = rng.random(theta.shape, dtype=theta.dtype)
        return namespace(theta).where(chance < 0.5, -theta, theta)

    def fold(self, theta: Array) -> Array:
        """Return the absolute value of theta if the target is positive; otherwise theta."""
        return namespace(theta).abs(theta) if self.positive else theta

    def turn_gradient(self, theta: Array, gradient: Array) -> Array:
        """Return the gradient by theta, given the one by the folded position, or the reverse."""
        return namespace(theta).where(theta < 0, -gradient, gradient) if self.positive else gradient

    def clipped_position(self, theta: Array) -> Array:
        """Return the folded position, clipped to the box in which U is evaluated."""
        return clip_large(self.fold(theta))

    def grad(self, theta: Array) -> Array:
        gradient = self.potential.grad(self.clipped_position(theta))
        return self.turn_gradient(theta, clip_large(gradient, 1 / 3))

    def value(self, theta: Array) -> Array:
        xp = namespace(theta)
        u = self.potential.value(self.clipped_position(theta))
        return xp.where((clip_large(theta) == theta).all(-1), u, xp.inf)

    def metric(self, theta: Array) -> Metric:
        """Return G, with derivatives adapted to theta's signs; I if a varying G is not definite.

        The law is invariant under any metric, so I is used if a diverging trajectory leads to a G
        that is not positive definite to working precision.
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
    """Return in which chains G is positive definite to working precision, shape (*chains,)."""
    g, xp = metric.g, namespace(metric.g)
    if not isinstance(metric, Dense):
        return (xp.isfinite(g) & (g > 0)).all(-1)
    g = xp.where(xp.isfinite(g).all((-2, -1), keepdims=True), g, 0)
    scale = xp.sqrt(xp.maximum(xp.diagonal(g, axis1=-2, axis2=-1), float(xp.finfo(g.dtype).tiny)))
    g = g / scale[..., :, None] / scale[..., None, :]
    least = 10 * g.shape[-1] * float(xp.finfo(g.dtype).eps)
    try:
        pivots = xp.diagonal(xp.linalg.cholesky(g), axis1=-2, axis2=-1)
        return (pivots * pivots > least).all(-1)
    except LinAlgError:  # NumPy stops at the first chain that has none
        return xp.linalg.eigvalsh(g)[..., 0] > least


def clip_large(x: Array, power: float = 0.2) -> Array:
    """Return x clipped to +- a power of its dtype's largest number: by default, 5e7 in float32."""
    xp = namespace(x)
    most = float(xp.finfo(x.dtype).max) ** power
    return xp.clip(x, -most, most)


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
    """Yield the `Point` after each of `leaps` leaps of size h; a leap costs one gradient."""
    kick = force(gradient)
    for _ in range(leaps):
        momentum = momentum - 0.5 * h * kick
        theta = theta + h * velocity(momentum)
        gradient = potential.grad(theta)
        kick = force(gradient)
        momentum -= 0.5 * h * kick
        yield theta, momentum, gradient


def metropolis(rng: Any, before: Array, after: Array) -> Array:
    """Return which chains accept a move, given the energies; all of shape (*chains,).

    If `after` is not finite, the move is rejected; otherwise accepted if `before` is not finite.
    """
    xp = namespace(after)
    finite = xp.isfinite(after)
    most = float(xp.finfo(after.dtype).max)
    rise = xp.where(finite, after, 0) - xp.where(xp.isfinite(before), before, most)
    return finite & (rise <= rng.standard_exponential(after.shape, dtype=after.dtype))


def select_accepted(taken: Array, new: Array, old: Array | int) -> Array:
    """Return `new`, shape (..., *chains, D), in chains `taken`, (*chains,), and `old` in others."""
    return namespace(new).where(taken[..., None], new, old)


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
    """Return each chain's number of acceptances so far, as an array even for a single chain."""
    return namespace(accepted).asarray(accepted + taken)


class HMCState(NamedTuple):
    """Position, number of steps, acceptances per chain, and the state of the mass."""

    theta: Array  # Position, shape (*chains, D)
    step: int  # Number of steps made
    accepted: Array  # Number of acceptances of each chain, shape (*chains,)
    mass: Any  # The mass's state


@dataclass(frozen=True)
class HMC:
    r"""Hamiltonian Monte Carlo with the leapfrog integrator.

    .. math:: p \sim \mathcal{N}(0, M), \qquad
       p \leftarrow p - \tfrac{\epsilon}{2} \nabla U(\theta), \quad
       \theta \leftarrow \theta + \epsilon M^{-1} p, \quad
       p \leftarrow p - \tfrac{\epsilon}{2} \nabla U(\theta),

    the three updates `leaps` times. The posterior is invariant, exactly, at any step size, if U is
    of all data and M does not adapt; the probability of a rejection is O(epsilon^2). A step costs
    leaps + 1 gradients and two values.

    Attributes
    ----------
    step_size, leaps
        epsilon, a number or a function of the step index, and leapfrog steps per step.
    mass
        M: a `masses.UnitMass`, `masses.ConstantMass` or `masses.MassEM`.

    References
    ----------
    Neal, Handbook of MCMC (2011), chapter 5.

    Examples
    --------
    >>> from alphamf.inference.chain import run
    >>> from alphamf.inference.targets.gaussian import LinearGaussian
    >>> target = LinearGaussian(np.eye(2), np.ones(2), 1.0)  # its posterior is N(1/2, I/2)
    >>> *_, last = run(target, HMC(0.3, leaps=5), steps=30, seed=0, chains=(4000,))
    >>> last.theta.mean(0).round(1), last.theta.var(0).round(1)
    (array([0.5, 0.5]), array([0.5, 0.5]))
    """

    needs: ClassVar[tuple[Need, ...]] = ("bounded gradient", "value")

    step_size: Schedule = 0.03
    leaps: int = 10
    mass: Mass = field(default_factory=UnitMass)

    def __post_init__(self) -> None:
        check_ranges(self, leaps=at_least(1))

    def init(self, rng: Any, theta: Array) -> HMCState:
        accepted = namespace(theta).zeros(theta.shape[:-1], int)
        return HMCState(theta, 0, accepted, self.mass.init(theta))

    def step(self, rng: Any, state: HMCState, target: Target[ValuePotential]) -> HMCState:
        theta, step, accepted, mass = state
        h = step_size_at(self.step_size, step)
        potential = ExtendedPotential(target.draw(rng, theta), target.positive)
        origin = potential.unfold(rng, theta)
        inverse = self.mass.inverse(mass)
        taken, end, momentum = move(rng, potential, origin, inverse, h, self.leaps)
        theta = potential.fold(end)
        mass = self.mass.update(rng, mass, theta, momentum)
        return HMCState(theta, step + 1, count(accepted, taken), mass)


class RHMCState(NamedTuple):
    """Position, number of steps, and acceptances of each chain."""

    theta: Array  # Position, shape (*chains, D)
    step: int  # Number of steps made
    accepted: Array  # Number of acceptances of each chain, shape (*chains,)


@dataclass(frozen=True)
class RHMC:
    r"""Riemannian manifold Hamiltonian Monte Carlo with the generalised leapfrog integrator.

    .. math:: H = U(\theta) + \tfrac12 p^\top G(\theta)^{-1} p + \tfrac12 \log |G(\theta)|, \qquad
       p \sim \mathcal{N}(0, G(\theta)),

    .. math:: \begin{aligned}
       p_{1/2} &= p - \tfrac{\epsilon}{2} \nabla_\theta H(\theta, p_{1/2}), \\
       \theta' &= \theta + \tfrac{\epsilon}{2} (G(\theta)^{-1} + G(\theta')^{-1}) p_{1/2}, \\
       p' &= p_{1/2} - \tfrac{\epsilon}{2} \nabla_\theta H(\theta', p_{1/2}).
       \end{aligned}

    The first two equations are solved by n fixed-point iterations. The posterior is invariant up to
    their error, O(epsilon^(n + 1)). If a step is too large for them to converge, the end is mostly
    rejected. A leap costs one gradient and n metrics, each in time D^3 where G is dense.

    Attributes
    ----------
    step_size, leaps
        epsilon, a number or a function of the step index, and leapfrog steps per step.
    fixed_points
        n, iterations for each of the two implicit equations.

    References
    ----------
    Girolami & Calderhead, JRSS B 73 (2011), section 6 and eqs. 16 to 18.

    Examples
    --------
    >>> RHMC(0.5, leaps=3).needs  # run as in the example of `HMC`
    ('bounded gradient', 'value', 'metric')
    """

    needs: ClassVar[tuple[Need, ...]] = ("bounded gradient", "value", "metric")

    step_size: Schedule = 0.3
    leaps: int = 10
    fixed_points: int = 6

    def __post_init__(self) -> None:
        check_ranges(self, leaps=at_least(1), fixed_points=at_least(1))

    def init(self, rng: Any, theta: Array) -> RHMCState:
        return RHMCState(theta, 0, namespace(theta).zeros(theta.shape[:-1], int))

    def step(self, rng: Any, state: RHMCState, target: Target[RiemannianPotential]) -> RHMCState:
        theta, step, accepted = state
        h = step_size_at(self.step_size, step)
        potential = ExtendedPotential(target.draw(rng, theta), target.positive)
        origin = potential.unfold(rng, theta)
        metric = potential.metric(origin)
        momentum = metric.root(noise(rng, theta))
        before = _energy(potential, metric, origin, momentum)
        end, momentum = self.flow(potential, metric, origin, momentum, h)
        after = _energy(potential, potential.metric(end), end, momentum)
        taken = metropolis(rng, before, after)
        theta = potential.fold(select_accepted(taken, end, origin))
        return RHMCState(theta, step + 1, count(accepted, taken))

    def flow(
        self, potential: ExtendedPotential, metric: Metric, theta: Array, momentum: Array, h: float
    ) -> tuple[Array, Array]:
        """Return the position and momentum after `leaps` leaps of size h, shape (*chains, D)."""
        gradient = potential.grad(theta)
        for _ in range(self.leaps):
            half = momentum
            for _ in range(self.fixed_points):
                half = momentum - 0.5 * h * (gradient + metric.force(half))
                half = clip_large(half, 1 / 3)
            velocity = metric.solve(half)
            origin = theta + 0.5 * h * velocity
            for _ in range(self.fixed_points):
                theta = clip_large(origin + 0.5 * h * velocity)
                metric = potential.metric(theta)
                velocity = metric.solve(half)
            gradient = potential.grad(theta)
            momentum = half - 0.5 * h * (gradient + metric.force(half))
        return theta, momentum


def _energy(potential: ExtendedPotential, metric: Metric, theta: Array, momentum: Array) -> Array:
    kinetic = dot(momentum, metric.solve(momentum))[..., 0] + metric.log_det()
    return potential.value(theta) + 0.5 * kinetic


class HMCBFGSState(NamedTuple):
    """Newest sample, number of steps, acceptances, and the ensemble."""

    theta: Array  # Newest sample, shape (*chains, D)
    step: int  # Number of steps made
    accepted: Array  # Number of acceptances of each chain, of all its members, shape (*chains,)
    # The members in the order of their last moves, shape (K, *chains, D); the last one is theta.
    past: Array


@dataclass(frozen=True)
class HMCBFGS:
    r"""HMC-BFGS: HMC of an ensemble; when a member moves, the others determine its inverse mass.

    .. math:: p \sim \mathcal{N}(0, H^{-1}), \qquad
       \dot\theta = H p, \qquad \dot p = -\nabla U(\theta),

    where H is L-BFGS's inverse Hessian. Its K - 2 pairs are the differences of successive other
    members, in the order of their last moves. A step moves the member that was moved least
    recently, on which H does not depend, so the product of K posteriors is invariant, exactly, at
    any step size. All members start at one theta, and share latents, which is exact only if `draw`
    draws them afresh. A step costs K + leaps gradients and two values.

    Attributes
    ----------
    step_size, leaps
        epsilon, a number or a function of the step index, and leapfrog steps per step.
    ensemble
        K, at least 3.
    gamma
        H is gamma I in directions that are orthogonal to all pairs.

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
        check_ranges(self, leaps=at_least(1), ensemble=at_least(3), gamma=POSITIVE)

    @property
    def turns(self) -> int:
        return self.ensemble

    def init(self, rng: Any, theta: Array) -> HMCBFGSState:
        xp = namespace(theta)
        past = xp.stack([theta] * self.ensemble)
        return HMCBFGSState(theta, 0, xp.zeros(theta.shape[:-1], int), past)

    def step(self, rng: Any, state: HMCBFGSState, target: Target[ValuePotential]) -> HMCBFGSState:
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
