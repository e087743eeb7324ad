"""A kernel of another library as a sampler, so that `check` can test it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from alphamf.inference.protocols import Need, Target
from alphamf.tools.arrays import Array


class KernelState(NamedTuple):
    """State of a `Kernel`: position, number of steps made, and the kernel's own state."""

    theta: Array
    step: int
    inner: Any


@dataclass(frozen=True)
class Kernel:
    """A sampler of another library, given by two functions that include their own target.

    Attributes
    ----------
    step_size
        The kernel's step size, in its own convention.
    start
        Function of a seed and theta, shape (chains, D), that returns the kernel's state.
    move
        Function of a seed, the kernel's state and the step size. Returns the next state and theta,
        a NumPy array of shape (chains, D). The target that `step` gets is not passed on.
    name
        Name for reports.

    Examples
    --------
    >>> from alphamf.inference.checks import check
    >>> from alphamf.inference.targets.gaussian import LinearGaussian
    >>> target = LinearGaussian(np.eye(2), np.zeros(2), 1.0)  # its posterior is N(0, I/2)
    >>> def langevin(seed, theta, h):
    ...     noise = np.random.default_rng(seed).standard_normal(theta.shape)
    ...     theta = theta - h * 2 * theta + np.sqrt(2 * h) * noise
    ...     return theta, theta
    >>> check(Kernel(0.2, lambda seed, theta: theta, langevin), target).passed
    True
    """

    needs: ClassVar[tuple[Need, ...]] = ()

    step_size: float
    start: Callable[[int, Array], Any]
    move: Callable[[int, Any, float], tuple[Any, Array]]
    name: str = "Kernel"

    def __repr__(self) -> str:
        return f"{self.name}({self.step_size:g})"

    def init(self, rng: Any, theta: Array) -> KernelState:
        return KernelState(theta, 0, self.start(_seed(rng), theta))

    def step(self, rng: Any, state: KernelState, target: Target[Any]) -> KernelState:
        inner, theta = self.move(_seed(rng), state.inner, self.step_size)
        return KernelState(theta, state.step + 1, inner)


def _seed(rng: Any) -> int:
    return int(rng.integers(1 << 31))
