"""Fractional Langevin samplers: their noise, their drifts, and the laws that they leave."""

from math import gamma

import numpy as np
import pytest
from scipy import special, stats

from alphamf.inference import Kernel, check
from alphamf.inference.checks import Z_MOST
from alphamf.inference.random import generator, stable_noise
from alphamf.inference.samplers.fractional import FLA, FULD, velocity
from alphamf.inference.targets.gaussian import LinearGaussian
from tests.support.posteriors import Quartic

FREQUENCIES = np.array([0.2, 0.5, 1.0, 2.0])


def wave_z(sample, exponent, alpha):
    """Return the largest |z| of the characteristic function beside exp(-exponent |w|^alpha)."""
    waves = np.cos(np.multiply.outer(sample.astype(float), FREQUENCIES))
    error = waves.std(0) / np.sqrt(len(sample))
    return np.abs((waves.mean(0) - np.exp(-exponent * FREQUENCIES**alpha)) / error).max()


class Cauchy:
    """The Cauchy law, whose drift has a closed form: target and potential in one."""

    size, positive = 1, False

    def __init__(self, alpha=None):
        self.latents, self.alpha = {}, alpha

    def draw(self, rng, theta):
        return self

    def value(self, theta):
        return np.log1p(theta[..., 0] ** 2)

    def grad(self, theta):
        return 2 * theta / (1 + theta**2)

    def fractional_drift(self, theta, alpha):
        alpha = self.alpha or alpha
        angle = np.sin(alpha * np.arctan(theta))
        return -gamma(alpha) * angle * (1 + theta**2) ** (1 - alpha / 2)


class Differences(Cauchy):
    """The same without the closed form."""

    fractional_drift = property()  # an AttributeError


class Normal(Differences):
    """A normal law of a precision."""

    def __init__(self, precision=1.0):
        super().__init__()
        self.precision = precision

    def value(self, theta):
        return self.precision * theta[..., 0] ** 2 / 2

    def grad(self, theta):
        return self.precision * theta


class Quiet:
    """A generator whose stable noise vanishes: cos is 1 where the angle is 0."""

    class bit_generator:
        @staticmethod
        def random_raw(count):
            return np.full(count, 1 << 63, np.uint64)

    def standard_exponential(self, shape, dtype):
        return np.ones(shape, dtype)


def drift(sampler, target, theta):
    """Return the drift that a step made, without noise."""
    step = sampler.step(Quiet(), sampler.init(None, theta), target)
    return (step.theta - theta) / sampler.step_size


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("alpha", [1.05, 1.5, 1.9, 2.0])
def test_noise_is_stable(alpha, dtype):
    drawn = stable_noise(generator(1), alpha, np.empty((2, 20_000), dtype))
    assert drawn.dtype == dtype
    assert wave_z(drawn.ravel(), 1.0, alpha) < Z_MOST
    assert wave_z(drawn.ravel(), 1.0, alpha - 0.1) > Z_MOST
    assert abs(np.sign(drawn).mean()) < 4 / np.sqrt(drawn.size)


@pytest.mark.parametrize("alpha", [1.3, 1.7])
def test_differences_are_near_the_drift_and_no_terms_are_the_papers_constant(alpha):
    theta = np.array([[-2.0], [0.3], [1.0]])
    found = drift(FLA(0.1, alpha, terms=400, spacing=0.1), Differences(), theta)
    np.testing.assert_allclose(found, Cauchy().fractional_drift(theta, alpha), rtol=5e-3)
    # Of a normal law, in Simsekli et al. (2020): the drift of v under Gaussian kinetic energy.
    known = 2 ** (alpha / 2) * theta / np.sqrt(np.pi) * special.gamma((alpha + 1) / 2)
    known *= special.hyp1f1((2 - alpha) / 2, 1.5, theta**2 / 2)
    found = drift(FLA(0.1, alpha, terms=80, spacing=0.1), Normal(), theta)
    np.testing.assert_allclose(found, -known, rtol=5e-3)
    constant = gamma(alpha - 1) / gamma(alpha / 2) ** 2
    np.testing.assert_allclose(drift(FLA(0.1, alpha), Normal(3.0), theta), -3 * constant * theta)


def test_differences_are_along_each_coordinate():
    a = np.array([[1.0, 0.5], [0.0, 1.0]])
    target = LinearGaussian(a, np.ones(2), 1.0)
    theta = np.array([[0.3, -0.4]])
    found = drift(FLA(0.1, 1.5, terms=60, spacing=0.1), target, theta)
    for i in range(2):
        # The conditional law of a coordinate is normal.
        precision = target.precision[i, i]
        shift = np.delete(theta[0] - target.mean, i) * target.precision[i, 1 - i] / precision
        away = theta[0, i] - target.mean[i] + shift[0]
        alone = drift(FLA(0.1, 1.5, terms=60, spacing=0.1), Normal(precision), np.array([[away]]))
        np.testing.assert_allclose(found[0, i], alone[0, 0], rtol=1e-9)


def test_alpha_of_two_is_sgld():
    theta = np.array([[0.5]])
    np.testing.assert_allclose(
        drift(FLA(0.1, 2.0), Normal(3.0), theta), -Normal(3.0).grad(theta), rtol=1e-12
    )
    sample = FLA(0.1, 2.0).step(generator(0), FLA(0.1).init(None, np.zeros((20_000, 1))), Normal())
    assert stats.kstest(sample.theta[:, 0] / np.sqrt(0.2), "norm").pvalue > 1e-4


def test_without_terms_a_gaussian_becomes_a_stable_law():
    """The law of x' = (1 - h c a) x + h^(1/alpha) s, which has no variance."""
    alpha, h, precision = 1.6, 0.1, 2.0
    constant = gamma(alpha - 1) / gamma(alpha / 2) ** 2

    def law(constant):
        return h / (1 - (1 - h * constant * precision) ** alpha)

    sampler, rng = FLA(h, alpha), generator(2)
    start = law(constant) ** (1 / alpha) * stable_noise(rng, alpha, np.empty((100_000, 1)))
    state = sampler.step(rng, sampler.init(rng, start), Normal(precision))
    assert wave_z(state.theta[:, 0], law(constant), alpha) < Z_MOST
    state = sampler.init(rng, start)
    for _ in range(20):
        state = sampler.step(rng, state, Normal(precision))
    assert wave_z(state.theta[:, 0], law(constant), alpha) < Z_MOST
    assert wave_z(state.theta[:, 0], law(1.0), alpha) > Z_MOST


def bounded(target, sampler):
    """Return a kernel in the angle u, theta = tan(u), whose law has moments, and its target."""

    def start(seed, u):
        return np.tan(u)

    def move(seed, theta, h):
        moved = type(sampler)(h, sampler.alpha)
        state = moved.step(generator(seed), moved.init(None, theta), target)
        return state.theta, np.arctan(state.theta)

    class Angle:
        size = 1

        def exact(self, rng, count):
            return np.pi * (rng.random((count, 1)) - 0.5)

    return Kernel(sampler.step_size, start, move), Angle()


@pytest.mark.slow
def test_heavy_tails_keep_their_law_only_with_the_drift_of_their_index():
    right = check(*bounded(Cauchy(), FLA(0.1, 1.5)), steps=150, chains=4000)
    assert right.passed, right
    wrong = check(*bounded(Cauchy(1.9), FLA(0.1, 1.5)), steps=150, chains=4000)
    assert not wrong.passed
    # Without the fractional drift chains get lost.
    lost = check(*bounded(Differences(), FLA(0.1, 1.5)), steps=150, chains=4000)
    assert not lost.passed


@pytest.mark.parametrize("alpha", [1.1, 1.7, 1.95])
def test_velocity_is_the_slope_of_its_law(alpha):
    """Integrals of -psi' by parts: E G sin(w v) = w exp(-w^alpha / alpha), and E v G = 1."""
    v = alpha ** (-1 / alpha) * stable_noise(generator(0), alpha, np.empty(400_000))
    slopes = velocity(v, alpha)
    for sample, known in (
        (slopes * v, 1.0),
        *((slopes * np.sin(w * v), w * np.exp(-(w**alpha) / alpha)) for w in FREQUENCIES),
    ):
        assert abs(sample.mean() - known) < Z_MOST * sample.std() / np.sqrt(len(v))
    far = np.array([15.0, 1e4, 1e7])
    np.testing.assert_allclose(velocity(-far, alpha), -velocity(far, alpha))
    np.testing.assert_allclose(velocity(far[1:2], alpha), (alpha + 1) / far[1:2], rtol=2e-3)
    assert velocity(far[2:], alpha) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize(("alpha", "h"), [(1.3, 0.4), (1.8, 0.4), (2.0, 0.4)])
def test_momenta_keep_the_law_up_to_second_order(alpha, h):
    report = check(FULD(h, alpha, leaps=4), Quartic(), order=2, steps=60, chains=10_000)
    assert report.passed, report


def test_momenta_start_from_their_law_and_keep_it_where_nothing_pulls():
    sampler, flat = FULD(0.1, 1.5), Normal(0.0)
    state = sampler.init(generator(0), np.zeros((40_000, 1)))
    for number in range(6):
        assert wave_z(state.momentum[:, 0], 1 / 1.5, 1.5) < Z_MOST
        state = sampler.step(generator(number + 1), state, flat)
