"""The compiled loops against the same steps in float64, and their draws of Phi against the law."""

import os
import subprocess
import sys

import numpy as np
import pytest

from alphamf.factorization import cells, compiled
from alphamf.factorization.cells import CellOutput, Cells
from alphamf.factorization.priors import Model, Source
from alphamf.inference.random import generator, word_state
from alphamf.tools.arrays import LOG_LIMIT

if not compiled.AVAILABLE:
    pytest.skip("the compiled loops were not built", allow_module_level=True)

import alphamf.factorization._loops as _loops

ALPHAS = (0.5, 0.8, 1.0, 1.2, 1.89, 1.999)
SHAPES = [((1, 1), (1, 1)), ((3, 7), (3, 7)), ((37, 101), (37, 101)), ((5, 300), (4, 5, 300))]
"""Shapes of the power and of the cells: fewer than a chunk, more than a chunk, several chains."""


def arrays(power_shape, shape, alphas=(1.2, 1.89), seed=0):
    """Power, and cells of sources with two outputs each."""
    rng = np.random.default_rng(seed)
    power = rng.gamma(0.5, 2.0, power_shape).astype(np.float32)
    sources = []
    for alpha in alphas:
        v, phi = (rng.gamma(0.5, 1.0, shape).astype(np.float32) + 1e-3 for _ in range(2))
        out = np.full((2, *shape), np.nan, np.float32)
        sources.append(Cells(alpha, v, phi if alpha < 2 else None, out))
    return power, sources


def doubled(sources):
    """Return the same in float64, with outputs of their own."""
    return [
        Cells(
            each.alpha,
            each.v.astype(np.float64),
            None if each.phi is None else each.phi.astype(np.float64),
            None if each.out is None else np.empty(each.out.shape),
        )
        for each in sources
    ]


def moved(rng, power, sources):
    """Move Phi by the compiled loops."""
    states = compiled.states(rng, [each.alpha for each in sources])
    return compiled.evaluate(CellOutput.MOVE, power, sources, states=states)


def test_which_loops_an_array_gets():
    sources = [Source(1.2, 1)]
    assert Model(np.ones((2, 2), np.float32), sources, 1).loops is compiled
    assert Model(np.ones((2, 2)), sources, 1).loops is cells
    many = sources * (_loops.SOURCES + 1)
    assert Model(np.ones((2, 2), np.float32), many, 1).loops is cells


@pytest.mark.parametrize("alpha", [*ALPHAS, 2.0])
def test_parts_of_extreme_dispersions(alpha):
    """sigma^2 of one source, whose v go far beyond what single precision holds to a power."""
    v = np.geomspace(1e-30, 1e12, 5000, dtype=np.float32).reshape(50, 100)
    phi = np.full(v.shape, 1.7, np.float32) if alpha < 2 else None
    source = Cells(alpha, v, phi, np.empty((2, *v.shape), np.float32))
    (exact,) = doubled([source])
    power = np.ones(v.shape, np.float32)
    for loops, given in ((cells, exact), (compiled, source)):
        loops.evaluate(CellOutput.VARIANCE, power.astype(given.v.dtype), [given])
    np.testing.assert_allclose(source.v, exact.v, rtol=1e-7)
    fits = exact.out[0] < 1e30
    np.testing.assert_allclose(source.out[0][fits], exact.out[0][fits], rtol=2e-5)
    assert source.out[0].max() <= np.float32(cells.LARGEST)


@pytest.mark.parametrize(("power_shape", "shape"), SHAPES)
@pytest.mark.parametrize("alphas", [(0.8,), (1.0, 1.89), (1.0, 2.0), (2.0,), (1.2, 1.0, 1.89)])
@pytest.mark.parametrize(
    "want", [CellOutput.SLOPES, CellOutput.SLOPE, CellOutput.GAIN, CellOutput.VARIANCE]
)
def test_outputs_are_those_in_double_precision(power_shape, shape, alphas, want):
    power, sources = arrays(power_shape, shape, alphas)
    if len(sources) > 1:
        sources[1] = sources[1]._replace(out=None)
    exact, parts = doubled(sources), doubled(sources)
    compiled.evaluate(want, power, sources, scale=3.0)
    cells.evaluate(want, power.astype(np.float64), exact, scale=3.0)
    cells.evaluate(CellOutput.SLOPES, power.astype(np.float64), parts, scale=3.0)
    for one, other, both in zip(sources, exact, parts, strict=True):
        if one.out is None:
            continue
        if want == CellOutput.SLOPES:
            np.testing.assert_allclose(one.out, other.out, rtol=4e-6)
        elif want == CellOutput.SLOPE:
            assert (np.abs(one.out[0] - other.out[0]) <= 4e-6 * both.out.sum(0)).all()
        else:
            np.testing.assert_allclose(one.out[0], other.out[0], rtol=4e-6)


@pytest.mark.parametrize("want", [CellOutput.SLOPES, CellOutput.SLOPE, CellOutput.GAIN])
def test_on_the_way_of_a_move_or_after_it(want):
    """The same bits: a run that resumes has no draw behind it that made its gradient."""
    found = []
    for apart in (False, True):
        power, sources = arrays((37, 101), (37, 101), (1.0, 1.89, 2.0))
        states = compiled.states(generator(3), [each.alpha for each in sources])
        if apart:
            compiled.evaluate(CellOutput.MOVE, power, sources, states=states)
            states = None
        compiled.evaluate(want, power, sources, states=states)
        found.append([array for each in sources for array in (each.out, each.v)])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_proposals_are_positive_stable(alpha):
    """Draws of Phi from its prior: what a move makes of cells whose likelihood is flat."""
    count = 400_000
    phi, v = np.ones((1, count), np.float32), np.full((1, count), 1e-12, np.float32)
    loud = Cells(2.0, np.ones_like(v), None)
    accepted = moved(generator(0, 5), np.zeros_like(phi), [Cells(alpha, v, phi), loud])
    assert accepted == [count, 0] or alpha < 1
    phi = phi.ravel().astype(np.float64)
    assert phi.min() > 0
    assert np.log(phi.max()) < LOG_LIMIT + 1
    for t in (0.03, 0.3, 3.0, 30.0):
        transform = np.exp(-t * phi)
        error = transform.std() / np.sqrt(phi.size)
        assert abs(transform.mean() - np.exp(-((2 * t) ** (alpha / 2)))) < 4 * error + 1e-7
    first, second = np.exp(-phi[:-1]), np.exp(-phi[1:])
    assert abs(np.corrcoef(first, second)[0, 1]) < 4 / np.sqrt(phi.size)


@pytest.mark.parametrize("alpha", [*ALPHAS, 2.0])
def test_first_draws_are_positive_stable(alpha):
    phi = compiled.fill_stable(generator(4), alpha, np.empty((3, 100_001), np.float32))
    phi = phi.astype(np.float64)
    for t in (0.03, 0.3, 3.0):
        transform = np.exp(-t * phi)
        error = transform.std() / np.sqrt(phi.size)
        assert abs(transform.mean() - np.exp(-((2 * t) ** (alpha / 2)))) < 4 * error + 1e-6


@pytest.mark.parametrize(("power_shape", "shape"), SHAPES)
def test_a_move_counts_what_it_changes(power_shape, shape):
    power, sources = arrays(power_shape, shape)
    before = [each.phi.copy() for each in sources]
    accepted = moved(generator(1, 0), power, sources)
    changed = [np.count_nonzero(each.phi != old) for each, old in zip(sources, before, strict=True)]
    assert accepted == changed


def test_buffers_that_do_not_fit_are_refused():
    """Before a byte is written: the loops trust the lengths."""
    state = word_state(generator(0, 0), _loops.LANES)
    short, long = np.ones(5, np.float32), np.ones(9, np.float32)
    right = (1.5, 1.0, short, short, state, short, short)

    def call(place=None, value=None, *, want=1, power=short, more=()):
        source = list(right)
        if place is not None:
            source[place] = value
        return _loops.evaluate(want, power, (tuple(source), *more))

    assert len(call()) == 1
    for refused in (
        *[lambda k=k: call(k, long) for k in (2, 3, 5, 6)],
        *[lambda k=k: call(k, None) for k in (2, 3, 6)],
        lambda: call(4, state[:5]),
        lambda: call(power=long),
        lambda: call(power=short[:0]),
        lambda: call(want=5),
        lambda: call(want=-1),
        lambda: call(more=[(1.5, 1.0, long, long, None, None, None)]),
        lambda: call(more=[right] * _loops.SOURCES),
        lambda: call(more=[None]),
        lambda: call(more=[right[:3]]),
        lambda: _loops.evaluate(1, short, ()),
        lambda: _loops.evaluate(1, short, [right]),
        lambda: call(2, np.ones((5, 2), np.float32)[:, 0]),
        lambda: _loops.log(short, long),
    ):
        with pytest.raises((ValueError, BufferError, TypeError)):
            refused()


@pytest.mark.parametrize(
    "wrong",
    [np.ones(9), np.ones(9, np.int32), np.ones(18, np.float16), bytearray(36), bytearray(7)],
)
def test_buffers_of_another_format_are_refused(wrong):
    """Wherever one stands: bytes that are no float32, or no whole number of them."""
    state, right = word_state(generator(0, 0), _loops.LANES), np.ones(9, np.float32)
    for name in ("log", "exp", "sin"):
        for places in ((wrong, right), (right, wrong), (wrong, wrong)):
            with pytest.raises(ValueError, match="not of float32"):
                getattr(_loops, name)(*places)
    for place in (2, 3, 5, 6):
        source = [1.5, 1.0, right, right, state, right, right]
        source[place] = wrong
        with pytest.raises(ValueError, match="not of float32"):
            _loops.evaluate(1, right, (tuple(source),))
    with pytest.raises(ValueError, match="not of float32"):
        _loops.stable(state, 0.5, wrong)
    with pytest.raises(ValueError, match="do not fit"):
        _loops.stable(state[:5], 0.5, right)
    with pytest.raises(ValueError, match="not of float32"):
        _loops.evaluate(1, wrong, ((1.5, 1.0, right, right, state, right, right),))
    for other in (state.astype(float), bytearray(512)):
        with pytest.raises(ValueError, match="not of unsigned words"):
            _loops.evaluate(1, right, ((1.5, 1.0, right, right, other, right, right),))


def test_logarithms_of_zero_and_of_what_is_below():
    x = np.float32([0.0, -0.0, -1.0, -1e-38, -np.inf, np.nan, 1.0])
    out = np.empty_like(x)
    _loops.log(x, out)
    np.testing.assert_array_equal(out, np.float32([-np.inf] * 2 + [np.nan] * 4 + [0]))


def test_without_the_loops_numpy_does_the_work():
    """The same answer but for its random numbers, in a process that cannot import them."""
    code = """
import sys
sys.modules["alphamf.factorization._loops"] = None
sys.modules["alphamf.inference._leaps"] = None
sys.modules["alphamf.inference._random"] = None
sys.modules["alphamf.learnt._network"] = None
import numpy as np
from alphamf import PRESETS, denoise
from alphamf.factorization import cells, compiled
from alphamf.factorization.priors import Model, Source
from alphamf.inference import leaps, random
assert not (compiled.AVAILABLE or leaps.COMPILED or random.COMPILED)
assert Model(np.ones((2, 2), np.float32), [Source(1.2, 1)], 1).loops is cells
rng = np.random.default_rng(0)
out = denoise(rng.standard_normal(8000), 8000, PRESETS["fast"]).audio
assert out.shape == (8000,) and np.isfinite(out).all()
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_copies_without_fused_operations_give_the_same_bits():
    """As processors with vectors of any width then do."""
    code = """
import sys, hashlib
import numpy as np
from alphamf.factorization import _loops, compiled
from alphamf.factorization.cells import CellOutput
from alphamf.inference import _random
from tests.factorization.test_compiled import arrays
digest = hashlib.sha256()
state = np.arange(1, 4 * _loops.LANES + 1, dtype=np.uint32)
for want in CellOutput:
    power, sources = arrays((5, 301), (5, 301), (1.3, 1.0, 2.0))
    states = [state, state.copy(), None]
    compiled.evaluate(want, power, sources, states=states)
    for array in (state, *(array for each in sources for array in (each.v, each.phi, each.out))):
        if array is not None:
            digest.update(array.tobytes())
out = np.empty(1001, np.float32)
_random.normal(state, out)
digest.update(out.tobytes())
print(_loops.VARIANT, digest.hexdigest())
"""
    found = {}
    for name in ("default", "unfused", "v3", "v4"):
        variables = {**os.environ, "ALPHAMF_LOOPS": name}
        command = [sys.executable, "-c", code]
        words = subprocess.check_output(command, env=variables, text=True).split()
        found[words[0]] = words[1]
    assert found.get("unfused", found["default"]) == found["default"]
    assert found.get("v3") == found.get("v4", found.get("v3"))
