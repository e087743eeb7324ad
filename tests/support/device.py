"""A strict stand-in for CuPy on the CPU: its names, its refusals, and a count of host waits.

It wraps NumPy. Its arrays are no NumPy arrays: they refuse to become one implicitly, and refuse
NumPy arrays as operands. What CuPy does otherwise than NumPy is done its way: ``random(out=)``
without a size draws one number, ``linalg.solve`` does not broadcast, ``linalg.cholesky`` raises
nothing, reductions give 0-d arrays. `Device.waits` counts what makes the host wait for a device:
the truth or the value of an array, and copies to the host, which `Device.copies` counts apart.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

FUNCTIONS = (
    "abs absolute add all any arange arcsinh argsort array_equal broadcast_to ceil clip concatenate "
    "convolve copyto cos count_nonzero cumsum diagonal divide einsum empty empty_like exp "
    "expand_dims eye floor full full_like hypot identity interp isfinite isnan less less_equal log "
    "expm1 log1p logical_and logical_not logical_or matmul max maximum mean min minimum moveaxis "
    "multiply negative nonzero ones ones_like outer pad power prod repeat reshape roll round "
    "searchsorted shape sign sin sqrt square squeeze stack std subtract sum swapaxes take "
    "tanh tensordot tile transpose tril triu var where zeros zeros_like "
).split()
"""Functions that our code may call, all of which CuPy has under these names."""

CONSTANTS = (
    "float16 float32 float64 int32 int64 bool_ uint32 uint64 inf nan pi newaxis finfo dtype"
).split()


class Device:
    """What the stand-in counts, since `reset`."""

    waits = 0
    copies = 0

    @classmethod
    def reset(cls) -> None:
        cls.waits = cls.copies = 0


def _host(value: Any) -> Any:
    """Return what NumPy is given for an argument; a NumPy array is refused."""
    if isinstance(value, ndarray):
        return value.host
    if isinstance(value, np.ndarray):
        raise TypeError(f"Unsupported type {type(value)}")
    if isinstance(value, tuple | list):
        return type(value)(_host(each) for each in value)
    if isinstance(value, dict):
        return {key: _host(each) for key, each in value.items()}
    return value


def _device(value: Any) -> Any:
    """Return a result of NumPy as the device has it: numbers are 0-d arrays."""
    if isinstance(value, np.ndarray | np.generic):
        return ndarray(np.asarray(value))
    if isinstance(value, tuple | list):
        return type(value)(_device(each) for each in value)
    return value


def _same(result: Any, out: Any) -> Any:
    return out if out is not None else _device(result)


class ndarray:  # named as in CuPy
    """An array on the device; `host` holds it."""

    __array_ufunc__ = None
    __hash__ = None

    def __init__(self, host: np.ndarray) -> None:
        self.host = host

    def __array__(self, *arguments: Any, **options: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def get(self) -> np.ndarray:
        Device.waits += 1
        Device.copies += 1
        return self.host.copy()

    def _value(self) -> Any:
        Device.waits += 1
        return self.host.item()

    def __float__(self) -> float:
        return float(self._value())

    def __int__(self) -> int:
        return int(self._value())

    def __bool__(self) -> bool:
        return bool(self._value())

    def __index__(self) -> int:
        return int(self._value())

    def item(self) -> Any:
        return self._value()

    def __len__(self) -> int:
        return len(self.host)

    def __getitem__(self, key: Any) -> ndarray:
        parts = key if isinstance(key, tuple) else (key,)
        if any(isinstance(part, ndarray) and part.dtype == bool for part in parts):
            Device.waits += 1  # the length of the result must be known
        return _device(self.host[_host(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self.host[_host(key)] = _host(value)

    def __iter__(self) -> Any:
        return (self[k] for k in range(len(self.host)))

    def __getattr__(self, name: str) -> Any:
        if name in ("shape", "dtype", "ndim", "size", "nbytes", "itemsize", "flags", "strides"):
            return getattr(self.host, name)
        if name in ("T", "real", "imag"):
            return ndarray(getattr(self.host, name))
        if name in METHODS:
            return _wrapped(getattr(self.host, name))
        raise AttributeError(f"the device's arrays have no {name!r}")


METHODS = (
    "all any argsort astype clip conj copy cumsum diagonal dot fill flatten max mean min prod "
    "ravel repeat reshape round sort squeeze std sum swapaxes take transpose var view"
).split()


def _operator(name: str) -> Callable[..., Any]:
    def operate(self: ndarray, *others: Any) -> Any:
        found = getattr(self.host, name)(*map(_host, others))
        if name.startswith("__i") and name not in ("__invert__",):
            return self
        return found if found is NotImplemented else _device(found)

    return operate


for _name in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split():
    for _form in ("__{}__", "__r{}__", "__i{}__"):
        setattr(ndarray, _form.format(_name), _operator(_form.format(_name)))
for _name in "lt le eq ne gt ge neg pos abs invert".split():
    setattr(ndarray, f"__{_name}__", _operator(f"__{_name}__"))
ndarray.__module__ = "cupy"


def _wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        out = options.get("out")
        return _same(function(*_host(arguments), **_host(options)), out)

    return call


def asarray(value: Any, dtype: Any = None) -> ndarray:
    """Copy to the device, which is no wait."""
    host = value.host if isinstance(value, ndarray) else np.array(value)
    return ndarray(host.astype(dtype, copy=False) if dtype is not None else host)


def _cholesky(a: ndarray) -> ndarray:
    """NaN where there is none; CuPy's raises nothing."""
    host = a.host
    flat = host.reshape(-1, *host.shape[-2:])
    roots = np.full_like(flat, np.nan)
    for root, matrix in zip(roots, flat, strict=True):
        try:
            root[...] = np.linalg.cholesky(matrix)
        except np.linalg.LinAlgError:
            continue
    return ndarray(roots.reshape(host.shape))


def _solve(a: ndarray, b: ndarray) -> ndarray:
    fits = a.ndim in (b.ndim, b.ndim + 1) and a.shape[:-1] == b.shape[: a.ndim - 1]
    if not fits:
        raise ValueError(f"solve takes no shapes {a.shape} and {b.shape}")
    return ndarray(np.linalg.solve(a.host, b.host))


class Generator:
    """CuPy's generator, which has fewer methods than NumPy's."""

    def __init__(self, bits: np.random.BitGenerator) -> None:
        self._rng = np.random.Generator(bits)

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        drawn = self._rng.random(size, dtype=dtype)
        if out is None:
            return _device(drawn)
        out.host[...] = drawn  # of no size: one number for all
        return out

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        return self._drawn(self._rng.standard_normal, size, dtype, out)

    def standard_exponential(
        self, size: Any = None, dtype: Any = np.float64, method: str = "inv", out: Any = None
    ) -> Any:
        return self._drawn(self._rng.standard_exponential, size, dtype, out)

    def _drawn(self, draw: Callable[..., Any], size: Any, dtype: Any, out: Any) -> Any:
        drawn = draw(size, dtype=dtype)
        if out is None:
            return _device(drawn)
        out.host[...] = drawn
        return out

    def standard_gamma(self, shape: Any, size: Any = None, dtype: Any = np.float64) -> Any:
        return _device(np.asarray(self._rng.standard_gamma(_host(shape), size, dtype)))

    def integers(self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64) -> Any:
        return _device(np.asarray(self._rng.integers(low, high, size, dtype)))

    def poisson(self, lam: Any = 1.0, size: Any = None) -> Any:
        return _device(np.asarray(self._rng.poisson(_host(lam), size)))


def _namespace(name: str, **names: Any) -> types.ModuleType:
    module = types.ModuleType(name)
    vars(module).update(names)
    return module


def make() -> types.ModuleType:
    """Return the stand-in's module."""
    linalg = _namespace(
        "cupy.linalg",
        cholesky=_cholesky,
        solve=_solve,
        inv=_wrapped(np.linalg.inv),
        eigh=_wrapped(lambda a: tuple(np.linalg.eigh(a))),
        eigvalsh=_wrapped(np.linalg.eigvalsh),
        norm=_wrapped(np.linalg.norm),
    )
    random = _namespace(
        "cupy.random", Generator=Generator, XORWOW=np.random.PCG64, Philox4x3210=np.random.PCG64
    )
    runtime = _namespace("cupy.cuda.runtime", getDeviceCount=lambda: 1)
    return _namespace(
        "cupy",
        ndarray=ndarray,
        asarray=asarray,
        array=asarray,
        ascontiguousarray=lambda a: ndarray(np.ascontiguousarray(_host(a))),
        asnumpy=lambda a: a.get(),
        linalg=linalg,
        random=random,
        cuda=_namespace("cupy.cuda", runtime=runtime),
        **{name: _wrapped(getattr(np, name)) for name in FUNCTIONS},
        **{name: getattr(np, name) for name in CONSTANTS},
    )


def install(monkeypatch: Any) -> types.ModuleType:
    """Put the stand-in in the place of CuPy for a test, and return it."""
    module = make()
    Device.reset()
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module
