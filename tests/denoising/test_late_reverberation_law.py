"""The linear prediction of late reverberation as a statement of the alpha-stable model."""

import numpy as np
import pytest

from alphamf.denoising import late_reverberation as module
from alphamf.denoising.late_reverberation import mean_precision, predicted_frames
from alphamf.factorization.stable import positive_stable, symmetric_stable
from tests.support.echoes import echoing

SQUARED = 0.5
"""The g of `mean_precision` for `symmetric_stable` of alpha = 1 and dispersion 1."""

FACTORS = np.array([0.4 + 0.2j, -0.3j, 0.2])


def simulated_precision(powers, alpha):
    """Return E[1 / Phi | |S|^2] by weighting draws of the prior; S given Phi has variance Phi."""
    phi = positive_stable(np.random.default_rng(0), alpha, np.empty(400_000))
    likelihood = np.exp(-powers[:, None] / phi) / phi
    return (likelihood / phi).sum(axis=1) / likelihood.sum(axis=1)


def test_the_mean_precision_is_that_of_the_positive_stable_law():
    powers = np.array([0.01, 0.1, 0.5, 2.0, 10.0, 50.0])
    expected = 1.5 * mean_precision(powers, SQUARED)
    np.testing.assert_allclose(simulated_precision(powers, 1.0), expected, rtol=0.03)
    for other in (0.8, 1.3):
        wrong = simulated_precision(powers, other)
        assert np.abs(wrong / expected - 1).max() > 0.15


def frames_and_past(seed, frames=400):
    """Return frames with an echo, shape (1, 1, frames), complex128, and their past."""
    rng = np.random.default_rng(seed)
    made = echoing(symmetric_stable(rng, 1.0, (1, 1, frames), np.float64), FACTORS)
    return made, module._past(made, len(FACTORS))


def negative_log_density(innovation):
    return 1.5 * np.log(SQUARED + np.abs(innovation) ** 2).sum()


@pytest.mark.parametrize("seed", range(5))
def test_no_iteration_of_em_lowers_the_likelihood(seed):
    (spectrum,), past = frames_and_past(seed)
    found, values = np.zeros_like(spectrum), []
    for _ in range(20):
        values.append(negative_log_density(spectrum - found))
        precision = mean_precision(np.abs(spectrum - found) ** 2, SQUARED)
        found = module._regression(spectrum, past, precision)
    assert values[0] > values[1] + 10
    assert np.all(np.diff(values) < 1e-3)


def factors_of(prediction, past):
    return np.linalg.lstsq(past[0].T, prediction[0], rcond=None)[0]


def sampled(spectrum, past, sweeps=3000):
    """Draw the factors from their posterior by Gibbs sampling, shape (sweeps, taps).

    Given S, 1 / Phi is a Gamma variable of shape 3 / 2; given Phi, G is Gaussian.
    """
    rng = np.random.default_rng(5)
    x, y = past[0].T, spectrum[0]
    factors, draws = np.zeros(x.shape[1], complex), []
    for _ in range(sweeps):
        rate = SQUARED + np.abs(y - x @ factors) ** 2
        weighted = x.conj().T * (rng.gamma(1.5, size=len(y)) / rate)
        root = np.linalg.cholesky(weighted @ x)
        normal = rng.standard_normal((2, x.shape[1])) / np.sqrt(2)
        factors = np.linalg.solve(weighted @ x, weighted @ y)
        factors += np.linalg.solve(root.conj().T, normal[0] + 1j * normal[1])
        draws.append(factors)
    return np.array(draws[100:])


def test_the_sampler_of_the_factors_is_calibrated():
    """Over many echoes the truth is a draw of the posterior: ranks are uniform, levels right."""
    inside, squares = [], []
    for seed in range(60):
        (spectrum,), past = frames_and_past(seed, frames=150)
        draws = sampled(spectrum, past, sweeps=400)
        parts = np.concatenate([draws.real, draws.imag], axis=1)
        truth = np.concatenate([FACTORS.real, FACTORS.imag])
        inside.append((parts < truth).mean(axis=0))
        squares.append(((truth - parts.mean(axis=0)) / parts.std(axis=0)) ** 2)
    assert abs(np.mean(inside) - 0.5) < 0.06
    assert 0.7 < np.mean(squares) < 1.4


def test_em_finds_the_centre_of_the_posterior(monkeypatch):
    """It lies within a third of its deviation; Gaussian innovations lie well outside."""
    (spectrum,), past = frames_and_past(seed=2)
    draws = sampled(spectrum, past)
    deviation = np.sqrt(np.mean(np.abs(draws - draws.mean(axis=0)) ** 2))

    def distance():
        prediction, _ = predicted_frames(spectrum[None], len(FACTORS))
        error = factors_of(prediction[0], past) - draws.mean(axis=0)
        return np.sqrt(np.mean(np.abs(error) ** 2)) / deviation

    monkeypatch.setattr(module, "ITERATIONS", 30)
    power = np.mean(np.abs(spectrum) ** 2)
    monkeypatch.setattr(module, "DISPERSION", SQUARED / power)
    assert distance() < 1 / 3
    monkeypatch.setattr(module, "_precision", lambda innovation: np.ones(innovation.shape))
    assert distance() > 1
