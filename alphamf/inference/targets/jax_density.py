"""Log densities written in JAX, as targets: gradients are derived and compiled by JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from alphamf.tools.arrays import Array, namespace
from alphamf.tools.extras import require_package


class JaxDensity:
    """A log density in JAX; see `density.Density`.

    The data are JAX arrays and stay on their device. theta and its gradient cross between NumPy (or
    CuPy) and JAX at every step. JAX computes in single precision unless its flag
    ``jax_enable_x64`` is set.

    Parameters
    ----------
    log_density
        Log p, a JAX scalar, of one theta of shape (D,) and the rows of each data array. For a
        theta of several arrays: ``jax.flatten_util.ravel_pytree``.

    Raises
    ------
    AlphaMFError
        JAX is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> density = JaxDensity(lambda theta: -(theta**2).sum() / 2)
    >>> density.grad(np.array([[1.0, 2.0]]), (), None)
    array([[-1., -2.]])
    """

    def __init__(self, log_density: Callable[..., Any]) -> None:
        require_package("JaxDensity", "jax", "jax")
        import jax

        def of_rows(theta: Any, data: Any, chosen: Any) -> Any:
            rows = data if chosen is None else [array[chosen] for array in data]
            return log_density(theta, *rows)

        def of_chains(function: Callable[..., Any]) -> Callable[..., Any]:
            return jax.jit(jax.vmap(function, in_axes=(0, None, 0)))  # type: ignore[no-any-return]

        self.log_density = log_density
        self._value, self._grad = of_chains(of_rows), of_chains(jax.grad(of_rows))

    def place(self, data: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the data as JAX arrays."""
        import jax.numpy as jnp

        return tuple(jnp.asarray(array) for array in data)

    def grad(self, theta: Array, data: tuple[Any, ...], chosen: Array | None) -> Array:
        """See `density.Density`."""
        return _called(self._grad, theta, data, chosen).reshape(theta.shape)

    def value(self, theta: Array, data: tuple[Any, ...], chosen: Array | None) -> Array:
        """See `density.Density`."""
        return _called(self._value, theta, data, chosen).reshape(theta.shape[:-1])


def _called(function: Callable[..., Any], theta: Array, data: Any, chosen: Any) -> Array:
    """Call a function of flattened chains with theta; return a new array of theta's kind."""
    xp = namespace(theta)
    positions = theta.reshape(-1, theta.shape[-1])
    picks = None if chosen is None else chosen.reshape(len(positions), -1)
    found: Array = xp.array(function(positions, data, picks), theta.dtype)
    return found
