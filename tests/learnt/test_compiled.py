"""The compiled layers against the same layers in float64, copy by copy."""

import os
import pickle
import subprocess
import sys
from functools import cache

import numpy as np
import pytest

from alphamf.learnt import layers, network

if not layers.AVAILABLE:
    pytest.skip("the compiled layers were not built", allow_module_level=True)

import alphamf.learnt._network as _network
from alphamf.learnt.refiner import Refiner
from tests.learnt.test_refiner import FRAME, posterior
from tests.support.networks import NARROW_SIZES, SECOND_STAGE_SIZES, WIDE_SIZES, untrained

COPIES = ("default", "unfused", "v3", "v4", "bf16", "amx")
WITHIN = 2e-2 if layers.variant() in layers.ROUNDED else 2e-5
"""Of the largest output: bfloat16 has 8 bits, of which a dozen layers leave 6."""
SIZES = {
    "narrow": NARROW_SIZES,
    "wide": WIDE_SIZES,
    "odd": network.Sizes(width=13, hidden=21, blocks=2, maps=2, local=7, deep=1),
}
MORE = SIZES | {
    "more outputs": SECOND_STAGE_SIZES,
    "many": SIZES["odd"]._replace(features=7, outputs=19),
}
"""Of networks that are not causal, too."""


drawn = cache(untrained)


def case(sizes, bins, shape, seed=0):
    """Return features, parameters, and what NumPy gives for them in float64."""
    parameters = drawn(sizes, bins, seed)
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((*shape, bins, sizes.features)).astype(np.float32)
    exact = {name: value.astype(np.float64) for name, value in parameters.items()}
    return features, parameters, layers.outputs(exact, features.astype(np.float64), np)


@pytest.mark.parametrize("sizes", MORE)
@pytest.mark.parametrize(
    ("bins", "shape"),
    [(1, (3,)), (9, (1,)), (47, (2,)), (48, (50,)), (49, (2, 20)), (129, (160,)), (257, (2, 1, 3))],
)
def test_outputs_are_those_of_the_network(sizes, bins, shape):
    """Of fewer and more bins than a tile has, and of windows side by side."""
    features, parameters, expected = case(MORE[sizes], bins, shape)
    found = layers.CompiledNetwork(parameters, bins).outputs(features)
    assert found.dtype == np.float32 and found.shape == expected.shape
    np.testing.assert_allclose(found, expected, atol=WITHIN * np.abs(expected).max())


def rounded(x):
    """Return the nearest bfloat16 of each number, in float64."""
    parts, exponents = np.frexp(x.astype(np.float64))
    return np.ldexp(np.round(parts * 256) / 256, exponents)


@pytest.mark.parametrize("rows", [1, 31, 32, 70])
@pytest.mark.parametrize(("depth", "columns"), [(32, 16), (96, 32), (64, 80)])
def test_products_are_those_of_the_rounded_factors(rows, depth, columns):
    """In bfloat16; or by NumPy, of all bits. Rows may lie apart."""
    rng = np.random.default_rng(0)
    x, out = (rng.standard_normal((rows, n + 5)).astype(np.float32) for n in (depth, columns))
    before, right = out.copy(), rng.standard_normal((depth, columns)).astype(np.float32)
    layers.multiply(x[:, 2:-3], layers.pack_matrix(right), out[:, 2:-3])
    factors = [x[:, 2:-3], right]
    if layers.variant() in layers.ROUNDED:
        factors = [rounded(each) for each in factors]
    np.testing.assert_allclose(out[:, 2:-3], factors[0] @ factors[1], atol=1e-4)
    np.testing.assert_array_equal(out[:, :2], before[:, :2])
    np.testing.assert_array_equal(out[:, -3:], before[:, -3:])


def refused(call, good, changes):
    """Call with good arguments; and assert an error where one of them is another."""
    call(*good)
    for place, value in changes:
        with pytest.raises((ValueError, TypeError, BufferError)):
            call(*good[:place], value, *good[place + 1 :])


@pytest.mark.skipif(
    layers.variant() not in layers.ROUNDED, reason="needs a processor that is fast at bfloat16"
)
def test_matrices_that_do_not_fit_are_refused():
    x, out = np.zeros((4, 64), np.float32), np.zeros((4, 32), np.float32)
    matrix = np.ones((64, 32), np.float32)
    right = layers.pack_matrix(matrix)
    changes = [(0, columns) for columns in (0, -16, 8, 128)]
    changes += [(1, matrix.astype(np.float64)), (2, right[1:])]
    refused(_network.pack, [32, matrix, right.copy()], changes)
    changes = [(0, x[:3]), (0, x[0]), (0, x.astype(np.float64)), (0, x[:, ::-1]), (0, x[::-1])]
    changes += [(0, x[:, :32]), (0, x[:, :33]), (1, right[:1]), (1, right.astype(np.int16))]
    changes += [(2, out[:, :16]), (2, out[:, ::2])]
    refused(_network.multiply, [x, right, out], changes)


def test_buffers_that_do_not_fit_are_refused():
    row, rows = np.zeros(6, np.float32), np.zeros((4, 6), np.float32)
    taps, out = np.zeros((5, 6), np.float32), rows.copy()
    changes = [(2, row[:5]), (3, row[:5]), (4, row[:5]), (5, rows[:3].copy()), (6, out[:3])]
    changes += [(0, 0), (0, -1), (0, 2**62), (1, rows[:0]), (1, rows.astype(np.float64))]
    refused(_network.mix, [2, rows, row, row, taps, rows.copy(), out], changes)
    refused(_network.rectify, [rows, row], [(1, row[:5]), (1, row[:0])])
    refused(_network.add, [rows, rows, row], [(1, rows[:3]), (2, row[:5])])


def test_frames_and_steps_that_do_not_fit_are_refused():
    weight, bias = np.zeros((3, 3, 5, 2), np.float32), np.zeros(2, np.float32)
    steps = ((weight, bias, 1, 1),)
    planes, out = np.zeros((4, 5 * 64 + 16), np.float32), np.zeros((4, 2 * 64 + 16), np.float32)
    changes = [(0, 0), (0, 4), (1, 0), (1, -1), (1, 60), (1, 2**62), (2, -1), (2, 4)]
    changes += [(2, 2**63 - 1), (3, ()), (3, (None,)), (3, 9 * steps)]
    changes += [(3, ((weight, bias[:0], 1, 1),))]
    changes += [(3, ((weight, bias, *apart),)) for apart in ((0, 1), (1, 0), (1, 17), (1025, 1))]
    changes += [(4, None), (4, planes[1:]), (5, out[:0]), (5, out[:, 1:].copy())]
    refused(_network.correlate, [5, 9, 0, steps, planes, out], [*changes, (5, out[:3].copy())])


def test_sizes_whose_products_overflow_are_refused():
    """2**62 rows of four floats are 2**64, which is 0 in a register."""
    four, out = np.zeros(4, np.float32), np.zeros(80, np.float32)
    steps = ((np.zeros(6, np.float32), np.zeros(1, np.float32), 1, 1),)
    refusals = [
        lambda: _network.mix(2**62, four, four, four, four, four, four.copy()),
        lambda: _network.correlate(0x5555555555555556, 8, 0, steps, out, out.copy()),
    ]
    if hasattr(_network, "pack"):
        refusals += [lambda: _network.pack(2**59, four, np.zeros(4, np.uint16))]
    for each in refusals:
        with pytest.raises(ValueError, match="do not fit"):
            each()


CODE = """
import hashlib, sys
import numpy as np
from alphamf.learnt import layers
within = 2e-2 if layers.variant() in layers.ROUNDED else 2e-5
for path in sys.argv[1:]:
    parameters = dict(np.load(path))
    features, expected = parameters.pop("features"), parameters.pop("expected")
    made = layers.CompiledNetwork(parameters, features.shape[-2])
    np.testing.assert_allclose(
        made.outputs(features), expected, atol=within * np.abs(expected).max()
    )
rng = np.random.default_rng(0)
x = rng.standard_normal((40, 37)).astype(np.float32)
scale, shift = rng.standard_normal((2, 37)).astype(np.float32)
taps, out = rng.standard_normal((5, 37)).astype(np.float32), np.empty_like(x)
layers._network.mix(4, x, scale, shift, taps, x.copy(), out)
layers._network.rectify(out, shift)
layers._network.add(out, x, scale)
cells = made.empty_cells(20)
layers.cells_of(cells, 129)[...] = rng.standard_normal((20, 129, 9))
whole = made.correlate_cells(cells)
digest = hashlib.sha256(out.tobytes() + whole.tobytes())
print(layers.variant(), digest.hexdigest())
"""


def test_every_copy_gives_what_numpy_gives(tmp_path):
    """And without fused multiply-adds the same bits, as processors with any vectors then do."""
    paths = []
    for name in ("odd", "narrow", "wide"):  # whose filters are those of the digest
        for bins in (20, 129):
            features, parameters, expected = case(SIZES[name], bins, (2, 20))
            paths.append(tmp_path / f"{name}-{bins}.npz")
            np.savez(paths[-1], features=features, expected=expected, **parameters)
    found = {}
    for name in COPIES:
        variables = {**os.environ, "ALPHAMF_LOOPS": name, "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-c", CODE, *paths]
        copy, digest = subprocess.check_output(command, env=variables, text=True).split()
        found[copy] = digest
    assert found.get("unfused", found["default"]) == found["default"]
    assert found.get("v3") == found.get("v4", found.get("v3"))


def test_a_pickled_network_holds_nothing_of_this_processor():
    refiner = Refiner(drawn(NARROW_SIZES, FRAME.bins), 8000, FRAME)
    before = len(pickle.dumps(refiner))
    found = refiner.refine(**posterior())
    assert len(pickle.dumps(refiner)) == before
    np.testing.assert_array_equal(found, pickle.loads(pickle.dumps(refiner)).refine(**posterior()))


def test_without_a_compiler_numpy_does_the_work(monkeypatch):
    refiner = Refiner(drawn(NARROW_SIZES, FRAME.bins), 8000, FRAME)
    given = posterior((FRAME.bins, 200))
    found = refiner.refine(**given)
    monkeypatch.setattr(layers, "AVAILABLE", False)
    assert layers.variant() == "numpy"
    np.testing.assert_allclose(found, refiner.refine(**given), atol=5 * WITHIN)
