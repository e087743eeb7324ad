"""The normal-Wishart posterior: its exact law, its derivatives and a sampler that meets it."""

import numpy as np
import pytest
from scipy import stats

from alphamf.errors import AlphaMFError
from alphamf.inference.checks import P_LEAST, Z_MOST
from alphamf.inference.random import generator
from alphamf.inference.targets.normal_wishart import NormalWishart
from tests.support import posteriors
from tests.support.differences import central


def model(batch=None, dtype=np.float64, n=20):
    x = 0.5 + 1.5 * np.random.default_rng(3).standard_normal(n)
    return NormalWishart(x.astype(dtype), batch=batch)


def test_value_is_the_log_density_of_the_model_with_its_jacobian():
    target = model()
    theta = target.start(generator(2), (50,))
    mu, tau = target.unpack(theta)
    by_scipy = stats.norm.logpdf(target.x, mu[:, None], tau[:, None] ** -0.5).sum(-1)
    by_scipy += stats.wishart.logpdf(tau, 1, 1) + np.log(tau)
    sum_of_both = by_scipy + target.draw(generator(0), theta).value(theta)
    np.testing.assert_allclose(sum_of_both, sum_of_both[0], rtol=1e-9)


def law_p(target, theta):
    """Least p-value of tau, of mu given tau and of mu, against the exact posterior."""
    n, s = len(target.x), target.scatter
    mu, tau = target.unpack(theta.astype(np.float64))
    return min(
        stats.kstest(tau, stats.gamma(n / 2, scale=2 / (1 + s)).cdf).pvalue,
        stats.kstest((mu - target.centre) * np.sqrt(n * tau), "norm").pvalue,
        stats.kstest((mu - target.centre) * n / np.sqrt(1 + s), stats.t(n).cdf).pvalue,
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exact_draws_have_the_posterior_law(dtype):
    target = model(dtype=dtype)
    theta = posteriors.normal_wishart_draws(target, generator(4), (100_000,))
    assert theta.dtype == dtype
    assert law_p(target, theta) > P_LEAST
    mu, tau = target.unpack(theta)
    for draws, mean, variance in zip((mu, tau), target.mean, target.variance, strict=True):
        assert abs(draws.mean() - mean) < Z_MOST * np.sqrt(variance / len(draws))
        assert draws.var() == pytest.approx(variance, rel=0.03)


def test_metric_is_the_expected_curvature():
    # Expectation over data of the Hessian of U less that of the flat prior of mu: by many draws.
    theta = np.array([0.3, 0.4])
    mu, tau = model().unpack(theta)
    rng = np.random.default_rng(9)
    hessians = []
    for _ in range(2000):
        target = NormalWishart(mu + rng.standard_normal(20) / np.sqrt(tau))
        hessians.append(central(target.draw(rng, theta).grad, theta))
    expected, error = np.mean(hessians, 0), np.std(hessians, 0) / np.sqrt(2000)
    metric = model().draw(rng, theta).metric(theta)
    assert (np.abs(expected - np.diag(metric.g)) < Z_MOST * error + 1e-6).all()


def test_float32_gradient_of_five_thousand_points_keeps_its_digits():
    x = np.random.default_rng(11).standard_normal(5000) + 10
    single, double = NormalWishart(x.astype(np.float32)), NormalWishart(x)
    theta = posteriors.normal_wishart_draws(double, generator(12), (100,))
    fine = double.draw(generator(0), theta).grad(theta)
    coarse = single.draw(generator(0), theta).grad(theta.astype(np.float32))
    assert np.abs(fine - coarse).max() < 0.01 * fine.std()


def test_a_wild_proposal_overflows_nothing():
    target = model(dtype=np.float32)
    theta = np.array([1.0, 500.0], np.float32)
    potential = target.draw(generator(0), theta)
    assert np.isfinite(potential.value(theta)) and np.isfinite(potential.grad(theta)).all()


def test_refuses_what_does_not_fit():
    with pytest.raises(AlphaMFError, match=r"at least 3 points, not \(2,\)"):
        NormalWishart(np.ones(2))
