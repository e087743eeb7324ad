"""Streams of random numbers, and normal noise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from alphamf.inference.random import Key, generator, noise, word_state


def test_stream_is_reproducible():
    first, again = generator(3, 1, 4), generator(3, 1, 4)
    assert first is not again
    np.testing.assert_array_equal(first.random(100), again.random(100))


def test_a_key_of_the_list_is_its_number():
    for key in Key:
        np.testing.assert_array_equal(
            generator(3, key, 1).random(9), generator(3, int(key), 1).random(9)
        )
    assert len({int(key) for key in Key}) == len(Key)


def test_streams_differ_by_seed_and_key():
    keys = [(0,), (1,), (0, 0), (0, 1), (1, 0), (0, 1, 0), ()]
    streams = [generator(seed, *key).random(4000) for seed in (0, 1) for key in keys]
    assert len({stream.tobytes() for stream in streams}) == len(streams)
    correlation = np.corrcoef(streams)[np.triu_indices(len(streams), 1)]
    assert np.abs(correlation).max() < 4.5 / np.sqrt(4000)  # 91 pairs, p = 6e-4


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_noise_is_standard_normal_like_its_model(dtype):
    draw = noise(generator(0), np.empty((20, 500), dtype))
    assert draw.shape == (20, 500)
    assert draw.dtype == dtype
    assert stats.kstest(draw.ravel(), "norm").pvalue > 1e-4


def test_noise_is_normal_and_independent():
    _random = pytest.importorskip("alphamf.inference._random")
    size = 1_000_001
    x = noise(generator(0, 0), np.empty(size, np.float32))
    assert x.dtype == np.float32
    assert stats.kstest(x, "norm").pvalue > 1e-3
    x = x.astype(np.float64)
    for power, mean, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs((x**power).mean() - mean) < 4 * np.sqrt(variance / size)
    chunk = _random.CHUNK
    # Neighbours, the two of a pair, and the same place in the next chunk; squares too.
    for lag in (1, 2, _random.LANES, chunk, (size + 1) // 2):
        for y in (x, x * x - 1):
            assert abs(np.mean(y[lag:] * y[:-lag])) < 4 * (y**2).mean() / np.sqrt(size - lag)


@settings(deadline=None, derandomize=True, max_examples=40)
@given(size=st.integers(1, 5000), seed=st.integers(0, 2**32))
def test_noise_of_any_size(size, seed):
    x = noise(generator(seed, 0), np.empty(size, np.float32))
    np.testing.assert_array_equal(x, noise(generator(seed, 0), np.empty(size, np.float32)))
    assert np.isfinite(x).all()
    assert len(np.unique(x)) > 0.99 * size
    rng = generator(seed, 0)
    assert (noise(rng, x) != noise(rng, x)).all()


def test_buffers_that_do_not_fit_are_refused():
    """Before a byte is written: the loops trust the lengths."""
    _random = pytest.importorskip("alphamf.inference._random")
    state = word_state(generator(0, 0), _random.LANES)
    for call in (
        lambda: _random.normal(state[:3], np.ones(5, np.float32)),
        lambda: _random.words(state, np.ones(33, np.uint32)),
        lambda: _random.words(state, np.ones(32, np.float32)),
        lambda: _random.words(state.astype(float), np.ones(32, np.uint32)),
        lambda: _random.normal(state, np.ones(5)),
        lambda: _random.normal(state, np.ones(5, np.uint32)),
        lambda: _random.normal(state, bytearray(7)),
        lambda: _random.normal(bytearray(512), np.ones(5, np.float32)),
    ):
        with pytest.raises(ValueError):
            call()
