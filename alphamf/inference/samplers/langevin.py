r"""Langevin samplers: SGLD, PSGLD with a learned diagonal preconditioner, RSGLD with a metric.

All have this form, up to a correction of the drift, with a step size h and a minibatch's U. G is a
preconditioner: in RSGLD, the inverse of the metric.

.. math:: \theta' = \theta - h\, G \nabla \tilde U(\theta) + \mathcal{N}(0,\, 2 h G).
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from alphamf.errors import AlphaMFError
from alphamf.inference.draws import ask, draw_gradient, metric_of
from alphamf.inference.leaps import Leap, leap_many
from alphamf.inference.metric import Dense
from alphamf.inference.protocols import Need, Potential, RiemannianPotential, Schedule, Target
from alphamf.inference.random import noise
from alphamf.inference.ranges import NOT_NEGATIVE, POSITIVE, SHARE, check_ranges
from alphamf.inference.samplers.reflect import reflect
from alphamf.inference.schedule import square_root, step_size_at
from alphamf.tools.arrays import Array, namespace


class SGLDState(NamedTuple):
    """Position, shape (*chains, D), and number of steps made."""

    theta: Array
    step: int


@dataclass(frozen=True)
class SGLD:
    r"""Stochastic gradient Langevin dynamics, with G = I.

    On a Gaussian of precision a, a constant h gives the variance 1 / (a (1 - h a / 2)), not 1 / a.

    Attributes
    ----------
    step_size
        h, a number or a function of the step index. A tenth of the smallest posterior variance of
        theta, or less, works well.

    References
    ----------
    Welling & Teh, ICML 2011; Simsekli et al., ICML 2016, eq. 3.

    Examples
    --------
    >>> from alphamf.inference.chain import run
    >>> from alphamf.inference.targets.gaussian import LinearGaussian
    >>> target = LinearGaussian(np.eye(2), np.ones(2), 1.0)  # its posterior is N(1/2, I/2)
    >>> *_, last = run(target, SGLD(0.05), steps=100, seed=0, chains=(4000,))
    >>> last.theta.mean(0).round(1), last.theta.var(0).round(1)
    (array([0.5, 0.5]), array([0.5, 0.5]))
    """

    needs: ClassVar[tuple[Need, ...]] = ("bounded gradient",)

    step_size: Schedule = 1e-3

    def init(self, rng: Any, theta: Array) -> SGLDState:
        return SGLDState(theta, 0)

    def step(self, rng: Any, state: SGLDState, target: Target[Potential]) -> SGLDState:
        theta, step = state
        h = step_size_at(self.step_size, step)
        moved = leap_many(rng, target, theta, Leap(h, 0.0, square_root(2 * h), 1.0))
        if moved is not None:
            return SGLDState(moved.theta, step + 1)
        new = draw_gradient(target, rng, theta)[1] * -h
        new += theta
        kick = noise(rng, theta)
        kick *= square_root(2 * h)
        new += kick
        return SGLDState(reflect(new, target), step + 1)


class PSGLDState(NamedTuple):
    """Position, number of steps, and v and w of `PSGLD`; w is 0 without the correction."""

    theta: Array  # Position, shape (*chains, D)
    step: int  # Number of steps made
    square: Array  # v, of the shape of theta
    slope: Array | int  # w, about dv / dtheta, of the shape of theta; 0 without the correction


@dataclass(frozen=True)
class PSGLD:
    r"""Preconditioned SGLD: RMSprop's diagonal preconditioner as G.

    .. math:: G = \frac{1}{\lambda + \sqrt{v}}, \qquad
       v' = \alpha v + (1 - \alpha)\, \bar g \circ \bar g, \qquad \bar g = \nabla \tilde U / N,

    with v = 0 at the start; the mean gradient includes an N-th of the prior's. A step uses G at v'
    (Li et al.), which limits a coordinate's drift to h N / sqrt(1 - alpha), or at v (`lagged`).
    Without :math:`\Gamma_i = \partial G_i / \partial \theta_i` in the drift the law is wrong at any
    step size: in one dimension it is the posterior divided by G. `correction` adds

    .. math:: \Gamma = -\frac{G^2}{2 \sqrt{v}} \circ w, \qquad
       w' = \alpha w + (1 - \alpha) \frac{2}{N}\, \bar g \circ \mathrm{diag}(\nabla^2 \tilde U),

    where w approximates dv / dtheta as if all positions that v averages over moved together, since
    they lie within a few steps of each other. This leaves the posterior invariant up to O(h).

    Attributes
    ----------
    step_size
        h, a number or a function of the step index.
    decay
        alpha, from 0 to below 1.
    damping
        lambda, in units of the mean gradient.
    scale
        N, the number of data points that the gradient sums over.
    lagged
        Whether G is made of the gradients before the current one; excludes `correction`.
    correction
        Whether to add Gamma, which needs ``hessian_diagonal(theta)`` of the potential, of a shape
        that broadcasts to (*chains, D).

    References
    ----------
    Li et al., AAAI 2016, algorithm 1; Simsekli et al., ICML 2016, section 3.1, for the lagged form;
    Ma et al., NIPS 2015, for the sign of Gamma.

    Examples
    --------
    >>> PSGLD(0.05, damping=4.0, correction=True).needs  # run as in the example of `SGLD`
    ('bounded gradient', 'hessian_diagonal')
    """

    step_size: Schedule = 1e-3
    decay: float = 0.9
    damping: float = 1e-3
    scale: float = 1.0
    lagged: bool = False
    correction: bool = False

    @property
    def needs(self) -> tuple[Need, ...]:
        if self.correction:
            return "bounded gradient", "hessian_diagonal"
        return ("bounded gradient",)

    def __post_init__(self) -> None:
        check_ranges(self, decay=SHARE, damping=NOT_NEGATIVE, scale=POSITIVE)
        if self.lagged and self.correction:
            raise AlphaMFError("correction must be off if the metric is lagged")

    def init(self, rng: Any, theta: Array) -> PSGLDState:
        zeros = namespace(theta).zeros_like
        return PSGLDState(theta, 0, zeros(theta), zeros(theta) if self.correction else 0)

    def step(self, rng: Any, state: PSGLDState, target: Target[Potential]) -> PSGLDState:
        theta, step, square, slope = state
        xp = namespace(theta)
        h = step_size_at(self.step_size, step)
        potential, gradient = draw_gradient(target, rng, theta)
        mean = gradient * (1 / self.scale)
        latest = mean * mean
        latest *= 1 - self.decay
        before, square = square, square * self.decay
        square += latest
        # The floor only matters where all gradients so far vanish or underflow.
        root = xp.maximum(before if self.lagged else square, float(xp.finfo(theta.dtype).tiny))
        root = xp.sqrt(root)
        metric = 1.0 / (root + self.damping)
        new = gradient * metric
        if self.correction:
            mean *= ask(potential, "hessian_diagonal", theta, "correction")
            mean *= (1 - self.decay) * 2 / self.scale
            slope = slope * self.decay + mean
            new += metric * metric * slope / (2 * root)
        new *= -h
        new += theta
        metric *= 2 * h
        kick = noise(rng, theta)
        kick *= xp.sqrt(metric)
        new += kick
        return PSGLDState(reflect(new, target), step + 1, square, slope)


@dataclass(frozen=True)
class RSGLD:
    r"""Riemannian stochastic gradient Langevin dynamics, in the potential's metric G.

    .. math:: \theta' = \theta + h \left(-G^{-1} \nabla \tilde U + \Gamma \right)
       + \mathcal{N}(0,\, 2 h G^{-1}), \qquad
       \Gamma_i = \sum_j \frac{\partial (G^{-1})_{ij}}{\partial \theta_j}.

    With Gamma and the full gradient it leaves the posterior invariant up to O(h). A dense G is
    factorised at every step, in time O(D^3), and O(D^3) memory where G varies; the diagonal needs
    O(D), or O(D^2) where G varies. A positive target with a dense G needs `diagonal`, because
    mirroring is correct only under a diagonal metric.

    Attributes
    ----------
    step_size
        h, without a unit; a number or a function of the step index.
    diagonal
        Whether to use the diagonal of G instead of G, which is as correct but mixes more slowly.
    correction
        Whether to add Gamma; without it the law is wrong unless G is constant.

    References
    ----------
    Girolami & Calderhead, JRSS B 73 (2011); Patterson & Teh, NIPS 2013; Simsekli et al., ICML 2016,
    sections 2 and 3.1, which call it SGRLD; Ma et al., NIPS 2015, for the sign of Gamma.

    Examples
    --------
    >>> RSGLD(0.1).needs  # run as in the example of `SGLD`
    ('bounded gradient', 'metric')
    """

    needs: ClassVar[tuple[Need, ...]] = ("bounded gradient", "metric")

    step_size: Schedule = 0.1
    diagonal: bool = False
    correction: bool = True

    def init(self, rng: Any, theta: Array) -> SGLDState:
        return SGLDState(theta, 0)

    def step(self, rng: Any, state: SGLDState, target: Target[RiemannianPotential]) -> SGLDState:
        theta, step = state
        h = step_size_at(self.step_size, step)
        potential = target.draw(rng, theta)
        metric = metric_of(potential, theta)
        if isinstance(metric, Dense):
            if not self.diagonal and target.positive:
                raise AlphaMFError("diagonal must be True if the target is positive")
            metric = metric.diagonal() if self.diagonal else metric
        new = metric.solve(potential.grad(theta))
        if self.correction:
            new -= metric.divergence()
        new *= -h
        new += theta
        kick = metric.inverse_root(noise(rng, theta))
        kick *= square_root(2 * h)
        new += kick
        return SGLDState(reflect(new, target), step + 1)
