"""SGRRLD and SGRRHMC: the joint law of both chains, and the estimate."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.linalg import solve_discrete_lyapunov

from alphamf.inference.checks import CHAINS, P_LEAST, Z_MOST
from alphamf.inference.random import generator, noise
from alphamf.inference.records import Extrapolated
from alphamf.inference.samplers import richardson
from alphamf.inference.samplers.richardson import SGRRHMC, SGRRLD
from alphamf.inference.schedule import Polynomial
from alphamf.inference.targets.gaussian import LinearGaussian
from tests.support.posteriors import HalfNormal, gaussian_draws, gaussian_p, gaussian_z, plane
from tests.support.twins import HalfNoise

SAMPLERS = [SGRRLD(0.01), SGRRHMC(0.05, friction=2.0)]


def leap(precision, sampler, h):
    """Drift and noise of one chain's step of length h: x' = drift x + noise z.

    x is theta, or theta over its momentum.
    """
    eye = np.eye(len(precision))
    if isinstance(sampler, SGRRLD):
        return eye - h * precision, math.sqrt(2 * h) * eye
    keep = 1 - h * sampler.friction
    drift = np.block([[eye - h * h * precision, h * keep * eye], [-h * precision, keep * eye]])
    return drift, math.sqrt(2 * sampler.friction * h) * np.vstack([h * eye, eye])


def joint_law(precision, sampler, h):
    """Covariance of (middle, fine, coarse), each theta or theta over momentum, and their drift."""
    half, half_noise = leap(precision, sampler, h / 2)
    whole, whole_noise = leap(precision, sampler, h)
    none, still = np.zeros_like(half), np.zeros_like(half_noise)
    drift = np.block([[none, half, none], [none, half @ half, none], [none, none, whole]])
    both = whole_noise / math.sqrt(2)
    noises = np.block([[half_noise, still], [half @ half_noise, half_noise], [both, both]])
    return solve_discrete_lyapunov(drift, noises @ noises.T)


def visible(covariance, size, sampler):
    """Return the rows of the joint law that are free: SGRRHMC's middle follows from the rest."""
    if isinstance(sampler, SGRRLD):
        return covariance
    return covariance[2 * size :, 2 * size :]


def joint(state):
    """Return those rows of a state."""
    if hasattr(state, "momentum"):
        return np.concatenate(
            [state.theta, state.momentum, state.coarse, state.coarse_momentum], -1
        )
    return np.concatenate([state.middle, state.theta, state.coarse], -1)


def start_at(sampler, draws, size):
    """Return the state whose `joint` is the given draws."""
    blocks = [draws[:, k : k + size] for k in range(0, draws.shape[1], size)]
    if isinstance(sampler, SGRRLD):
        middle, theta, coarse = blocks
        return sampler.init(None, theta)._replace(middle=middle, coarse=coarse)
    theta, momentum, coarse, coarse_momentum = blocks
    return sampler.init(generator(0), theta)._replace(
        momentum=momentum, coarse=coarse, coarse_momentum=coarse_momentum
    )


def joint_z(sampler, target, covariance, dtype=np.float64):
    mean = np.zeros(len(covariance))
    for k in range(0, 6, 2) if isinstance(sampler, SGRRLD) else (0, 4):
        mean[k : k + 2] = target.mean
    state = start_at(sampler, gaussian_draws(mean, covariance, dtype=dtype), 2)
    state = sampler.step(generator(4), state, target)
    after = joint(state)
    assert after.dtype == dtype
    return gaussian_z(after, mean, covariance), gaussian_p(after, mean, covariance)


def independent(rng, theta):
    return noise(rng, theta), noise(rng, theta), noise(rng, theta)


def unscaled(rng, theta):
    first, second = noise(rng, theta), noise(rng, theta)
    return first, second, first + second


def swapped_sign(rng, theta):
    first, second = noise(rng, theta), noise(rng, theta)
    return first, second, (first - second) * math.sqrt(0.5)


def halved(rng, theta):
    return right_increments(HalfNoise(rng), theta)


right_increments = richardson.draw_increments


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [SGRRLD, SGRRHMC])
def test_both_chains_keep_their_joint_law(kind, dtype, monkeypatch):
    target = plane(dtype=dtype)
    top = float(np.linalg.eigvalsh(target.precision).max())
    sampler = SGRRLD(0.7 / top) if kind is SGRRLD else SGRRHMC(0.7 / math.sqrt(top), friction=2.0)
    precision = target.precision.astype(float)
    covariance = visible(joint_law(precision, sampler, sampler.step_size), 2, sampler)
    z, p = joint_z(sampler, target, covariance, dtype)
    assert z < Z_MOST
    assert p > P_LEAST
    if dtype is np.float32:
        return
    for wrong in (independent, unscaled, swapped_sign, halved):
        with monkeypatch.context() as patch:
            patch.setattr(richardson, "draw_increments", wrong)
            assert joint_z(sampler, target, covariance)[0] > Z_MOST


def laws_of_theta(precision, sampler, h):
    """Covariances of the fine chain's middle and end and of the coarse chain, by their laws."""
    covariance = joint_law(precision, sampler, h)
    size, block = len(precision), len(covariance) // 3
    return [covariance[k : k + size, k : k + size] for k in (0, block, 2 * block)]


def estimates(sampler, target, *, chains=400, steps=1500, burn_in=100, seed=3):
    """Each chain's estimate of the second moment about the mean, and the record's of all."""

    def square(theta, target):
        return (theta[..., 0] - target.mean[0]) ** 2

    rng = generator(seed)
    state = sampler.init(rng, gaussian_draws(target.mean, target.covariance, n=chains, seed=seed))
    record = Extrapolated(square, burn_in=burn_in)
    total, weight = 0.0, 0.0
    for _ in range(steps):
        state = sampler.step(rng, state, target)
        record.add(state, target)
        if state.step > burn_in:
            of = [square(theta, target) for theta in (state.middle, state.theta, state.coarse)]
            total = total + state.size * (of[0] + of[1] - of[2])
            weight += state.size
    np.testing.assert_allclose(record.mean, (total / weight).mean(), rtol=1e-10)
    assert record.weight == pytest.approx(weight)
    return total / weight


@pytest.mark.slow
@pytest.mark.parametrize("sampler", [SGRRLD(0.1), SGRRHMC(0.4, friction=3.0)])
def test_estimate_has_the_mean_of_the_laws_and_shared_noise_saves_variance(sampler, monkeypatch):
    # One coordinate of precision 5.
    target = LinearGaussian(np.full((8, 1), math.sqrt(0.5)), np.ones(8), 1.0)
    middle, end, coarse = laws_of_theta(target.precision, sampler, sampler.step_size)
    law = (middle + end - coarse)[0, 0]

    def z(values, expected):
        return abs(values.mean() - expected) / (values.std() / math.sqrt(len(values)))

    shared = estimates(sampler, target)
    assert z(shared, law) < Z_MOST
    assert z(shared, coarse[0, 0]) > Z_MOST
    monkeypatch.setattr(richardson, "draw_increments", independent)
    apart = estimates(sampler, target)
    assert z(apart, law) < Z_MOST
    assert apart.var() > 2 * shared.var()


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("batch", [None, 3])
def test_is_its_formula_with_decreasing_steps(sampler, batch):
    target, schedule = plane(batch=batch), Polynomial(1e-3)
    sampler = type(sampler)(schedule, *([2.0] if isinstance(sampler, SGRRHMC) else []))
    start = target.start(generator(1))
    record = Extrapolated(lambda theta, target: np.exp(theta), burn_in=2)
    rng = generator(6)
    state = sampler.init(rng, start)
    for _ in range(6):
        state = sampler.step(rng, state, target)
        record.add(state, target)

    rng = generator(6)
    fine = coarse = start
    p = q = rng.standard_normal(2) if isinstance(sampler, SGRRHMC) else None

    def move(theta, p, h, z):
        gradient = target.draw(rng, theta).grad(theta)
        if p is None:
            return theta - h * gradient + math.sqrt(2 * h) * z, None
        p = p - h * gradient - 2.0 * h * p + math.sqrt(2 * 2.0 * h) * z
        return theta + h * p, p

    total = weight = 0.0
    for k in range(6):
        h = schedule(k)
        one, two = rng.standard_normal(2), rng.standard_normal(2)
        middle, p = move(fine, p, h / 2, one)
        fine, p = move(middle, p, h / 2, two)
        coarse, q = move(coarse, q, h, (one + two) / math.sqrt(2))
        if k >= 2:
            total += h * (np.exp(middle) + np.exp(fine) - np.exp(coarse))
            weight += h
    np.testing.assert_allclose(state.middle, middle, rtol=1e-10)
    np.testing.assert_allclose(state.theta, fine, rtol=1e-10)
    np.testing.assert_allclose(state.coarse, coarse, rtol=1e-10)
    assert state.size == h
    np.testing.assert_allclose(record.mean, total / weight, rtol=1e-10)


def test_mirror_folds_both_chains():
    target, h = HalfNormal(2.0), 0.4
    middle, end, coarse = laws_of_theta(np.array([[2.0]]), SGRRLD(h), h)
    start = np.abs(generator(3).standard_normal((CHAINS, 1)))
    state = SGRRLD(h).init(None, start * math.sqrt(end[0, 0]))
    state = state._replace(coarse=start * math.sqrt(coarse[0, 0]))
    state = SGRRLD(h).step(generator(4), state, target)
    for theta, law in ((state.middle, middle), (state.theta, end), (state.coarse, coarse)):
        assert (theta >= 0).all()
        scale = math.sqrt(law[0, 0])
        assert stats.kstest(theta[:, 0], stats.halfnorm(scale=scale).cdf).pvalue > P_LEAST


def test_mirror_turns_the_momenta(monkeypatch):
    target, sampler, h = HalfNormal(2.0), SGRRHMC(0.4, friction=1.5), 0.4
    covariance = joint_law(np.array([[2.0]]), sampler, h)
    fine, coarse = covariance[2:4, 2:4], covariance[4:, 4:]

    def folded(law, seed):
        draws = gaussian_draws(np.zeros(2), law, seed=seed)
        return draws * np.where(draws[:, :1] < 0, -1, 1)

    def z():
        one, two = folded(fine, 1), folded(coarse, 2)
        state = sampler.init(generator(0), one[:, :1])
        state = state._replace(momentum=one[:, 1:], coarse=two[:, :1], coarse_momentum=two[:, 1:])
        state = sampler.step(generator(4), state, target)
        worst = 0.0
        pairs = (state.theta, state.momentum, fine), (state.coarse, state.coarse_momentum, coarse)
        for theta, momentum, law in pairs:
            assert (theta >= 0).all()
            # Second moments are those of the law before folding.
            after = np.concatenate([theta, momentum], 1)
            moments = after[:, :, None] * after[:, None, :]
            error = moments.std(0) / math.sqrt(CHAINS)
            worst = max(worst, np.abs((moments.mean(0) - law) / error).max())
        return worst

    assert z() < Z_MOST
    keeps = richardson.reflect
    monkeypatch.setattr(richardson, "reflect", lambda theta, target, momentum: keeps(theta, target))
    assert z() > Z_MOST
