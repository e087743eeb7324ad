"""Moments of chains: as of their draws, and R-hat as from the draws themselves."""

from __future__ import annotations

import numpy as np
import pytest
from arviz_stats.base.array import array_stats

from alphamf.inference.diagnostics import merge_moments, moments, split_rhat


@pytest.fixture
def draws():
    """Return draws of three chains of four quantities, which agree less and less."""
    rng = np.random.default_rng(0)
    apart = np.array([0, 0.1, 0.5, 2])
    return rng.standard_normal((40, 3, 4)) + np.arange(3)[:, None] * apart


def halves(draws):
    middle = len(draws) // 2
    return moments(draws[:middle]), moments(draws[middle:])


def test_split_rhat_is_that_of_the_draws(draws):
    expected = array_stats.rhat(draws, chain_axis=1, draw_axis=0, method="split")
    np.testing.assert_allclose(split_rhat(*halves(draws)), expected, rtol=1e-12)
    assert expected[0] < 1.1 < expected[-1]


def test_chains_that_drift_together_are_told(draws):
    drift = draws + np.linspace(0, 5, len(draws))[:, None, None]
    assert (split_rhat(*halves(drift)) > 1.3).all()


def test_chains_that_stand_still():
    still = np.zeros((4, 2, 2))
    still[:, 1, 1] = 1
    np.testing.assert_array_equal(split_rhat(*halves(still)), [1, np.inf])


@pytest.mark.parametrize("first", [1, 7, 20])
def test_moments_of_parts_are_those_of_the_whole(draws, first):
    found, whole = merge_moments(moments(draws[:first]), moments(draws[first:])), moments(draws)
    assert found.draws == whole.draws
    np.testing.assert_allclose(found.mean, whole.mean, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.variance, whole.variance, rtol=1e-12)
    flat = draws.reshape(-1, draws.shape[-1])
    np.testing.assert_allclose(found.pooled_variance, flat.var(0), rtol=1e-12)
