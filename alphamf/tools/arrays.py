"""NumPy or CuPy: array types, the module of an array, and copies between host and device.

Nothing here imports cupy unless the caller holds a CuPy array or asks for device cuda or auto.
"""

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from alphamf.errors import AlphaMFError
from alphamf.tools.arguments import one_of
from alphamf.tools.extras import install_extra

Array = np.ndarray[Any, np.dtype[Any]]
"""An array of NumPy, CuPy or, in some functions, JAX; typed like NumPy's arrays."""

Floats = NDArray[np.float32]
"""NumPy array in single precision, such as sound, power or gain."""

Reals = NDArray[np.floating[Any]]
"""NumPy array of floating-point numbers of any precision, such as sound, power or gain."""

LOG_LIMIT = 60.0
"""Largest number whose exponential is computed: float32 overflows at 88, and the result is still
multiplied."""

DeviceName = Literal["cpu", "cuda", "auto"]
"""The names in `DEVICES`, for type checkers."""

DEVICES: tuple[str, ...] = get_args(DeviceName)
"""Devices for arrays; the last one means a CUDA device if there is one, otherwise the CPU."""


def parts(count: int, most: int) -> Iterator[slice]:
    """Yield slices of at most `most` that cover an axis of length `count`, to limit memory."""
    for first in range(0, count, most):
        yield slice(first, first + most)


def namespace(array: Array) -> Any:
    """Return the module (numpy, cupy or jax.numpy) that `array` belongs to."""
    root = type(array).__module__.partition(".")[0]
    name = {"cupy": "cupy", "jax": "jax.numpy", "jaxlib": "jax.numpy"}.get(root)
    return np if name is None else sys.modules[name]


def put(array: Array, place: Any, value: Array) -> Array:
    """Write into an array and return it; for JAX, whose arrays are constant, return a new array."""
    if hasattr(array, "at"):
        return array.at[place].set(value)
    array[place] = value
    return array


def module(device: str) -> ModuleType:
    """Return numpy or cupy; raise an AlphaMFError if `device` is unknown or not available."""
    if one_of("device", device, DEVICES) == "cpu":
        return np
    try:
        import cupy

        cupy.cuda.runtime.getDeviceCount()
    except Exception as error:
        if device == "auto":
            return np
        raise AlphaMFError(
            f"device cuda needs CuPy and a CUDA GPU ({type(error).__name__}); install CuPy "
            f"with {install_extra('cuda13')}, or cuda12 for an older driver"
        ) from error
    return cupy


def to_host(array: Array) -> Array:
    """Return `array` as a NumPy array; it is copied from the device if needed."""
    return array if isinstance(array, np.ndarray) else array.get()


def round_to_bfloat16(values: Floats) -> Floats:
    """Return the nearest numbers in bfloat16, the upper half of a float32, as float32.

    Ties go to even. The numbers can be stored in 16 bits without a further error.
    """
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


def dot(a: Array, b: Array) -> Array:
    """Return inner products over the last axis, which is kept: shape ``(..., D)`` to ``(..., 1)``.

    The leading axes are independent chains, so the result broadcasts against a state array.
    """
    xp = namespace(a)
    return xp.matmul(a[..., None, :], b[..., :, None])[..., 0]
