"""The compiled layers against the same layers in float64, copy by copy."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from functools import cache

import numpy as np
import pytest

from alphamf.audio.stft import Frame
from alphamf.learnt import compiled, layers, network
from alphamf.learnt.causal import CausalRefiner

if not compiled.AVAILABLE:
    pytest.skip("the compiled layers were not built", allow_module_level=True)

from alphamf.learnt import _network
from tests.support.networks import NARROW_SIZES, SECOND_STAGE_SIZES, WIDE_SIZES

COPIES = ("default", "unfused", "v3", "v4", "bf16", "amx")
WITHIN = 2e-2 if compiled.variant() in compiled.ROUNDED else 2e-5
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


@cache
def drawn(sizes, bins, seed=0):
    """Return parameters that all matter, and are those of a trained network in size."""
    rng = np.random.default_rng(seed)
    start = network.start(rng, bins, sizes)
    return {
        name: (value + 0.1 * rng.standard_normal(value.shape)).astype(np.float32)
        for name, value in start.items()
    }


def case(sizes, bins, shape, seed=0):
    """Return features, parameters, and what NumPy gives for them in float64."""
    parameters = drawn(sizes, bins, seed)
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((*shape, bins, sizes.features)).astype(np.float32)
    exact = {name: value.astype(np.float64) for name, value in parameters.items()}
    return features, parameters, network.outputs(exact, features.astype(np.float64), np)


def both(sizes, bins, shape, seed=0):
    """Return what the compiled network gives for some features, and what NumPy does in float64."""
    features, parameters, expected = case(sizes, bins, shape, seed)
    return compiled.Network(parameters, bins).outputs(features), expected


@pytest.mark.parametrize("sizes", MORE)
@pytest.mark.parametrize(
    ("bins", "shape"),
    [(1, (3,)), (9, (1,)), (47, (2,)), (48, (50,)), (49, (2, 20)), (129, (160,)), (257, (2, 1, 3))],
)
def test_outputs_are_those_of_the_network(sizes, bins, shape):
    """Of fewer and more bins than a tile has, and of windows side by side."""
    found, expected = both(MORE[sizes], bins, shape)
    assert found.dtype == np.float32 and found.shape == expected.shape
    np.testing.assert_allclose(found, expected, atol=WITHIN * np.abs(expected).max())


def mixed(frames, distance, x, scale, shift, taps):
    """Compute one window of `_network.mix` by NumPy."""
    u = x - x.mean(-1, keepdims=True)
    u = u / np.sqrt((u * u).mean(-1, keepdims=True) + 1e-5) * scale + shift
    return layers.dilated(u.reshape(-1, frames, x.shape[-1]), taps, distance, np).reshape(x.shape)


@pytest.mark.parametrize("width", [1, 16, 37])
@pytest.mark.parametrize(("windows", "frames", "distance"), [(1, 1, 1), (1, 50, 4), (3, 20, 16)])
def test_mix_normalises_and_correlates_within_windows(width, windows, frames, distance):
    rng = np.random.default_rng(0)
    x = (5 + 3 * rng.standard_normal((windows * frames, width))).astype(np.float32)
    scale, shift = rng.standard_normal((2, width)).astype(np.float32)
    taps = rng.standard_normal((5, width)).astype(np.float32)
    out = np.full_like(x, np.nan)
    _network.mix(frames, distance, x, scale, shift, taps, out)
    arrays = [each.astype(np.float64) for each in (x, scale, shift, taps)]
    np.testing.assert_allclose(out, mixed(frames, distance, *arrays), atol=2e-5)


def test_rectify_and_add():
    rng = np.random.default_rng(0)
    x, change = rng.standard_normal((2, 7, 21)).astype(np.float32)
    bias = rng.standard_normal(21).astype(np.float32)
    found, summed = x.copy(), x.copy()
    _network.rectify(found, bias)
    np.testing.assert_allclose(found, layers.rectified(x + bias, np), atol=1e-6)
    _network.add(summed, change, bias)
    np.testing.assert_allclose(summed, x + change + bias, atol=1e-6)


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
    compiled.multiply(x[:, 2:-3], compiled.packed(right), out[:, 2:-3])
    factors = [x[:, 2:-3], right]
    if compiled.variant() in compiled.ROUNDED:
        factors = [rounded(each) for each in factors]
    np.testing.assert_allclose(out[:, 2:-3], factors[0] @ factors[1], atol=1e-4)
    np.testing.assert_array_equal(out[:, :2], before[:, :2])
    np.testing.assert_array_equal(out[:, -3:], before[:, -3:])


@pytest.mark.skipif(
    compiled.variant() not in compiled.ROUNDED, reason="needs a processor that is fast at bfloat16"
)
def test_matrices_that_do_not_fit_are_refused():
    x, out = np.zeros((4, 64), np.float32), np.zeros((4, 32), np.float32)
    matrix = np.ones((64, 32), np.float32)
    right = compiled.packed(matrix)
    for refused in (
        lambda: _network.pack(16, matrix, right[1:]),
        lambda: _network.pack(0, matrix, right),
        lambda: _network.pack(-16, matrix, right),
        lambda: _network.pack(8, matrix, right),
        lambda: _network.pack(128, matrix, right),
        lambda: _network.pack(32, matrix.astype(np.float64), right),
        lambda: _network.multiply(x[:3], right, out),
        lambda: _network.multiply(x[:, :32], right, out),
        lambda: _network.multiply(x, right[:1], out),
        lambda: _network.multiply(x, right, out[:, :16]),
        lambda: _network.multiply(x, right, out[:, ::2]),
        lambda: _network.multiply(x.astype(np.float64), right, out),
        lambda: _network.multiply(x, right.astype(np.int16), out),
        lambda: _network.multiply(x[0], right, out),
        lambda: _network.multiply(x[:, :33], right, out),
        lambda: _network.multiply(x[:, ::-1], right, out),
        lambda: _network.multiply(x[::-1], right, out),
    ):
        with pytest.raises((ValueError, BufferError)):
            refused()


def test_buffers_that_do_not_fit_are_refused():
    row, rows = np.zeros(6, np.float32), np.zeros((4, 6), np.float32)
    taps, flat = np.zeros((5, 6), np.float32), np.zeros(5 * 64 + 16, np.float32)
    out = np.zeros(64, np.float32)
    steps = ((np.zeros((3, 3, 5, 1), np.float32), np.zeros(1, np.float32), 1, 1),)
    weight, bias, *_ = steps[0]
    _network.mix(2, 1, rows, row, row, taps, rows.copy())
    _network.correlate(5, 9, 0, steps, flat, out)
    for refused in (
        lambda: _network.mix(3, 1, rows, row, row, taps, rows.copy()),
        lambda: _network.mix(0, 1, rows, row, row, taps, rows.copy()),
        lambda: _network.mix(2, 0, rows, row, row, taps, rows.copy()),
        lambda: _network.mix(2, 1, rows, row[:5], row, taps, rows.copy()),
        lambda: _network.mix(2, 1, rows, row, row[:5], taps, rows.copy()),
        lambda: _network.mix(2, 1, rows, row, row, np.zeros(7, np.float32), rows.copy()),
        lambda: _network.mix(2, 1, rows, row, row, taps, rows[:3].copy()),
        lambda: _network.mix(2, 1, rows.astype(np.float64), row, row, taps, rows.copy()),
        lambda: _network.rectify(rows, row[:5]),
        lambda: _network.rectify(rows, row[:0]),
        lambda: _network.add(rows, rows[:3], row),
        lambda: _network.correlate(5, 9, 0, (), flat, out),
        lambda: _network.correlate(5, 9, 0, steps, flat[:-1], out),
        lambda: _network.correlate(5, 9, 0, steps, flat[:16], out),
        lambda: _network.correlate(5, 9, 0, steps, flat, out[:-1]),
        lambda: _network.correlate(5, 9, 5, steps, flat, out),
        lambda: _network.correlate(5, 9, -1, steps, flat, out),
        lambda: _network.correlate(5, 0, 0, steps, flat, out),
        lambda: _network.correlate(0, 9, 0, steps, flat, out),
        lambda: _network.correlate(4, 9, 0, steps, flat, out),
        lambda: _network.correlate(5, 9, 0, (None,), flat, out),
        lambda: _network.correlate(5, 9, 0, ((weight, bias, 0, 1),), flat, out),
        lambda: _network.correlate(5, 9, 0, ((weight, bias, 1, 0),), flat, out),
        lambda: _network.correlate(5, 9, 0, ((weight, bias, 1, 17),), flat, out),
        lambda: _network.correlate(5, 9, 0, ((weight, bias[:0], 1, 1),), flat, out),
        lambda: _network.correlate(5, 9, 0, 9 * steps, flat, out),
    ):
        with pytest.raises(ValueError, match="buffer"):
            refused()


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize(("depth", "columns"), [(1, 1), (37, 63), (64, 64), (20, 200)])
def test_products_with_panels_are_those_of_numbers_in_half_precision(rows, depth, columns):
    rng = np.random.default_rng(0)
    x = (100 * rng.standard_normal((rows, depth))).astype(np.float32)
    matrix = rng.standard_normal((depth, columns)).astype(np.float32)
    matrix = matrix.astype(np.float16).astype(np.float32)
    out = np.full((rows, columns), np.nan, np.float32)
    _network.product(rows, x, compiled.halved(matrix), out)
    exact = x.astype(np.float64) @ matrix
    np.testing.assert_allclose(out, exact, atol=1e-3)


def test_panels_hold_every_normal_number_of_half_precision():
    """And zero in place of the others."""
    bits = np.arange(1 << 16).astype(np.uint16)
    halves = bits.view(np.float16).astype(np.float32)
    halves = halves[np.isfinite(halves)]
    out = np.empty(halves.shape, np.float32)
    _network.product(1, np.ones(1, np.float32), compiled.halved(halves[None]), out)
    normal = np.abs(halves) >= 2.0**-14
    np.testing.assert_array_equal(out[normal], halves[normal])
    assert not out[~normal].any() and (~normal).sum() == 2048


def newest(sizes, bins, channels, frames=40):
    """Return a causal network, frames of features, and its outputs for them without a compiler."""
    values = {
        name: np.float16(value).astype(np.float32) for name, value in drawn(sizes, bins).items()
    }
    refiner = CausalRefiner(values, 8000, Frame(2 * (bins - 1), 1))
    shape = frames, channels, bins, network.FEATURES
    features = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "AVAILABLE", False)
        return refiner, features, heard(refiner, refiner.memories(channels), features)


def heard(refiner, memories, features):
    return np.stack([refiner.outputs_of(memories, frame) for frame in features])


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize(("bins", "channels"), [(2, 1), (9, 3), (48, 2), (49, 1), (129, 2)])
def test_newest_frames_are_those_of_the_causal_network(sizes, bins, channels):
    refiner, features, expected = newest(SIZES[sizes], bins, channels)
    found = heard(refiner, refiner.memories(channels), features)
    assert found.dtype == np.float32 and found.shape == expected.shape
    np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())


def test_what_was_heard_without_a_compiler_is_remembered_with_one(monkeypatch):
    refiner, features, expected = newest(SIZES["narrow"], 20, 2)
    memories = refiner.memories(2)
    first = heard(refiner, memories, features[:15])
    monkeypatch.setattr(compiled, "AVAILABLE", False)
    found = np.concatenate([first, heard(refiner, memories, features[15:30])])
    monkeypatch.setattr(compiled, "AVAILABLE", True)
    found = np.concatenate([found, heard(refiner, memories, features[30:])])
    np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())


def test_buffers_of_a_newest_frame_that_do_not_fit_are_refused():
    x, ring, row = (np.zeros(shape, np.float32) for shape in ((2, 6), (9, 2, 6), 6))
    taps, wide, up = np.zeros((5, 6), np.float32), np.zeros(8, np.float32), np.zeros((6, 8))
    up, down = compiled.halved(up), compiled.halved(up.T)
    long, outs = np.zeros(65, np.float32), np.zeros((2, 8), np.float32)
    steps = ((np.zeros((3, 3, 5, 2), np.float32), np.zeros(2, np.float32), 1, 1),)
    cells, out = np.zeros((3, 2, 5 * 64 + 16), np.float32), np.zeros((2, 2 * 64 + 16), np.float32)
    block = _network.block, [8, x, ring, row, row, taps, up, wide, down, row]
    newest = _network.newest, [5, 9, 0, steps, ((cells, 2),), out]
    product = _network.product, [2, x, up, outs]
    refused = (
        [
            *((0, -1), (0, 9), (1, x[:0]), (1, x[:1]), (1, x.astype(np.float64)), (2, ring[:8])),
            *((3, row[:5]), (4, row[:5]), (5, taps[:4]), (5, taps[:1]), (5, row[:5])),
            *((6, up[:, 1:].copy()), (7, wide[:0]), (7, long), (8, down[:0]), (9, row[:5])),
        ],
        [
            *((0, 0), (0, 4), (1, 0), (1, -1), (1, 60), (1, 2**62), (2, -1), (2, 4)),
            *((3, ()), (3, (None,)), (4, ()), (4, (None,)), (4, 2 * ((cells, 2),))),
            *((4, ((cells, each),)) for each in (3, -1)),
            *((4, ((cells[:2], 0),)), (5, out[:, 1:].copy()), (5, out[:0])),
        ],
        [
            *((0, 0), (0, -1), (0, 3), (1, x[:1]), (1, x[:0]), (2, up[:, 1:].copy())),
            *((2, up.view(np.uint16)), (3, outs[:0]), (3, np.zeros((2, 65), np.float32))),
        ],
    )
    for (call, good), changes in zip((block, newest, product), refused, strict=True):
        call(*good)
        for place, value in changes:
            with pytest.raises((ValueError, TypeError)):
                call(*good[:place], value, *good[place + 1 :])


def test_sizes_whose_products_overflow_are_refused():
    """2**62 rows of four floats are 2**64, which is 0 in a register."""
    four, out = np.zeros(4, np.float32), np.zeros(80, np.float32)
    ring, planes = np.zeros(3 * 80, np.float32), np.zeros(5 * 64 + 16, np.float32)
    steps = ((np.zeros(6, np.float32), np.zeros(1, np.float32), 1, 1),)
    plain = ((np.zeros((3, 3, 5, 1), np.float32), np.zeros(1, np.float32), 1, 1),)
    rings = np.zeros((3, 5 * 64 + 16), np.float32)
    _network.newest(5, 9, 4, plain, ((rings, 0),), out)
    refused = [
        lambda: _network.mix(2**62, 1, four, four, four, four, four.copy()),
        lambda: _network.newest(0x5555555555555556, 8, 0, steps, ((ring, 0),), out),
        lambda: _network.newest(5, 9, 2**63 - 1, plain, ((rings, 0),), out),
        lambda: _network.correlate(5, 9, 2**63 - 1, plain, planes, out[:64]),
    ]
    if hasattr(_network, "pack"):
        refused += [lambda: _network.pack(2**59, four, np.zeros(4, np.uint16))]
    for each in refused:
        with pytest.raises(ValueError, match="do not fit"):
            each()


def test_a_kernel_farther_apart_than_there_are_frames():
    """As many frames as one, and fewer than the kernel's reach."""
    for frames in (1, 5, 8, 9):
        found, expected = both(WIDE_SIZES, 20, (frames,))
        np.testing.assert_allclose(found, expected, atol=WITHIN * np.abs(expected).max())


CODE = """
import hashlib, sys
import numpy as np
from alphamf.learnt import compiled
from alphamf.learnt.memory import Memories
within = 2e-2 if compiled.variant() in compiled.ROUNDED else 2e-5
for path in sys.argv[1:]:
    parameters = dict(np.load(path))
    features, expected = parameters.pop("features"), parameters.pop("expected")
    made = compiled.Network(parameters, features.shape[-2])
    np.testing.assert_allclose(
        made.outputs(features), expected, atol=within * np.abs(expected).max()
    )
rng = np.random.default_rng(0)
x = rng.standard_normal((40, 37)).astype(np.float32)
scale, shift = rng.standard_normal((2, 37)).astype(np.float32)
taps, out = rng.standard_normal((5, 37)).astype(np.float32), np.empty_like(x)
compiled._network.mix(20, 4, x, scale, shift, taps, out)
compiled._network.rectify(out, shift)
compiled._network.add(out, x, scale)
flat = rng.standard_normal(20 * 9 * 160 + 16).astype(np.float32)
planes = flat[:-16].reshape(20, 9, 160)
planes[..., :16] = planes[..., 16 + 129 :] = flat[-16:] = 0
last = np.empty((20, 2, 160), np.float32)
compiled._network.correlate(9, 129, 5, made._steps, flat, last)
newest, memories = compiled.Newest(parameters, 129), Memories(2, 129, made._sizes)
heard = np.stack([newest.outputs(memories, features[:, k]) for k in range(20)])
digest = hashlib.sha256(out.tobytes() + last[..., 16 : 16 + 129].tobytes() + heard.tobytes())
print(compiled.variant(), digest.hexdigest())
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
    from alphamf.learnt.refiner import Refiner
    from tests.learnt.test_refiner import FRAME, posterior

    refiner = Refiner(drawn(NARROW_SIZES, FRAME.bins), 8000, FRAME)
    before = len(pickle.dumps(refiner))
    found = refiner.refine(**posterior())
    assert len(pickle.dumps(refiner)) == before
    again = pickle.loads(pickle.dumps(refiner)).refine(**posterior())
    np.testing.assert_array_equal(found, again)


def test_without_a_compiler_numpy_does_the_work(monkeypatch):
    from alphamf.learnt.refiner import Refiner
    from tests.learnt.test_refiner import FRAME, posterior

    refiner = Refiner(drawn(NARROW_SIZES, FRAME.bins), 8000, FRAME)
    given = posterior((FRAME.bins, 200))
    found = refiner.refine(**given)
    monkeypatch.setattr(compiled, "AVAILABLE", False)
    assert compiled.variant() == "numpy"
    np.testing.assert_allclose(found, refiner.refine(**given), atol=5 * WITHIN)
