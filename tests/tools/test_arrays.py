"""Array modules, and the inner product of chains."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from alphamf.errors import AlphaMFError
from alphamf.tools.arrays import dot, module, namespace, to_host


@pytest.fixture
def fake_cupy(monkeypatch):
    """Put a module that passes for CuPy, with one array type, in its place."""
    cupy = ModuleType("cupy")
    cupy.ndarray = type("ndarray", (), {"__module__": "cupy", "get": lambda self: np.arange(3)})
    cupy.cuda = SimpleNamespace(runtime=SimpleNamespace(getDeviceCount=lambda: 1))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    return cupy


def test_numpy_arrays_belong_to_numpy():
    assert namespace(np.ones(3)) is np
    assert namespace(np.float32(1)) is np
    assert module("cpu") is np


def test_cupy_arrays_belong_to_cupy(fake_cupy):
    array = fake_cupy.ndarray()
    assert namespace(array) is fake_cupy
    assert module("cuda") is fake_cupy
    assert module("auto") is fake_cupy
    np.testing.assert_array_equal(to_host(array), [0, 1, 2])


def test_without_cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)  # the import fails
    assert module("auto") is np
    with pytest.raises(AlphaMFError, match=r"device cuda needs CuPy .*alphamf\[cuda13\]") as caught:
        module("cuda")
    assert "\n" not in str(caught.value)


def test_without_a_device(fake_cupy):
    def fail():
        raise RuntimeError("cudaErrorNoDevice: no CUDA-capable device is detected")

    fake_cupy.cuda.runtime.getDeviceCount = fail
    assert module("auto") is np
    with pytest.raises(AlphaMFError, match=r"needs CuPy and a CUDA GPU \(RuntimeError\)"):
        module("cuda")


def test_unknown_device_is_named():
    with pytest.raises(AlphaMFError, match="device must be cpu, cuda or auto, not 'tpu'"):
        module("tpu")


def test_host_arrays_are_not_copied():
    array = np.ones(3)
    assert to_host(array) is array


@pytest.mark.parametrize("chains", [(), (1,), (3,), (2, 3)])
def test_dot_keeps_the_chains_apart(chains):
    a, b = np.random.default_rng(0).standard_normal((2, *chains, 7))
    product = dot(a, b)
    assert product.shape == (*chains, 1)
    np.testing.assert_allclose(product[..., 0], (a * b).sum(-1))
    assert dot(a.astype(np.float32), b.astype(np.float32)).dtype == np.float32
