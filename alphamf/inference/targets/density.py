r"""A posterior given by functions: a log-likelihood of N data points, and the logarithm of a prior.

.. math:: U(\theta) = -\frac{N}{n} \sum_{i \in \Omega} \log p(x_i \mid \theta) - \log p(\theta),
   \qquad |\Omega| = n.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from alphamf.errors import AlphaMFError
from alphamf.inference.random import draw_rows
from alphamf.inference.ranges import at_least, check_ranges
from alphamf.tools.arrays import Array, namespace


class Density(Protocol):
    """A function log p of one theta and of rows of the data, evaluated for many chains at once."""

    def place(self, data: tuple[Any, ...]) -> tuple[Any, ...]: ...

    def grad(self, theta: Array, data: tuple[Any, ...], chosen: Array | None) -> Array:
        """Return log p's gradient as a new array; `chosen`: rows, (*chains, n), or None: all."""
        ...

    def value(self, theta: Array, data: tuple[Any, ...], chosen: Array | None) -> Array: ...


class NumPyDensity:
    """A log density given by its gradient, and by its value for samplers that need it.

    The functions get one theta of shape (D,) at a time, and after it the rows of each data array.

    Parameters
    ----------
    gradient
        Function that returns the gradient of log p, shape (D,).
    log_density
        Function that returns log p, a number; needed by samplers that use values, such as HMC.

    Examples
    --------
    >>> density = NumPyDensity(lambda theta, x: (x - theta).sum(0))  # the mean of normal data
    >>> density.grad(np.zeros((1, 2)), (np.ones((5, 2)),), None)
    array([[5., 5.]])
    """

    def __init__(
        self,
        gradient: Callable[..., Any],
        log_density: Callable[..., Any] | None = None,
    ) -> None:
        self.gradient: Callable[..., Any] = gradient
        self.log_density: Callable[..., Any] | None = log_density

    def place(self, data: tuple[Any, ...]) -> tuple[Any, ...]:
        return data

    def grad(self, theta: Array, data: tuple[Any, ...], chosen: Array | None) -> Array:
        found = self._each(self.gradient, theta, data, chosen)
        if found.shape[1:] != theta.shape[-1:]:
            raise AlphaMFError(
                f"the gradient of log p must have the shape {theta.shape[-1:]} of theta, not "
                f"{found.shape[1:]}; a function is the gradient, not the log density"
            )
        return found.reshape(theta.shape)

    def value(self, theta: Array, data: tuple[Any, ...], chosen: Array | None) -> Array:
        if self.log_density is None:
            raise AlphaMFError(
                "this sampler needs values of the log density; give NumPyDensity(gradient, "
                "log_density)"
            )
        found = self._each(self.log_density, theta, data, chosen)
        if found.ndim > 1:
            raise AlphaMFError(f"the log density must be a number, not of shape {found.shape[1:]}")
        return found.reshape(theta.shape[:-1])

    def _each(
        self, function: Callable[..., Any], theta: Array, data: Any, chosen: Array | None
    ) -> Array:
        xp = namespace(theta)
        positions = theta.reshape(-1, theta.shape[-1])
        if chosen is None:
            found = [function(row, *data) for row in positions]
        else:
            picks = chosen.reshape(len(positions), -1)
            found = [
                function(row, *(array[pick] for array in data))
                for row, pick in zip(positions, picks, strict=True)
            ]
        return xp.array(found, theta.dtype)


class DensityTarget:
    """The posterior of `density`, with a minibatch of its own for each chain.

    Parameters
    ----------
    density
        Log-likelihood: the sum over the rows that it gets, without the prior. A function is taken
        as the gradient of a `NumPyDensity`.
    start
        Where chains start, shape (D,).
    data
        An array, or a tuple or list of arrays, whose first axes are the N data points; None: none.
    batch
        n, the number of data points per draw, chosen with replacement; None: all of them.
    prior
        Log density of theta alone, given as `density` is; None: flat.

    Attributes
    ----------
    size
        D.

    Raises
    ------
    AlphaMFError
        A density has the wrong type, lengths of data differ, or `batch` is below 1 or without data.

    Examples
    --------
    >>> x = np.array([[1.0], [3.0]])
    >>> target = DensityTarget(lambda theta, x: (x - theta).sum(0), np.zeros(1), data=x)
    >>> target.draw(None, np.zeros((1, 1))).grad(np.zeros((1, 1)))  # U's gradient
    array([[-4.]])
    """

    positive = False

    def __init__(
        self,
        density: Density | Callable[..., Any],
        start: Array,
        *,
        data: Any = None,
        batch: int | None = None,
        prior: Density | Callable[..., Any] | None = None,
    ) -> None:
        self.density: Density = _density(density)
        self.prior: Density | None = None if prior is None else _density(prior)
        rows = () if data is None else tuple(data) if isinstance(data, (tuple, list)) else (data,)
        self.count: int = _checked_count(rows, batch)
        self.data: tuple[Any, ...] = self.density.place(rows)
        self.batch: int | None = batch
        check_ranges(self, batch=at_least(1))
        self.size: int = start.shape[-1]
        self.latents: dict[str, Array] = {}
        self._start = start

    def start(self, rng: Any, chains: tuple[int, ...] = ()) -> Array:
        """Return the start for every chain, shape (*chains, D)."""
        xp = namespace(self._start)
        return xp.broadcast_to(self._start, (*chains, self.size)).copy()

    def draw(self, rng: Any, theta: Array) -> DensityPotential:
        if self.batch is None:
            return DensityPotential(self, None)
        chosen = draw_rows(rng, self.count, (*theta.shape[:-1], self.batch))
        return DensityPotential(self, chosen)


class DensityPotential:
    """U of a minibatch: of the rows `chosen`, shape (*chains, n), or of all rows if None."""

    def __init__(self, target: DensityTarget, chosen: Array | None) -> None:
        self.target: DensityTarget = target
        self.chosen: Array | None = chosen
        self.weight: float = 1.0 if chosen is None else target.count / chosen.shape[-1]

    def grad(self, theta: Array) -> Array:
        gradient = self.target.density.grad(theta, self.target.data, self.chosen)
        gradient *= -self.weight
        if self.target.prior is not None:
            gradient -= self.target.prior.grad(theta, (), None)
        return gradient

    def value(self, theta: Array) -> Array:
        value = -self.weight * self.target.density.value(theta, self.target.data, self.chosen)
        if self.target.prior is not None:
            value = value - self.target.prior.value(theta, (), None)
        return value


def _density(density: Any) -> Density:
    if hasattr(density, "grad") and hasattr(density, "place"):
        return density
    if callable(density):
        return NumPyDensity(density)
    raise AlphaMFError(
        "a density must be a function, NumPyDensity, JaxDensity or TorchDensity, "
        f"not {type(density).__name__}"
    )


def _checked_count(rows: Sequence[Any], batch: int | None) -> int:
    lengths = sorted({len(array) for array in rows})
    if len(lengths) > 1:
        raise AlphaMFError(f"all data arrays must have the same length, not {lengths}")
    if batch is not None and not rows:
        raise AlphaMFError("batch needs data")
    return lengths[0] if lengths else 0
