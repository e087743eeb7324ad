"""Diagnostics: an autoregression has known autocorrelations, hence a known ESS and MCSE."""

import numpy as np
import pytest
from arviz_stats.base.array import array_stats
from scipy.signal import lfilter

from alphamf.errors import AlphaMFError
from alphamf.inference import diagnostics
from alphamf.inference.chain import run
from alphamf.inference.diagnostics import merge_moments, moments, split_rhat
from alphamf.inference.records import Trace
from alphamf.inference.samplers.hmc import HMC
from alphamf.inference.samplers.langevin import SGLD
from alphamf.inference.targets.gaussian import LinearGaussian

RHO = 0.8
DRAWS, CHAINS = 5000, 4


@pytest.fixture(scope="module")
def draws():
    """Return four chains of two stationary autoregressions: rho = 0.8, and none."""
    noise = np.random.default_rng(0).standard_normal((DRAWS, CHAINS, 2))
    noise[1:, :, 0] *= np.sqrt(1 - RHO**2)
    noise[:, :, 0] = lfilter([1], [1, -RHO], noise[:, :, 0], axis=0)
    return 3 + noise


def test_ess_of_an_autoregression(draws):
    total = DRAWS * CHAINS
    expected = np.array([total * (1 - RHO) / (1 + RHO), total])
    np.testing.assert_allclose(diagnostics.ess(draws), expected, rtol=0.08)
    np.testing.assert_allclose(diagnostics.mcse(draws), expected**-0.5, rtol=0.06)


def test_interleaved_chains_are_told_apart(draws):
    # Chains that move in turn, as one series: its neighbours are independent.
    series = draws.reshape(DRAWS * CHAINS, 1, 2)
    apart = diagnostics.separate_chains(series, CHAINS)
    np.testing.assert_array_equal(apart, draws)
    assert diagnostics.ess(apart)[0] < 0.4 * diagnostics.ess(series)[0]
    assert diagnostics.separate_chains(series[:-1], CHAINS).shape == (DRAWS - 1, CHAINS, 2)


def test_rhat_tells_chains_that_disagree(draws):
    assert (diagnostics.rhat(draws) < 1.01).all()
    assert (diagnostics.rhat(draws + np.arange(CHAINS)[:, None]) > 1.1).all()


def test_autocorrelations_fall_geometrically(draws):
    rho = diagnostics.autocorrelation(draws, 3)
    np.testing.assert_allclose(rho[:, 0], RHO ** np.arange(1, 4), atol=0.03)
    np.testing.assert_allclose(rho[:, 1], 0, atol=0.03)
    assert diagnostics.autocorrelation_sum(draws, 20)[0] == pytest.approx(RHO / (1 - RHO), rel=0.1)


def test_summary_of_a_run():
    a = np.random.default_rng(2).standard_normal((40, 2))
    target = LinearGaussian(a, a @ np.ones(2), 1.0)
    record = Trace(lambda theta, _: theta, burn_in=100)
    sampler = SGLD(0.05 / np.linalg.eigvalsh(target.precision).max())
    *_, state = run(target, sampler, steps=4000, seed=0, chains=(4,), record=record)
    summary = diagnostics.summarise(record.values)
    assert (np.abs(summary.mean - target.mean) < 4 * summary.mcse).all()
    assert (summary.rhat < 1.1).all()
    np.testing.assert_allclose(summary.mcse, summary.std / summary.ess**0.5, rtol=1e-3)
    with pytest.raises(AlphaMFError, match="SGLDState"):
        diagnostics.acceptance(state)


def test_acceptance_of_a_metropolis_sampler():
    a = np.random.default_rng(3).standard_normal((40, 2))
    target = LinearGaussian(a, a @ np.ones(2), 1.0)
    *_, state = run(target, HMC(0.15, 3), steps=50, seed=0, chains=(20,))
    assert 0.1 < diagnostics.acceptance(state) < 0.999
    with pytest.raises(AlphaMFError, match="at least one step"):
        diagnostics.acceptance(state._replace(step=0))


@pytest.mark.parametrize("wrong", [np.zeros(10), np.zeros((3, 2))])
def test_refuses_what_is_not_draws(wrong):
    with pytest.raises(AlphaMFError, match="at least 4 draws"):
        diagnostics.ess(wrong)


def test_refuses_more_lags_than_draws_and_to_interleave_no_chains(draws):
    with pytest.raises(AlphaMFError, match="below 5000 draws, not 5000"):
        diagnostics.autocorrelation(draws, DRAWS)
    with pytest.raises(AlphaMFError, match="count must be at least 1, not 0"):
        diagnostics.separate_chains(draws, 0)


@pytest.fixture
def apart():
    """Return draws of three chains of four quantities, which agree less and less."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((40, 3, 4)) + np.arange(3)[:, None] * np.array([0, 0.1, 0.5, 2])


def halves(draws):
    middle = len(draws) // 2
    return moments(draws[:middle]), moments(draws[middle:])


def test_split_rhat_is_that_of_the_draws(apart):
    expected = array_stats.rhat(apart, chain_axis=1, draw_axis=0, method="split")
    np.testing.assert_allclose(split_rhat(*halves(apart)), expected, rtol=1e-12)
    assert expected[0] < 1.1 < expected[-1]


def test_chains_that_drift_together_are_told(apart):
    assert (split_rhat(*halves(apart + np.linspace(0, 5, len(apart))[:, None, None])) > 1.3).all()


def test_chains_that_stand_still():
    still = np.zeros((4, 2, 2))
    still[:, 1, 1] = 1
    np.testing.assert_array_equal(split_rhat(*halves(still)), [1, np.inf])


@pytest.mark.parametrize("first", [1, 7, 20])
def test_moments_of_parts_are_those_of_the_whole(apart, first):
    found, whole = merge_moments(moments(apart[:first]), moments(apart[first:])), moments(apart)
    assert found.draws == whole.draws
    np.testing.assert_allclose(found.mean, whole.mean, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.variance, whole.variance, rtol=1e-12)
    flat = apart.reshape(-1, apart.shape[-1])
    np.testing.assert_allclose(found.pooled_variance, flat.var(0), rtol=1e-12)
