"""The density of a cell: against closed forms, the Hankel transform, its tail, and draws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import cumulative_simpson, quad
from scipy.special import gamma, j0
from scipy.stats import kstest

from alphamf.errors import AlphaMFError
from alphamf.factorization.likelihood import log_density
from alphamf.factorization.stable import symmetric_stable
from alphamf.inference.checks import P_LEAST
from alphamf.inference.random import generator

GRID = np.exp(np.linspace(-12, 30, 1500))
"""|X|^2 from the flat centre to the power law of the tail."""


def unit(power, alpha):
    return log_density(power, np.ones_like(power), alpha)


def test_cauchy():
    exact = np.log(np.sqrt(0.5) / (2 * np.pi)) - 1.5 * np.log(0.5 + GRID)
    np.testing.assert_allclose(unit(GRID, 1.0), exact, atol=1e-5)


def test_gaussian():
    np.testing.assert_allclose(
        unit(GRID[:1000], 2.0), -np.log(2 * np.pi) - GRID[:1000] / 2, rtol=1e-8
    )
    # Which the laws below it come near to, as far as their tail is not seen.
    near = GRID[GRID < 4]
    np.testing.assert_allclose(unit(near, 1.999), unit(near, 2.0), atol=5e-3)


@pytest.mark.parametrize(
    "alpha", [1.2, *(pytest.param(x, marks=pytest.mark.slow) for x in (0.7, 1.6, 1.89))]
)
def test_hankel_transform(alpha):
    for r in (0.1, 1.0, 3.0):

        def cell(t, r=r):
            return np.exp(-((t * t / 2) ** (alpha / 2))) * j0(r * t) * t / (2 * np.pi)

        integral, error = quad(cell, 0, 2 * 40 ** (1 / alpha), limit=5000)
        assert error < 1e-6
        assert unit(np.array([r * r]), alpha)[0] == pytest.approx(np.log(integral), abs=2e-4)


@pytest.mark.parametrize(
    "alpha", [0.5, 1.2, 1.89, *(pytest.param(x, marks=pytest.mark.slow) for x in (0.8, 1.5))]
)
def test_tail_and_mass(alpha):
    """Far out C r^(-2-alpha), beyond the table as well; and a probability of one in all."""
    constant = alpha**2 * 2 ** (alpha / 2 - 2) * np.sin(np.pi * alpha / 2)
    constant *= (gamma(alpha / 2) / np.pi) ** 2
    far = np.exp(np.array([38.0, 43.0, 48.0]))
    expected = np.log(constant) - (1 + alpha / 2) * np.log(far)
    np.testing.assert_allclose(unit(far, alpha), expected, atol=2e-3)
    mass = np.pi * np.trapezoid(np.exp(unit(GRID, alpha)) * GRID, np.log(GRID))
    tail = 2 * np.pi * constant / alpha * GRID[-1] ** (-alpha / 2)
    assert mass + tail == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("alpha", [0.6, 1.0, 1.5, 1.89])
def test_draws(alpha):
    """Draws with a dispersion have the law that the density stands for."""
    dispersion = 2.5
    draws = symmetric_stable(generator(0, 0), alpha, (100_000,), np.float64)
    power = np.abs(draws * dispersion ** (1 / alpha)) ** 2
    grid = np.exp(np.linspace(-20, 60, 4001))
    density = np.pi * np.exp(log_density(grid, np.full_like(grid, dispersion), alpha)) * grid
    law = cumulative_simpson(density, x=np.log(grid), initial=0)
    assert kstest(power, lambda q: np.interp(q, grid, law)).pvalue > P_LEAST


@settings(deadline=None)
@given(
    alpha=st.sampled_from([0.5, 1.0, 1.3, 2.0]),
    log_power=st.floats(-10, 10),
    log_scale=st.floats(-5, 5),
)
def test_scale(alpha, log_power, log_scale):
    """X c under v c^alpha has the density of X under v, less the area of c."""
    c = np.exp(log_scale)
    power, dispersion = np.exp([log_power]), np.ones(1)
    scaled = log_density(power * c**2, dispersion * c**alpha, alpha)
    plain = log_density(power, dispersion, alpha) - 2 * log_scale
    np.testing.assert_allclose(scaled, plain, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("alpha", [0.5, 1.2, 2.0])
def test_single_precision_and_zeros(alpha):
    power = np.float32([0, 1e-30, 1, 1e4])
    dispersion = np.float32([0, 1, 1e-3, 1])
    density = log_density(power, dispersion, alpha)
    assert density.dtype == np.float32
    assert np.isfinite(density).all()
    exact = log_density(power.astype(float), dispersion.astype(float), alpha)
    np.testing.assert_allclose(density, exact, rtol=1e-5, atol=1e-4)


def test_out_of_range():
    with pytest.raises(AlphaMFError, match="alpha must be from"):
        log_density(np.ones(1), np.ones(1), 2.1)


@pytest.mark.parametrize("alpha", [float(np.nextafter(2, 0)), 2 - 1e-15])
def test_an_alpha_that_rounding_keeps_off_two_is_two(alpha):
    power = np.array([0.01, 1, 100, 1e6])
    gaussian = log_density(power, np.ones(4), 2.0)
    np.testing.assert_allclose(log_density(power, np.ones(4), alpha), gaussian, rtol=1e-12)
    assert np.isfinite(log_density(power, np.ones(4), 2 - 2e-10)).all()
