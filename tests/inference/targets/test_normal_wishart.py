"""The normal-Wishart posterior: its exact law, its derivatives and a sampler that meets it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, special, stats

from alphamf.errors import AlphaMFError
from alphamf.inference.laws import P_LEAST, Z_MOST
from alphamf.inference.random import generator
from alphamf.inference.samplers.langevin import SGLD
from alphamf.inference.targets.normal_wishart import NormalWishart
from tests.support.differences import central
from tests.support.twins import Wrong


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


@pytest.mark.slow
def test_moments_are_those_of_the_density():
    target = model(n=6)
    potential = target.draw(generator(0), np.zeros(2))
    least = potential.value(np.array([target.centre, -np.log(target.scatter / 6)]))

    def moment(function):
        def integrand(mu, log_tau):
            theta = np.array([mu, log_tau])
            return function(mu, np.exp(log_tau)) * np.exp(least - potential.value(theta))

        return integrate.dblquad(integrand, -8, 4, -30, 30, epsabs=1e-10)[0]

    mass = moment(lambda mu, tau: 1.0)
    mean = [moment(lambda mu, tau: mu) / mass, moment(lambda mu, tau: tau) / mass]
    square = [moment(lambda mu, tau: mu**2) / mass, moment(lambda mu, tau: tau**2) / mass]
    np.testing.assert_allclose(target.mean, mean, rtol=1e-4)
    np.testing.assert_allclose(target.variance, np.subtract(square, np.square(mean)), rtol=1e-3)


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
    theta = target.draw_exact(generator(4), (100_000,))
    assert theta.dtype == dtype
    assert law_p(target, theta) > P_LEAST
    mu, tau = target.unpack(theta)
    for draws, mean, variance in zip((mu, tau), target.mean, target.variance, strict=True):
        assert abs(draws.mean() - mean) < Z_MOST * np.sqrt(variance / len(draws))
        assert draws.var() == pytest.approx(variance, rel=0.03)


def metropolis(target, theta, scale=0.3, steps=3, factor=1.0):
    """Random-walk Metropolis on `factor` times U."""
    rng = generator(5)
    potential = target.draw(rng, theta)
    for _ in range(steps):
        proposal = theta + scale * rng.standard_normal(theta.shape)
        drop = factor * (potential.value(theta) - potential.value(proposal))
        accept = np.log(rng.random(drop.shape)) < drop
        theta = np.where(accept[:, None], proposal, theta)
    return theta


def test_metropolis_keeps_the_exact_law():
    target = model()
    start = target.draw_exact(generator(6), (100_000,))
    assert law_p(target, metropolis(target, start)) > P_LEAST
    # A broken twin: tau's own density, without the Jacobian of its logarithm.
    wrong = Wrong(target, value=lambda right, t: right.value(t) + t[..., 1])
    assert law_p(target, metropolis(wrong, start)) < P_LEAST


def test_sgld_meets_the_exact_moments():
    target = model(n=200)
    theta = target.draw_exact(generator(7), (20_000,))
    sampler = SGLD(2e-4)
    state = sampler.init(generator(8), theta)
    rng = generator(8)
    for _ in range(100):
        state = sampler.step(rng, state, target)
    mu, tau = target.unpack(state.theta)
    assert abs(mu.mean() - target.mean[0]) < Z_MOST * np.sqrt(target.variance[0] / len(mu))
    assert mu.var() == pytest.approx(target.variance[0], rel=0.05)
    # The discretisation widens the law and shifts log tau by less than a hundredth of its width.
    log_tau = state.theta[:, 1]
    mean = special.digamma(100) - np.log((1 + target.scatter) / 2)
    assert abs(log_tau.mean() - mean) < Z_MOST * log_tau.std() / np.sqrt(len(mu)) + 1e-3
    assert log_tau.var() == pytest.approx(special.polygamma(1, 100), rel=0.05)
    assert tau.mean() == pytest.approx(target.mean[1], rel=0.01)


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
    theta = double.draw_exact(generator(12), (100,))
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
