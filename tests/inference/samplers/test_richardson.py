"""SGRRLD and SGRRHMC: the joint law of both chains, the bias's order, and the estimate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from alphamf.errors import AlphaMFError
from alphamf.inference.chain import run
from alphamf.inference.laws import (
    CHAINS,
    P_LEAST,
    Z_MOST,
    discretised,
    gaussian_draws,
    gaussian_p,
    gaussian_z,
)
from alphamf.inference.random import generator, noise
from alphamf.inference.records import Extrapolated
from alphamf.inference.samplers import richardson
from alphamf.inference.samplers.richardson import SGRRHMC, SGRRLD
from alphamf.inference.schedule import Polynomial
from alphamf.inference.targets.gaussian import LinearGaussian
from tests.support.posteriors import HalfNormal, plane
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


def joint_law(precision, sampler, h, sigma=None):
    """Covariance of (middle, fine, coarse), each theta or theta over momentum, and their drift."""
    half, half_noise = leap(precision, sampler, h / 2)
    whole, whole_noise = leap(precision, sampler, h)
    none, still = np.zeros_like(half), np.zeros_like(half_noise)
    drift = np.block([[none, half, none], [none, half @ half, none], [none, none, whole]])
    sigma = np.eye(len(precision)) if sigma is None else sigma
    both = whole_noise @ sigma.T / math.sqrt(2)
    values, vectors = np.linalg.eigh(np.eye(len(sigma)) - sigma.T @ sigma)
    own = whole_noise @ (vectors * np.sqrt(np.maximum(values, 0)))  # any root has this covariance
    noises = np.block(
        [[half_noise, still, still], [half @ half_noise, half_noise, still], [both, both, own]]
    )
    return discretised(drift, noises @ noises.T)


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


DENSE = np.array([[0.6, -0.5], [0.3, 0.7]])
"""A coupling that is not symmetric; its singular values are below 1."""


@pytest.mark.parametrize("kind", [SGRRLD, SGRRHMC])
@pytest.mark.parametrize("coupling", [0.0, -0.6, DENSE])
def test_coupled_chains_keep_their_joint_law(kind, coupling):
    """Eq. 8: Sigma as a number and as a matrix, which acts transposed."""
    target = plane()
    top = float(np.linalg.eigvalsh(target.precision).max())
    step, rest = (0.7 / top, {}) if kind is SGRRLD else (0.7 / math.sqrt(top), {"friction": 2.0})
    sampler = kind(step, coupling=coupling, **rest)
    sigma = coupling if coupling is DENSE else coupling * np.eye(2)

    def z_of(sigma):
        law = joint_law(target.precision, sampler, sampler.step_size, sigma)
        return joint_z(sampler, target, visible(law, 2, sampler))[0]

    assert z_of(sigma) < Z_MOST
    for wrong in (np.eye(2), *([DENSE.T] if coupling is DENSE else [])):
        assert z_of(wrong) > Z_MOST


def test_estimate_varies_least_with_one_brownian_motion():
    """By the exact laws: the variance of middle + fine - coarse falls up to Sigma = I."""
    target = plane()
    sampler = SGRRLD(0.2 / float(np.linalg.eigvalsh(target.precision).max()))
    estimate = np.concatenate([np.eye(2), np.eye(2), -np.eye(2)], 1)
    found = [
        np.trace(
            estimate
            @ joint_law(target.precision, sampler, sampler.step_size, rho * np.eye(2))
            @ estimate.T
        )
        for rho in (-1.0, 0.0, 0.5, 1.0)
    ]
    assert found == sorted(found, reverse=True)
    assert found[1] > 3 * found[3]


@pytest.mark.parametrize("coupling", [1.1, math.nan, 2 * np.eye(2), np.ones(3)])
def test_coupling_leaves_the_coarse_chain_its_noise(coupling):
    for kind in (SGRRLD, SGRRHMC):
        with pytest.raises(AlphaMFError, match="coupling must be a number from -1 to 1"):
            kind(0.1, coupling=coupling)


def test_printed_half_step_is_implicit_and_rejected():
    # Eq. 5 takes the first half step's gradient at its own end: (I + h/2 P) middle = theta + noise.
    target, h = plane(), 0.01

    class Printed(SGRRLD):
        def step(self, rng, state, target):
            first, second, both = richardson.draw_increments(rng, state.theta)
            inverse = np.linalg.inv(np.eye(2) + h / 2 * target.precision)
            middle = (state.theta + h / 2 * target.linear + math.sqrt(h) * first) @ inverse
            theta = richardson.move_by(rng, middle, target, h / 2, second)
            coarse = richardson.move_by(rng, state.coarse, target, h, both)
            return state._replace(theta=theta, middle=middle, coarse=coarse)

    covariance = joint_law(target.precision, SGRRLD(h), h)
    assert joint_z(SGRRLD(h), target, covariance)[0] < Z_MOST
    assert joint_z(Printed(h), target, covariance)[0] > Z_MOST
    # For precision p and k = h p / 2 its middle has variance 1 / p, its end (1 + k^2) / p, and the
    # coarse chain 1 / (p (1 - k)): the estimate is off by -k, to first order.
    k, r = 0.05, 0.95 / 1.05
    end = 2 * k * (1 + r * r) / (1 - r * r)
    assert end == pytest.approx(1 + k * k)
    assert (end + 2 * k) / (1 + k) ** 2 == pytest.approx(1)
    assert abs(1 + end - 1 / (1 - k) - 1 + k) < 2 * k * k


def laws_of_theta(precision, sampler, h):
    """Covariances of the fine chain's middle and end and of the coarse chain, by their laws."""
    covariance = joint_law(precision, sampler, h)
    size, block = len(precision), len(covariance) // 3
    return [covariance[k : k + size, k : k + size] for k in (0, block, 2 * block)]


def test_bias_is_of_second_order_by_the_exact_laws():
    precision = plane().precision
    exact = np.linalg.inv(precision)
    h = 0.1 / np.linalg.eigvalsh(precision).max()

    def biases(h):
        middle, end, coarse = laws_of_theta(precision, SGRRLD(h), h)
        np.testing.assert_allclose(middle, end, rtol=1e-9)
        return coarse - exact, middle + end - coarse - exact

    # SGLD's covariance is off by h/2 I + h^2/4 P + ...: its first order is on the diagonal.
    (plain, bias), (plain_half, bias_half) = biases(h), biases(h / 2)
    np.testing.assert_allclose(np.diag(plain / plain_half), 2, rtol=0.1)
    np.testing.assert_allclose(bias / bias_half, 4, rtol=0.1)
    assert np.abs(bias).max() < 0.1 * np.abs(plain).max()


def test_hmc_bias_is_of_second_order_already_and_the_heat_of_minibatches_cancels():
    sampler, h = SGRRHMC(1.0, friction=2.0), 0.1
    precision = np.array([[1.0]])

    def biases(h, heat):
        # Gradient noise of variance `heat` adds h^2 heat to the momentum's 2 A h.
        def variance(step):
            drift, noises = leap(precision, sampler, step)
            scale = 1 + step * heat / (2 * sampler.friction)
            return discretised(drift, scale * noises @ noises.T)[0, 0]

        return variance(h) - 1, 2 * variance(h / 2) - variance(h) - 1

    (plain, bias), (plain_half, bias_half) = biases(h, 0.0), biases(h / 2, 0.0)
    assert plain / plain_half == pytest.approx(4, rel=0.1)
    assert bias / plain == pytest.approx(-0.5, rel=0.1)
    (plain, bias), (plain_half, bias_half) = biases(h / 4, 4.0), biases(h / 8, 4.0)
    assert plain / plain_half == pytest.approx(2, rel=0.1)
    assert bias / bias_half == pytest.approx(4, rel=0.1)
    assert abs(bias) < 0.1 * plain


def test_hmc_leap_is_brunger_brooks_and_karplus_with_another_step():
    # (1 + k) x'' = 2 x' - (1 - k) x - s^2 U'(x') + s sqrt(4 k) z with k = s gamma / 2, which is of
    # second order in x: ours with A h = 1 - (1 - k) / (1 + k) and h^2 = s^2 / (1 + k).
    class Quartic:
        positive, latents = False, {}

        def draw(self, rng, theta):
            return self

        def grad(self, theta):
            return theta**3

    s, k = 0.3, 0.2
    h = s / math.sqrt(1 + k)
    sampler = SGRRHMC(h, friction=(1 - (1 - k) / (1 + k)) / h)
    z = generator(1).standard_normal((20, 1))
    theta, p = np.ones(1), np.zeros(1)
    path = [theta]
    for row in z:
        theta, p = sampler._leap(None, theta, p, Quartic(), h, row)
        path.append(theta)
    for old, now, new, row in zip(path, path[1:], path[2:], z[1:], strict=False):
        force = s * s * now**3 - s * math.sqrt(4 * k) * row
        np.testing.assert_allclose((1 + k) * new, 2 * now - (1 - k) * old - force, rtol=1e-9)


def line(batch=None):
    """One coordinate of precision 5, observed near its mean."""
    rng = np.random.default_rng(1)
    a = np.ones((8, 1)) * math.sqrt(0.5)
    return LinearGaussian(a, a[:, 0] + 0.1 * rng.standard_normal(8), 1.0, batch=batch)


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
    target = line()
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


@pytest.mark.slow
def test_minibatches_bias_cancels():
    # SGLD with minibatches is off by the order of h; the extrapolation by a tenth of that.
    target, sampler = line(batch=2), SGRRLD(0.05)
    exact = target.covariance[0, 0]
    values = estimates(sampler, target, steps=3000)
    error = values.std() / math.sqrt(len(values))
    plain = exact * (1 / (1 - 0.05 / exact / 2) - 1)
    assert abs(values.mean() - exact) < Z_MOST * error + plain / 5
    assert plain > 4 * error


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


def test_draws_a_minibatch_for_each_of_three_gradients():
    class Spy:
        positive, size, latents = False, 2, {}

        def __init__(self):
            self.seen = []

        def draw(self, rng, theta):
            self.seen.append(("draw", theta.copy()))
            return self

        def grad(self, theta):
            self.seen.append(("grad", theta.copy()))
            return 2 * theta

    for sampler in SAMPLERS:
        target = Spy()
        before = sampler.step(generator(1), sampler.init(generator(0), np.ones(2)), target)
        target.seen.clear()
        after = sampler.step(generator(2), before, target)
        places = [before.theta, after.middle, before.coarse]
        expected = [(what, place) for place in places for what in ("draw", "grad")]
        for (what, place), (named, wanted) in zip(target.seen, expected, strict=True):
            assert what == named
            np.testing.assert_array_equal(place, wanted)


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


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("chains", [(), (2,), (2, 3)])
@pytest.mark.parametrize("scalar", [False, True])
def test_resumed_record_is_the_unbroken_one(sampler, chains, scalar, tmp_path):
    def record():
        return Extrapolated(lambda theta, target: theta[..., 0] if scalar else theta, burn_in=3)

    settings = {"seed": 5, "chains": chains, "segment": 5}
    target = plane(batch=4, dtype=np.float32)
    whole = record()
    list(run(target, sampler, steps=12, record=whole, **settings))
    assert whole.mean.dtype == np.float32
    assert whole.mean.shape == (() if scalar else (2,))
    settings["checkpoint"] = tmp_path / "run.npz"
    list(run(target, sampler, steps=5, record=record(), **settings))
    resumed = record()
    list(run(target, sampler, steps=12, record=resumed, **settings))
    np.testing.assert_array_equal(resumed.mean, whole.mean)
    assert resumed.weight == whole.weight


def test_record_refuses_what_cannot_be_kept():
    with pytest.raises(AlphaMFError, match="burn_in must not be negative, not -1"):
        Extrapolated(lambda theta, target: theta, burn_in=-1)
    record = Extrapolated(lambda theta, target: theta, burn_in=9)
    list(run(plane(), SGRRLD(0.01), steps=4, seed=0, record=record))
    with pytest.raises(AlphaMFError, match="no state was kept yet: burn_in is 9"):
        _ = record.mean
    assert list(record.arrays()) == ["weight"]


def test_record_copes_with_a_buffer_that_is_used_again():
    buffer = np.zeros(2)

    def reused(theta, target):
        np.copyto(buffer, theta)
        return buffer

    record, fresh = (Extrapolated(f, burn_in=0) for f in (reused, lambda theta, target: theta))
    target, sampler = plane(), SGRRLD(0.01)
    for state in run(target, sampler, steps=3, seed=0):
        record.add(state, target)
        fresh.add(state, target)
    np.testing.assert_array_equal(record.mean, fresh.mean)
