"""Log densities written in PyTorch, as targets: gradients are derived by ``torch.func``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from alphamf.tools.arrays import Array, namespace
from alphamf.tools.extras import require_package


class TorchDensity:
    """A log density in PyTorch; see `density.Density`.

    The data are tensors and stay on their device; theta goes there, in the data's precision, and
    its gradient comes back. Without a copy where both are on one device and of one precision.

    Parameters
    ----------
    log_density
        Log p, a tensor without axes, of one theta of shape (D,) and the rows of each data array.
        For a module: ``torch.func.functional_call``.

    Raises
    ------
    AlphaMFError
        PyTorch is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> density = TorchDensity(lambda theta: -(theta**2).sum() / 2)
    >>> density.grad(np.array([[1.0, 2.0]]), (), None)
    array([[-1., -2.]])
    """

    def __init__(self, log_density: Callable[..., Any]) -> None:
        require_package("TorchDensity", "torch", "torch")
        from torch.func import grad

        def of_rows(theta: Any, data: Any, chosen: Any) -> Any:
            rows = data if chosen is None else [array[chosen] for array in data]
            return log_density(theta, *rows)

        self.log_density = log_density
        self._value, self._grad = of_rows, grad(of_rows)

    def place(self, data: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the data as tensors."""
        import torch

        return tuple(torch.as_tensor(array) for array in data)

    def grad(self, theta: Array, data: tuple[Any, ...], chosen: Array | None) -> Array:
        """See `density.Density`."""
        return _called(self._grad, theta, data, chosen).reshape(theta.shape)

    def value(self, theta: Array, data: tuple[Any, ...], chosen: Array | None) -> Array:
        """See `density.Density`."""
        return _called(self._value, theta, data, chosen).reshape(theta.shape[:-1])


def _called(function: Callable[..., Any], theta: Array, data: Any, chosen: Any) -> Array:
    """Call a function of one chain with all of theta; return a new array of theta's kind."""
    import torch

    xp = namespace(theta)
    flat = torch.from_dlpack(theta.reshape(-1, theta.shape[-1]))
    like = next((array for array in data if array.is_floating_point()), flat)
    positions = flat.to(like.device, like.dtype)
    if chosen is None:
        found = torch.func.vmap(function, in_dims=(0, None, None))(positions, data, None)
    else:
        picks = torch.from_dlpack(chosen.reshape(len(positions), -1)).to(like.device)
        found = torch.func.vmap(function, in_dims=(0, None, 0))(positions, data, picks)
    back: Array = xp.from_dlpack(found.detach().to(flat.device).contiguous())
    copied: Array = back.astype(theta.dtype)
    return copied
