"""Control variates: unbiased gradients, the law of SGLD-CV, and other samplers on them."""

import numpy as np
import pytest

from alphamf.errors import AlphaMFError
from alphamf.factorization.alpha_mf import AlphaMFTarget, Source
from alphamf.inference import HAMCMC, SGLD, DensityTarget, NumPyDensity, check
from alphamf.inference.checks import Z_MOST
from alphamf.inference.random import generator
from alphamf.inference.targets.control_variates import ControlVariates, find_mode
from alphamf.inference.targets.gaussian import LinearGaussian
from alphamf.inference.targets.logistic import LogisticRegression
from tests.support.posteriors import gaussian_draws, gaussian_z, step_many

RNG = np.random.default_rng(1)
A = RNG.standard_normal((60, 2)) @ np.array([[1.0, 0.6], [0.0, 0.5]])
LABELS = (RNG.random(60) < 1 / (1 + np.exp(-A @ [1.0, -1.0]))).astype(float)


def logistic(batch):
    return LogisticRegression(A, LABELS, batch=batch)


def gradients(target, theta, n=20_000):
    """Return minibatch gradients at one theta, shape (n, D)."""
    many = np.broadcast_to(theta, (n, target.size)).copy()
    return target.draw(generator(3), many).grad(many)


def test_gradients_are_unbiased_and_less_noisy_near_the_mode():
    plain, full = logistic(5), logistic(None)
    mode = find_mode(plain, np.zeros(2))
    np.testing.assert_allclose(full.draw(None, mode).grad(mode), 0, atol=1e-3)
    target = ControlVariates(plain, mode)
    for step, factor in ((0.1, 5.0), (0.5, 1.5)):
        theta = mode + step
        found = gradients(target, theta)
        error = found.std(0) / np.sqrt(len(found))
        z = np.abs(found.mean(0) - full.draw(None, theta).grad(theta)) / error
        assert z.max() < Z_MOST
        assert (gradients(plain, theta).std(0) > factor * found.std(0)).all()
    assert np.ptp(gradients(target, mode), 0).max() < 1e-9


def test_sgld_on_them_has_the_law_that_their_noise_gives():
    rng = np.random.default_rng(1)
    a, batch, h = rng.standard_normal((12, 1)), 3, 0.04
    plain = LinearGaussian(a, 2 * a[:, 0] + 3 * rng.standard_normal(12), 1.0, batch=batch)
    target = ControlVariates(plain, plain.mean)
    # With e = theta - mean, e' = (1 - h p) e + noise: p is a mean over the batch, and the gradient
    # at the mode has no noise.
    slopes = 1 + 12 * a[:, 0] ** 2
    factor = (1 - h * slopes.mean()) ** 2 + h**2 * slopes.var() / batch
    law = plain.mean, np.array([[2 * h / (1 - factor)]])
    assert gaussian_z(step_many(target, SGLD(h), gaussian_draws(*law)), *law) < Z_MOST
    assert gaussian_z(step_many(plain, SGLD(h), gaussian_draws(*law)), *law) > Z_MOST


def test_other_samplers_lose_the_bias_of_minibatches():
    rng = np.random.default_rng(2)
    a = rng.standard_normal((1000, 2))
    plain = LinearGaussian(a, a @ [1.0, 2.0] + rng.standard_normal(1000), 1.0, batch=50)
    target = ControlVariates(plain, plain.mean)
    sampler = HAMCMC(0.2, memory=3, gamma=1e-3)
    noisy, right = (check(sampler, each, chains=1000).biases[0] for each in (plain, target))
    assert noisy.bias[[2, 4]].min() > 0.5  # the variances
    assert right.bias[[2, 4]].max() < 0.5 * noisy.bias[[2, 4]].min()


def test_a_center_with_a_wrong_full_gradient_is_seen():
    a = np.random.default_rng(2).standard_normal((50, 1))
    plain = LinearGaussian(a, a[:, 0], 1.0, batch=4)
    target = ControlVariates(plain, plain.mean + 0.3)
    assert check(SGLD(2e-3), target, chains=1000).passed
    target.gradient = target.gradient - 10
    assert not check(SGLD(2e-3), target, chains=1000).passed


def test_mode_of_a_density():
    likelihood = NumPyDensity(
        lambda theta, x: (x - theta).sum(0), lambda theta, x: -((x - theta) ** 2).sum() / 2
    )
    x = RNG.standard_normal((50, 3))
    target = DensityTarget(likelihood, np.zeros(3), data=x, batch=5)
    np.testing.assert_allclose(find_mode(target, np.zeros(3)), x.mean(0), atol=1e-5)
    assert target.batch == 5


@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_start_without_gradient_is_refused():
    with pytest.raises(AlphaMFError, match="no mode was found"):
        find_mode(logistic(5), np.full(2, np.nan))


@pytest.mark.parametrize(
    ("target", "center", "sentence"),
    [
        (logistic(None), np.zeros(2), "need a target with minibatches"),
        (logistic(5), np.zeros(3), r"center must have shape \(2,\), not \(3,\)"),
    ],
)
def test_refuses_what_does_not_fit(target, center, sentence):
    with pytest.raises(AlphaMFError, match=sentence):
        ControlVariates(target, center)


def test_refuses_latents():
    target = AlphaMFTarget(np.ones((4, 5)), [Source(1.2, 2)])
    target.start(generator(0))
    target.batch = 2
    with pytest.raises(AlphaMFError, match="without latents"):
        ControlVariates(target, np.zeros(target.size))
