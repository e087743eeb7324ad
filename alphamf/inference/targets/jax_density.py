"""Log densities written in JAX, as targets: gradients are derived and compiled by JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from alphamf.inference.targets.derived_density import DerivedDensity
from alphamf.tools.arrays import Array, namespace


class JaxDensity(DerivedDensity):
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

    package = "jax"

    def of_chains(self, function: Callable[..., Any]) -> tuple[Callable[..., Any], ...]:
        """Return a function of one chain and its gradient, mapped over chains and compiled."""
        import jax

        return tuple(
            jax.jit(jax.vmap(each, in_axes=(0, None, 0))) for each in (function, jax.grad(function))
        )

    def place(self, data: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the data as JAX arrays."""
        import jax.numpy as jnp

        return tuple(jnp.asarray(array) for array in data)

    def call(
        self, function: Callable[..., Any], positions: Array, data: Any, picks: Array | None
    ) -> Array:
        """See `DerivedDensity`."""
        found: Array = namespace(positions).array(function(positions, data, picks), positions.dtype)
        return found
