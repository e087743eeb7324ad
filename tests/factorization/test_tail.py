"""Alpha of a noise from the distances of its cells to their median."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

from alphamf.factorization.stable import symmetric_stable
from alphamf.factorization.tail import (
    LEAST_FRAMES,
    Tail,
    count_levels,
    log_density,
    posterior,
    tail,
)

POWER = np.array([1e-3, 0.1, 1, 10, 1e3, 1e6])


def noise(alpha: float, shape: tuple[int, ...] = (129, 400), seed: int = 0):
    rng = np.random.default_rng(seed)
    return np.abs(symmetric_stable(rng, alpha, shape, np.float64)) ** 2


def test_density_has_the_closed_forms():
    # Cauchy's law in the plane, of scale 1 / sqrt(2), and a Gaussian of variance 2.
    cauchy = -np.log(2 * np.sqrt(2)) - 1.5 * np.log(0.5 + POWER)
    np.testing.assert_allclose(log_density(POWER, 1.0), cauchy, atol=2e-3)
    np.testing.assert_allclose(log_density(POWER[:4], 2.0), -np.log(2) - POWER[:4] / 2)


@pytest.mark.slow
def test_density_is_the_likelihoods():
    from alphamf.factorization import likelihood

    for alpha in (0.7, 1.4, 1.9):
        expected = likelihood.log_density(POWER, np.ones(6), alpha) + np.log(np.pi)
        np.testing.assert_allclose(log_density(POWER, alpha), expected, atol=5e-3)


@pytest.mark.slow
def test_posterior_is_calibrated_by_simulation():
    # Drawn alphas lie anywhere in their posteriors with the same probability (Talts et al., 2018).
    rng, ranks = np.random.default_rng(3), []
    for _ in range(200):
        alpha, log_c = rng.uniform(0.5, 2), rng.uniform(-1.5, 1.5)
        power = np.abs(symmetric_stable(rng, alpha, (500,), np.float64)) ** 2
        counts = count_levels(np.log(power) + log_c).counts
        posteriors = [posterior(copies * counts) for copies in (1, 4)]
        ranks.append([weights[alphas < alpha].sum() for alphas, weights in posteriors])
    right, too_sure = np.array(ranks).T
    assert kstest(right, "uniform").pvalue > 1e-2
    assert kstest(too_sure, "uniform").pvalue < 1e-4


@pytest.mark.parametrize("alpha", [0.8, 1.2, 1.6, 1.9, 2.0])
def test_alpha_of_stable_noise_is_found_whatever_its_spectrum(alpha):
    spectrum = np.geomspace(1, 1e-6, 129)[:, None]
    assert tail(spectrum * noise(alpha)).alpha == pytest.approx(alpha, abs=0.04)


def test_kinds():
    assert tail(noise(2.0)).kind == "steady"
    bursts = noise(2.0) * np.where(np.arange(400) % 40 < 4, 1000, 1)
    assert tail(bursts).kind == "impulsive"


def test_parts_add_up():
    power = noise(1.5)
    parts = tail(power[:60]) + tail(power[60:])
    assert parts == tail(power) != tail(power[:60])


def test_too_little_says_nothing():
    few = tail(noise(1.5, (129, LEAST_FRAMES - 1)))
    assert (few.alpha, few.kind) == (None, None)
    assert tail(np.zeros((129, 400))).alpha is None
    assert tail(np.empty((129, 0))).alpha is None


def test_digital_silence_is_left_out():
    power = noise(1.5)
    silent = np.concatenate([power, np.zeros((129, 300))], axis=1)
    assert tail(silent).alpha == tail(power).alpha
    assert isinstance(tail(silent), Tail)
