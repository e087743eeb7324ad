"""Log densities in JAX and PyTorch, which derive the gradients."""

from collections.abc import Callable
from typing import Any

from alphamf.tools.arrays import Array, namespace
from alphamf.tools.extras import require_package


class DerivedDensity:
    """A log density in a library that derives its gradient; see `density.Density`.

    A subclass has `package`, the name of the library and of the extra that adds it, and `place`.
    Its `of_chains` turns a function of one chain into itself and its gradient as `call` takes them;
    `call` evaluates one of them at positions (chains, D) and rows (chains, n) or None.
    """

    package: str
    of_chains: Callable[..., tuple[Callable[..., Any], ...]]
    call: Callable[..., Array]

    def __init__(self, log_density: Callable[..., Any]) -> None:
        require_package(type(self).__name__, self.package, self.package)
        self.log_density: Callable[..., Any] = log_density
        self._value, self._grad = self.of_chains(self._of_rows)

    def _of_rows(self, theta: Any, data: Any, chosen: Any) -> Any:
        rows = data if chosen is None else [array[chosen] for array in data]
        return self.log_density(theta, *rows)

    def grad(self, theta: Array, data: tuple[Any, ...], chosen: Array | None) -> Array:
        return self._called(self._grad, theta, data, chosen).reshape(theta.shape)

    def value(self, theta: Array, data: tuple[Any, ...], chosen: Array | None) -> Array:
        return self._called(self._value, theta, data, chosen).reshape(theta.shape[:-1])

    def _called(
        self, function: Callable[..., Any], theta: Array, data: Any, chosen: Array | None
    ) -> Array:
        positions = theta.reshape(-1, theta.shape[-1])
        picks = None if chosen is None else chosen.reshape(len(positions), -1)
        return self.call(function, positions, data, picks)


class JaxDensity(DerivedDensity):
    """A log density in JAX; see `density.Density`.

    The data become JAX arrays and stay on their device. `sample` runs most samplers wholly there;
    other runs copy theta and its gradient between NumPy (or CuPy) and JAX at every step. JAX
    computes in single precision unless its flag ``jax_enable_x64`` is set.

    Parameters
    ----------
    log_density
        Function of one theta of shape (D,), or of the form of the pytree that `sample` starts
        from, and of the rows of each data array; returns log p, a JAX scalar.

    Raises
    ------
    AlphaMFError
        JAX is not installed.

    Examples
    --------
    >>> density = JaxDensity(lambda theta: -(theta**2).sum() / 2)
    >>> density.grad(np.array([[1.0, 2.0]]), (), None)
    array([[-1., -2.]])
    """

    package = "jax"

    def of_tree(self, unravel: Callable[[Any], Any]) -> "JaxDensity":
        """Return this density as one of flat thetas, which `unravel` turns into pytrees."""
        return JaxDensity(lambda theta, *rows: self.log_density(unravel(theta), *rows))

    def of_chains(self, function: Callable[..., Any]) -> tuple[Callable[..., Any], ...]:
        import jax

        return tuple(
            jax.jit(jax.vmap(each, in_axes=(0, None, 0))) for each in (function, jax.grad(function))
        )

    def place(self, data: tuple[Any, ...]) -> tuple[Any, ...]:
        import jax.numpy as jnp

        return tuple(jnp.asarray(array) for array in data)

    def call(
        self, function: Callable[..., Any], positions: Array, data: Any, picks: Array | None
    ) -> Array:
        return namespace(positions).array(function(positions, data, picks), positions.dtype)


class TorchDensity(DerivedDensity):
    """A log density in PyTorch; see `density.Density`.

    The data become tensors and stay on their device. Theta is moved to the device and precision of
    the first floating-point tensor of the data, if any, and its gradient is moved back.

    Parameters
    ----------
    log_density
        Function of one theta of shape (D,) and the rows of each data array; returns log p, a tensor
        without axes. For a module, use ``torch.func.functional_call``.

    Raises
    ------
    AlphaMFError
        PyTorch is not installed.

    Examples
    --------
    >>> density = TorchDensity(lambda theta: -(theta**2).sum() / 2)
    >>> density.grad(np.array([[1.0, 2.0]]), (), None)
    array([[-1., -2.]])
    """

    package = "torch"

    def of_chains(self, function: Callable[..., Any]) -> tuple[Callable[..., Any], ...]:
        from torch.func import grad

        return function, grad(function)

    def place(self, data: tuple[Any, ...]) -> tuple[Any, ...]:
        import torch

        return tuple(torch.as_tensor(array) for array in data)

    def call(
        self, function: Callable[..., Any], positions: Array, data: Any, picks: Array | None
    ) -> Array:
        import torch

        flat = torch.from_dlpack(positions)
        like = next((array for array in data if array.is_floating_point()), flat)
        places: list[Any] = [flat.to(like.device, like.dtype), data, None]
        if picks is not None:
            places[2] = torch.from_dlpack(picks).to(like.device)
        axes = (0, None, None if picks is None else 0)
        found = torch.func.vmap(function, in_dims=axes)(*places)
        back: Array = namespace(positions).from_dlpack(found.detach().to(flat.device).contiguous())
        return back.astype(positions.dtype)
