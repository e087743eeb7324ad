"""Log densities whose gradients another library derives: what those in JAX and PyTorch share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from alphamf.tools.arrays import Array
from alphamf.tools.extras import require_package


class DerivedDensity(ABC):
    """A log density in a library that derives its gradient; see `density.Density`.

    `log_density`: log p, a scalar of the library, of one theta of shape (D,) and the rows of each
    data array.
    """

    package: str
    """Name of the library, and of the extra that brings it."""

    def __init__(self, log_density: Callable[..., Any]) -> None:
        require_package(type(self).__name__, self.package, self.package)
        self.log_density: Callable[..., Any] = log_density
        self._value, self._grad = self.of_chains(self._of_rows)

    def _of_rows(self, theta: Any, data: Any, chosen: Any) -> Any:
        rows = data if chosen is None else [array[chosen] for array in data]
        return self.log_density(theta, *rows)

    @abstractmethod
    def of_chains(self, function: Callable[..., Any]) -> tuple[Callable[..., Any], ...]:
        """Return a function of one chain, and its gradient, as functions of many."""

    @abstractmethod
    def place(self, data: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the data as arrays of the library."""

    @abstractmethod
    def call(
        self, function: Callable[..., Any], positions: Array, data: Any, picks: Array | None
    ) -> Array:
        """Call a function that `of_chains` returned.

        `positions`: theta, shape (chains, D). `picks`: chosen rows, shape (chains, n). Returns: a
        new array of the kind and dtype of `positions`, its first axis the chains.
        """

    def grad(self, theta: Array, data: tuple[Any, ...], chosen: Array | None) -> Array:
        """See `density.Density`."""
        return self._called(self._grad, theta, data, chosen).reshape(theta.shape)

    def value(self, theta: Array, data: tuple[Any, ...], chosen: Array | None) -> Array:
        """See `density.Density`."""
        return self._called(self._value, theta, data, chosen).reshape(theta.shape[:-1])

    def _called(
        self, function: Callable[..., Any], theta: Array, data: Any, chosen: Array | None
    ) -> Array:
        positions = theta.reshape(-1, theta.shape[-1])
        picks = None if chosen is None else chosen.reshape(len(positions), -1)
        return self.call(function, positions, data, picks)
