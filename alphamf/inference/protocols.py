"""The protocols: target, potential, sampler and record.

`theta` is one flat vector, or many: its leading axes are independent chains, its last axis has
length D. Some targets return parts of it as views. ``chain.run`` moves it with a sampler.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from alphamf.inference.metric import Metric
from alphamf.tools.arrays import Array

Schedule = float | Callable[[int], float]
"""A step size: a constant, or a function of the step index (0 for the first step)."""


class Parts(NamedTuple):
    r"""A gradient in two positive parts and a term of the prior, as multiplicative updates need it.

    .. math:: \nabla U = \mathit{plus} - \mathit{minus} + (1 - \mathit{shape}) / \theta,
       \qquad \mathit{plus}, \mathit{minus} \ge 0.

    `shape` is the exponent of theta in the prior plus one (Gamma's shape; 1 for a flat prior).
    `exponent` is the power with which the update theta (minus / plus)^exponent does not overshoot.

    Attributes
    ----------
    plus, minus
        Positive parts of the gradient, of the shape of theta.
    shape, exponent
        As above, shape (D,).

    Examples
    --------
    >>> theta = np.array([2.0])
    >>> parts = Parts(np.array([1.0]), np.array([0.0]), np.array([3.0]), np.array([1.0]))
    >>> parts.plus - parts.minus + (1 - parts.shape) / theta  # the gradient
    array([0.])
    """

    plus: Array
    minus: Array
    shape: Array
    exponent: Array


class Potential(Protocol):
    """U = -log posterior with the minibatch and the latents held fixed.

    Examples
    --------
    >>> class Quartic:
    ...     # U = |theta|^4 / 4.
    ...     def grad(self, theta):
    ...         return (theta**2).sum(-1, keepdims=True) * theta
    """

    def grad(self, theta: Array) -> Array:
        """Return the gradient, shape as theta; its mean over minibatches is the full gradient."""
        ...


class ValuePotential(Potential, Protocol):
    """A potential that also has a value, for samplers whose `needs` contain ``"value"``."""

    def value(self, theta: Array) -> Array:
        """Return U at theta up to a constant, shape ``theta.shape[:-1]``."""
        ...


class FactorPotential(Potential, Protocol):
    """A potential of positive factors, whose gradient splits into two positive parts."""

    def parts(self, theta: Array) -> Parts:
        """Return the gradient at theta, split as in `Parts`."""
        ...


class RiemannianPotential(Potential, Protocol):
    """A potential with a metric, which only Riemannian samplers need."""

    def metric(self, theta: Array) -> Metric:
        """Return the metric at theta, e.g. the Fisher information; the same for each minibatch."""
        ...


P = TypeVar("P", bound=Potential, covariant=True)


class Target(Protocol[P]):
    """A posterior, which draws starting points and potentials.

    Attributes
    ----------
    size
        D, the length of theta's last axis.
    positive
        Whether all entries of theta are positive, so that samplers reflect at zero.
    latents
        Variables that `draw` moves by itself; empty for most targets.

    Examples
    --------
    >>> class Normal:
    ...     # The standard normal law: target and potential in one.
    ...     size, positive, latents = 1, False, {}
    ...     def start(self, rng, chains=()):
    ...         return rng.standard_normal((*chains, 1))
    ...     def draw(self, rng, theta):
    ...         return self  # a minibatch would be drawn here
    ...     def grad(self, theta):
    ...         return theta
    >>> from alphamf.inference.chain import run
    >>> from alphamf.inference.samplers.langevin import SGLD
    >>> *_, last = run(Normal(), SGLD(0.1), steps=100, seed=0, chains=(4000,))
    >>> last.theta.std().round(1)
    np.float64(1.0)
    """

    size: int
    positive: bool

    @property
    def latents(self) -> dict[str, Array]:
        """Variables besides theta that `draw` moves, by name; empty for most targets."""
        ...

    def start(self, rng: Any, chains: tuple[int, ...] = ()) -> Array:
        """Draw a starting value of shape ``(*chains, D)``."""
        ...

    def draw(self, rng: Any, theta: Array) -> P:
        """Draw a minibatch, move the latents given theta, and return the potential for both."""
        ...


class State(Protocol):
    """The state of a sampler: a NamedTuple of arrays and numbers that starts with theta and step.

    The sampler may reuse memory: after the next step, only theta and step of a state are still
    valid.
    """

    @property
    def theta(self) -> Array:
        """Position, shape ``(..., D)``."""
        ...

    @property
    def step(self) -> int:
        """Number of steps made."""
        ...


S = TypeVar("S", bound=State)


Need = Literal[
    "bounded gradient", "value", "metric", "parts", "hessian_diagonal", "no latents", "no wall"
]
"""What a sampler may need besides a gradient.

``"value"``, ``"metric"``, ``"parts"`` and ``"hessian_diagonal"`` are methods of the potential.
``"bounded gradient"``: on a positive target, the gradient must have a bound at zero, so that priors
of positive factors must have a shape of at least one; samplers that move by ``parts`` take any
shape. ``"no latents"``: the target must have none. ``"no wall"``: the target must not be positive,
but `UnboundedTarget` can wrap it.
"""


class Sampler(Protocol[S]):
    """A frozen dataclass of hyperparameters that moves a position.

    Attributes
    ----------
    needs
        Requirements on a target and its potential besides ``grad``.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from alphamf.inference.samplers.langevin import SGLDState
    >>> @dataclass(frozen=True)
    ... class Descent:
    ...     # Gradient descent: no sampler, but of its form.
    ...     step_size: float
    ...     needs = ()
    ...     def init(self, rng, theta):
    ...         return SGLDState(theta, 0)
    ...     def step(self, rng, state, target):
    ...         gradient = target.draw(rng, state.theta).grad(state.theta)
    ...         return SGLDState(state.theta - self.step_size * gradient, state.step + 1)
    >>> from alphamf.inference.chain import run
    >>> from alphamf.inference.targets.gaussian import LinearGaussian
    >>> *_, last = run(LinearGaussian(np.eye(2), np.ones(2), 1.0), Descent(0.1), steps=99, seed=0)
    >>> last.theta.round(3)
    array([0.5, 0.5])
    """

    @property
    def needs(self) -> tuple[Need, ...]:
        """Needs that a target and its potential must meet in addition to ``grad``."""
        ...

    def init(self, rng: Any, theta: Array) -> S:
        """Return the initial state at theta."""
        ...

    def step(self, rng: Any, state: S, target: Target[Any]) -> S:
        """Return the next state; the sampler draws as many potentials as it needs."""
        ...


class Record(Protocol):
    """A collector of a statistic from the states of a run.

    Examples
    --------
    >>> class Largest:
    ...     # The largest theta so far.
    ...     largest = -np.inf
    ...     def add(self, state, target):
    ...         self.largest = max(self.largest, float(state.theta.max()))
    ...     def arrays(self):
    ...         return {"largest": np.asarray(self.largest)}
    ...     def load(self, arrays):
    ...         self.largest = float(arrays["largest"])
    """

    def add(self, state: Any, target: Any) -> None:
        """Add one state."""
        ...

    def arrays(self) -> dict[str, Array]:
        """Return the arrays that a checkpoint stores, by name."""
        ...

    def load(self, arrays: dict[str, Array]) -> None:
        """Restore the record from the arrays that `arrays` returned."""
        ...
