"""Log densities written in PyTorch, as targets: gradients are derived by ``torch.func``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from alphamf.inference.targets.derived_density import DerivedDensity
from alphamf.tools.arrays import Array, namespace


class TorchDensity(DerivedDensity):
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

    package = "torch"

    def of_chains(self, function: Callable[..., Any]) -> tuple[Callable[..., Any], ...]:
        """Return a function of one chain and its gradient, mapped over chains when called."""
        from torch.func import grad

        return function, grad(function)

    def place(self, data: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the data as tensors."""
        import torch

        return tuple(torch.as_tensor(array) for array in data)

    def call(
        self, function: Callable[..., Any], positions: Array, data: Any, picks: Array | None
    ) -> Array:
        """See `DerivedDensity`."""
        import torch

        flat = torch.from_dlpack(positions)
        like = next((array for array in data if array.is_floating_point()), flat)
        places: list[Any] = [flat.to(like.device, like.dtype), data, None]
        if picks is not None:
            places[2] = torch.from_dlpack(picks).to(like.device)
        axes = (0, None, None if picks is None else 0)
        found = torch.func.vmap(function, in_dims=axes)(*places)
        back: Array = namespace(positions).from_dlpack(found.detach().to(flat.device).contiguous())
        copied: Array = back.astype(positions.dtype)
        return copied
