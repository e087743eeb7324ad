"""Priors against scipy's densities and against differences of their potential."""

import numpy as np
import pytest
from scipy import integrate, special, stats

from alphamf.factorization.priors import Flat, Gamma, GeneralizedGamma

PRIORS = [
    Flat(),
    Gamma(0.1, 0.3),
    Gamma(3.0, 2.0),
    GeneralizedGamma(2.0, 0.7, -2 / 1.2),
    GeneralizedGamma(1.5, 3.0, -1.0),
    GeneralizedGamma(0.8, 1.3, 1.7),
    GeneralizedGamma(2.5, 0.4, 0.6),
]
GENERALIZED = [prior for prior in PRIORS if isinstance(prior, GeneralizedGamma)]


@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_gradient_is_the_slope_of_the_potential(prior):
    x = np.random.default_rng(0).uniform(0.2, 3.0, (4, 50))
    plus, minus = prior.slopes(x)
    assert np.min(plus) >= 0
    assert np.min(minus) >= 0
    h = 1e-6
    slope = (prior.potential(x + h) - prior.potential(x - h)) / (2 * h)
    np.testing.assert_allclose(plus - minus + (1 - prior.shape) / x, slope, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_dtype_is_kept(prior):
    x = np.random.default_rng(0).uniform(0.2, 3.0, 50).astype(np.float32)
    assert all(part.dtype == np.float32 for part in prior.slopes(x) if isinstance(part, np.ndarray))
    assert prior.potential(x).dtype == np.float32
    assert prior.potential(x).shape == (50,)


@pytest.mark.parametrize("prior", GENERALIZED, ids=str)
def test_generalized_gamma_integrates_to_stacys_constant(prior):
    """Stacy (1962): the integral of x^(ac-1) exp(-(x/b)^c) is b^(ac) Gamma(a) / |c|."""
    total, error = integrate.quad(lambda x: np.exp(-prior.potential(np.float64(x))), 0, np.inf)
    expected = prior.b ** (prior.a * prior.c) * special.gamma(prior.a) / abs(prior.c)
    assert error < 1e-6 * expected
    assert total == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("prior", PRIORS[1:], ids=str)
def test_density_is_scipys(prior):
    x = np.linspace(0.1, 5.0, 40)
    if isinstance(prior, Gamma):
        law = stats.gamma(prior.shape, scale=1 / prior.rate)
    else:
        law = stats.gengamma(prior.a, prior.c, scale=prior.b)
    offset = prior.potential(x) + law.logpdf(x)
    np.testing.assert_allclose(offset, offset[0], rtol=1e-10, atol=1e-10)
