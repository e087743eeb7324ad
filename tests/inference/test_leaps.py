"""Compiled leaps on minibatches of a regression, beside the samplers' own lines."""

import numpy as np
import pytest

from alphamf.inference import SAMPLERS, leaps
from alphamf.inference.random import draw_rows, generator
from alphamf.inference.targets.gaussian import LinearGaussian
from alphamf.inference.targets.logistic import LogisticRegression

pytestmark = pytest.mark.skipif(not leaps.COMPILED, reason="without a C compiler")

SAMPLER = {
    "sgld": {},
    "sghmc": {"leaps": 3, "friction": 2.0, "noise_estimate": 0.5},
    "sgnht": {"leaps": 3, "diffusion": 2.0},
}
STEP_SIZE = {"sgld": 1e-3, "sghmc": 1e-2, "sgnht": 1e-2}


def regression(kind, size, batch, dtype=np.float64, points=50):
    rng = np.random.default_rng(size)
    a = rng.standard_normal((points, size)).astype(dtype)
    if kind == "logistic":
        labels = (rng.random(points) < 0.5).astype(dtype)
        return LogisticRegression(3 * a, labels, prior_variance=2.0, batch=batch)
    x = (a.sum(1) + rng.standard_normal(points)).astype(dtype)
    return LinearGaussian(a, x, 2.0, batch=batch)


class Replay:
    """A generator that hands out the draws of a block leap by leap.

    It is none of NumPy's, so that the samplers' own lines do the work.
    """

    def __init__(self, dtype, rng, counts, chains, size, batch):
        self.of_rows, self.of_noise = [], []
        for count in counts:
            self.of_rows += list(rng.random((count, *chains, batch)))
            self.of_noise += list(leaps.noise(rng, np.empty((count, *chains, size), dtype)))

    def random(self, shape):
        return self.of_rows.pop(0).reshape(shape).copy()

    def standard_normal(self, shape, dtype):
        return self.of_noise.pop(0).reshape(shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("chains", [(), (2, 3)])
@pytest.mark.parametrize("size", [1, 5, 16, 37, 100])
@pytest.mark.parametrize("kind", ["gaussian", "logistic"])
@pytest.mark.parametrize("name", SAMPLER)
def test_leaps_are_the_samplers_own_lines(name, kind, size, chains, dtype):
    batch = size % 30 + 1
    target = regression(kind, size, batch, dtype)
    sampler = SAMPLERS[name](STEP_SIZE[name], **SAMPLER[name])
    theta = generator(0).standard_normal((*chains, size)).astype(dtype)
    state = other = sampler.init(generator(1), theta)
    rng, count = generator(2), getattr(sampler, "leaps", 1)
    slow = Replay(dtype, generator(2), [count] * 5, chains, size, batch)
    for _ in range(5):
        before = [np.copy(each) for each in state[:1] + state[2:-1]]
        new, other = sampler.step(rng, state, target), sampler.step(slow, other, target)
        for one, two in zip(before, state[:1] + state[2:-1], strict=True):
            np.testing.assert_array_equal(one, two)  # a state belongs to its holder
        state = new
    assert not slow.of_noise
    for one, two in zip(state, other, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-3 if dtype == np.float32 else 1e-10)
    assert state.theta.dtype == dtype


def test_many_chains_draw_in_smaller_blocks(monkeypatch):
    target = regression("gaussian", 3, 4)
    sampler = SAMPLERS["sghmc"](0.01, leaps=5)
    theta = np.zeros((7, 3))
    monkeypatch.setattr(leaps, "BLOCK", 7 * 4 * 2)
    state = sampler.init(generator(1), theta)
    slow = Replay(np.float64, generator(2), [2, 2, 1], (7,), 3, 4)
    one, two = sampler.step(generator(2), state, target), sampler.step(slow, state, target)
    np.testing.assert_allclose(one.theta, two.theta, rtol=1e-12)


@pytest.mark.parametrize("kind", ["gaussian", "logistic"])
def test_extreme_scores_stay_finite(kind):
    target = regression(kind, 2, 10)
    sampler = SAMPLERS["sgld"](1e-9)
    state = sampler.init(None, np.array([1e6, -1e6]))
    assert np.isfinite(sampler.step(generator(0), state, target).theta).all()


def test_rows_are_drawn_evenly():
    drawn = draw_rows(generator(0), 7, (7, 10_000))
    counts = np.bincount(drawn.ravel(), minlength=7)
    assert drawn.shape == (7, 10_000)
    assert len(counts) == 7
    assert ((counts - 10_000) ** 2 / 10_000).sum() < 27.9  # chi-square of 6, p = 1e-4


def test_buffers_that_do_not_fit_are_refused():
    """Before a byte is written: the loops trust the lengths."""
    from alphamf.inference import _leaps

    def call(**changed):
        given = {
            "data": (np.ones((5, 3)), np.ones(5), 1.0, 1.0, False),
            "chosen": np.zeros((2, 4, 6)),
            "noise": np.zeros((2, 4, 3)),
            "theta": np.zeros((4, 3)),
            "momentum": np.zeros((4, 3)),
            "thermostat": np.zeros((4, 1)),
            "rule": (0.1, 0.9, 0.1, 0.1),
        }
        given.update(changed)
        _leaps.leap(*given.values())

    call()
    call(thermostat=None)
    call(momentum=None, thermostat=None)
    for wrong in (
        {"data": (np.ones((5, 2)), np.ones(5), 1.0, 1.0, False)},
        {"data": (np.ones((5, 3), np.float32), np.ones(5), 1.0, 1.0, False)},
        {"data": (np.ones((5, 3)), np.ones(0), 1.0, 1.0, False)},
        {"chosen": np.zeros((2, 4, 6), np.float32)},
        {"chosen": np.zeros(7)},
        {"noise": np.zeros((2, 4, 2))},
        {"noise": np.zeros(0)},
        {"theta": np.zeros((4, 3), np.int64)},
        {"theta": np.zeros(0)},
        {"momentum": np.zeros((4, 2))},
        {"thermostat": np.zeros(3)},
        {"momentum": None},
    ):
        with pytest.raises(ValueError):
            call(**wrong)
    with pytest.raises(ValueError):
        read_only = np.zeros((4, 3))
        read_only.flags.writeable = False
        call(theta=read_only)


def test_rows_beyond_the_data_are_not_read():
    from alphamf.inference import _leaps

    theta = np.zeros(1)
    for wild in (1.0, -1.0, 1e300, np.nan, np.inf):
        data = (np.ones((5, 1)), np.arange(5.0), 1.0, 0.0, False)
        _leaps.leap(data, np.array([wild]), np.zeros(1), theta, None, None, (1.0, 0.0, 0.0, 1.0))
        assert theta == 0  # the first row, whose value is 0
