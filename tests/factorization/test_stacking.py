"""Stacked frames, and their mean as the way back."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphamf.factorization.alpha_mf import stack, unstack


def power(bins, frames, seed=0):
    return np.random.default_rng(seed).standard_exponential((bins, frames), np.float32)


@settings(deadline=None, derandomize=True, max_examples=100)
@given(bins=st.integers(1, 9), frames=st.integers(1, 20), context=st.integers(1, 8))
def test_unstack_inverts_stack(bins, frames, context):
    x = power(bins, frames)
    stacked = stack(x, context)
    assert stacked.shape == (context * bins, frames + context - 1)
    assert stacked.dtype == np.float32
    back = unstack(stacked, context)
    assert back.shape == x.shape
    assert back.dtype == np.float32
    np.testing.assert_allclose(back, x, rtol=1e-6)


@pytest.mark.parametrize("context", [1, 2, 3, 6])
def test_block_is_the_frame_it_should_be(context):
    x = power(4, 5)
    stacked = stack(x, context)
    for c in range(context):
        for m in range(stacked.shape[1]):
            frame = m + c - (context - 1)
            expected = x[:, min(max(frame, 0), 4)]  # the ends repeat
            np.testing.assert_array_equal(stacked[4 * c : 4 * (c + 1), m], expected)


@pytest.mark.parametrize("chains", [(), (2,), (2, 3)])
def test_unstack_is_the_mean_of_what_columns_say(chains):
    context, bins, frames = 3, 4, 5
    rng = np.random.default_rng(1)
    gain = rng.random((*chains, context * bins, frames + context - 1), np.float32)
    before = gain.copy()
    mean = unstack(gain, context)
    assert mean.shape == (*chains, bins, frames)
    np.testing.assert_array_equal(gain, before)
    for i in range(bins):
        for j in range(frames):
            said = [gain[..., c * bins + i, j + context - 1 - c] for c in range(context)]
            np.testing.assert_allclose(mean[..., i, j], np.mean(said, axis=0), rtol=1e-6)


@pytest.mark.parametrize("context", [1, 3])
def test_leading_axes_are_clips(context):
    x = np.stack([power(4, 7, seed) for seed in range(3)])
    stacked = stack(x, context)
    for clip, one in zip(x, stacked, strict=True):
        np.testing.assert_array_equal(one, stack(clip, context))
    np.testing.assert_allclose(unstack(stacked, context), x, rtol=1e-6)
