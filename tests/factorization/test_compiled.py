"""The compiled loops against the same steps in float64, and their draws of Phi against the law."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from alphamf.factorization import cells, compiled
from alphamf.factorization.model import Model, Source
from alphamf.inference.random import generator, word_state
from alphamf.tools.arrays import LOG_LIMIT

if not compiled.AVAILABLE:
    pytest.skip("the compiled loops were not built", allow_module_level=True)

from alphamf.factorization import _loops

ALPHAS = (0.5, 0.8, 1.0, 1.2, 1.89, 1.999)
SHAPES = [((1, 1), (1, 1)), ((3, 7), (3, 7)), ((37, 101), (37, 101)), ((5, 300), (4, 5, 300))]
"""Shapes of the power and of the cells: fewer than a chunk, more than a chunk, several chains."""


def arrays(power_shape, shape, seed=0):
    """Power, v, Phi, part, rest and sigma^2 that fit each other."""
    rng = np.random.default_rng(seed)
    power = rng.gamma(0.5, 2.0, power_shape).astype(np.float32)
    v, phi, part, rest = (rng.gamma(0.5, 1.0, shape).astype(np.float32) + 1e-3 for _ in range(4))
    return power, v, phi, part, rest, rest + part


def test_which_loops_an_array_gets():
    sources = [Source(1.2, 1)]
    assert Model(np.ones((2, 2), np.float32), sources, 1).loops is compiled
    assert Model(np.ones((2, 2)), sources, 1).loops is cells


@pytest.mark.parametrize("alpha", [*ALPHAS, 2.0])
def test_weigh(alpha):
    v = np.geomspace(1e-30, 1e12, 5000, dtype=np.float32).reshape(50, 100)
    phi = np.full(v.shape, 1.7, np.float32) if alpha < 2 else 2.0
    part = np.empty_like(v)
    exact_v, exact = v.astype(np.float64), np.empty(v.shape)
    cells.weigh(exact_v, alpha, np.float64(phi) * np.ones(v.shape), exact)
    compiled.weigh(v, alpha, phi, part)
    np.testing.assert_allclose(v, exact_v, rtol=1e-7)
    fits = (exact > 1e-37) & (exact < 1e30)
    np.testing.assert_allclose(part[fits], exact[fits], rtol=2e-5)
    assert part.max() <= np.float32(cells.LARGEST)


@pytest.mark.parametrize(("power_shape", "shape"), SHAPES)
@pytest.mark.parametrize("alpha", [0.8, 1.89])
def test_slopes(power_shape, shape, alpha):
    given = arrays(power_shape, shape)
    power, v, _, part, _, sigma2 = given
    exact = cells.slopes(
        alpha,
        3.0,
        *(x.astype(np.float64) for x in (power, v, part, sigma2)),
        [np.empty(shape), np.empty(shape)],
    )
    out = [np.empty(shape, np.float32) for _ in range(2)]
    for one, other in zip(
        compiled.slopes(alpha, 3.0, power, v, part, sigma2, out), exact, strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=2e-6)
    total = compiled.slope(alpha, 3.0, power, v, part, sigma2, out)
    assert (np.abs(total - (exact[0] - exact[1])) <= 2e-6 * (exact[0] + exact[1])).all()


def accepted_proposals(alpha, count, seed=0):
    """Draws of Phi from its prior: what a move makes of cells whose likelihood is flat."""
    phi = np.ones((1, count), np.float32)
    part, power = np.full_like(phi, 1e-30), np.zeros_like(phi)
    rest, sigma2 = np.ones_like(phi), np.ones_like(phi)
    moved = compiled.move(generator(seed, 5), alpha, power, phi, part, rest, sigma2, [])
    assert moved == count
    return phi.ravel().astype(np.float64)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_proposals_are_positive_stable(alpha):
    phi = accepted_proposals(alpha, 400_000)
    assert phi.min() > 0
    assert np.log(phi.max()) < LOG_LIMIT + 1
    for t in (0.03, 0.3, 3.0, 30.0):
        transform = np.exp(-t * phi)
        error = transform.std() / np.sqrt(phi.size)
        assert abs(transform.mean() - np.exp(-((2 * t) ** (alpha / 2)))) < 4 * error + 1e-7
    first, second = np.exp(-phi[:-1]), np.exp(-phi[1:])
    assert abs(np.corrcoef(first, second)[0, 1]) < 4 / np.sqrt(phi.size)


@pytest.mark.parametrize(("power_shape", "shape"), SHAPES)
def test_a_move_keeps_its_books(power_shape, shape):
    """Phi, its part of sigma^2 and sigma^2 itself change together, where a move is accepted."""
    power, _, phi, part, rest, sigma2 = arrays(power_shape, shape)
    before = phi.copy()
    base = part / phi
    accepted = compiled.move(generator(1, 0), 1.2, power, phi, part, rest, sigma2, [])
    assert accepted == np.count_nonzero(phi != before)
    np.testing.assert_allclose(part, base * phi, rtol=1e-5)
    np.testing.assert_allclose(sigma2, rest + part, rtol=1e-5)


def test_acceptance_is_that_of_the_loops_in_float64():
    """Half a million proposals each: the two shares differ by less than four standard errors."""
    power, _, phi, part, rest, sigma2 = arrays((500, 1000), (500, 1000))
    exact = [x.astype(np.float64) for x in (power, phi, part, rest, sigma2)]
    scratch = [np.empty(phi.shape) for _ in range(4)]
    share = compiled.move(generator(2, 0), 1.5, power, phi, part, rest, sigma2, []) / phi.size
    other = cells.move(generator(3, 0), 1.5, *exact, scratch) / phi.size
    assert 0.2 < share < 0.95
    assert abs(share - other) < 4 * np.sqrt(2 * share * (1 - share) / phi.size)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 1.2, 1.999])
def test_extreme_cells_stay_finite(alpha):
    extremes = np.float32([1e-12, 1e-3, 1.0, 1e12, 1e30])
    power, part, rest = (x.ravel() for x in np.meshgrid(extremes, extremes, extremes))
    power, part, rest = (np.tile(x, (40, 1)) for x in (power, part, rest))
    phi, sigma2 = np.ones_like(part), rest + part
    for seed in range(20):
        compiled.move(generator(seed, 0), alpha, power, phi, part, rest, sigma2, [])
    for array in (phi, part, sigma2):
        assert np.isfinite(array).all()
        assert (array > 0).all()


def test_buffers_that_do_not_fit_are_refused():
    """Before a byte is written: the loops trust the lengths."""
    rng = generator(0, 0)
    state = word_state(rng, _loops.LANES)
    short, long = np.ones(5, np.float32), np.ones(9, np.float32)
    for call in (
        lambda: _loops.move(state, 0.6, short, long, long, long, long),
        lambda: _loops.move(state, 0.6, short, short, short, long, short),
        lambda: _loops.move(state[:5], 0.6, short, short, short, short, short),
        lambda: _loops.move(state, 0.6, short[:0], short, short, short, short),
        lambda: _loops.weigh(1.5, short, long, short),
        lambda: _loops.slope(1.0, short, long, long, long, long),
        lambda: _loops.slopes(1.0, short, short, short, short, short, long),
        lambda: _loops.log(short, long),
        lambda: _loops.weigh(1.5, np.ones((4, 4), np.float32)[:, :2], short, short),
    ):
        with pytest.raises((ValueError, BufferError, TypeError)):
            call()


@pytest.mark.parametrize(
    "wrong",
    [np.ones(9), np.ones(9, np.int32), np.ones(18, np.float16), bytearray(36), bytearray(7)],
)
def test_buffers_of_another_format_are_refused(wrong):
    """Wherever one stands: bytes that are no float32, or no whole number of them."""
    state, right = word_state(generator(0, 0), _loops.LANES), np.ones(9, np.float32)
    calls = {
        "move": ([state, 0.6], 5),
        "weigh": ([1.5], 3),
        "slope": ([1.0], 5),
        "slopes": ([1.0], 6),
        "log": ([], 2),
        "exp": ([], 2),
        "sin": ([], 2),
    }
    for name, (first, count) in calls.items():
        for place in range(count):
            arrays = [right.copy() for _ in range(count)]
            arrays[place] = wrong
            with pytest.raises(ValueError, match="not of float32"):
                getattr(_loops, name)(*first, *arrays)
        all_wrong = [wrong] * count
        with pytest.raises(ValueError, match="not of float32"):
            getattr(_loops, name)(*first, *all_wrong)
    for other in (state.astype(float), bytearray(512)):
        with pytest.raises(ValueError, match="not of unsigned words"):
            _loops.move(other, 0.6, *[right.copy() for _ in range(5)])


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
sys.modules["alphamf.inference._random"] = None
sys.modules["alphamf.learnt._network"] = None
import numpy as np
from alphamf import PRESETS, denoise
from alphamf.factorization import cells, compiled
from alphamf.factorization.model import Model, Source
from alphamf.inference import random
assert not compiled.AVAILABLE and not random.COMPILED
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
from alphamf.factorization import _loops
from alphamf.inference import _random
from tests.factorization.test_compiled import arrays
digest = hashlib.sha256()
state = np.arange(1, 4 * _loops.LANES + 1, dtype=np.uint32)
power, v, phi, part, rest, sigma2 = arrays((5, 301), (5, 301))
_loops.weigh(1.3, v, phi, part)
_loops.move(state, 0.7, power, phi, part, rest, sigma2)
_random.normal(state, rest)
out = np.empty_like(v)
_loops.slope(1.0, power, v, part, sigma2, out)
for array in (state, v, phi, part, rest, sigma2, out):
    digest.update(array.tobytes())
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
