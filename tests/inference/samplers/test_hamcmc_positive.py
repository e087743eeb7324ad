"""HAMCMC without a wall: its coordinates, its Jacobian, laws on positive targets, broken twins."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from alphamf.factorization.alpha_mf import AlphaMF, Source
from alphamf.factorization.priors import Gamma
from alphamf.inference.chain import run
from alphamf.inference.laws import P_LEAST, Z_MOST, step_many
from alphamf.inference.protocols import Parts
from alphamf.inference.random import generator
from alphamf.inference.samplers.hamcmc import HAMCMC
from alphamf.inference.samplers.langevin import SGLD
from alphamf.inference.samplers.positive import PositiveHAMCMC
from alphamf.inference.samplers.sgrld import SGRLD
from alphamf.inference.targets.unbounded import LOWEST, UnboundedPotential, UnboundedTarget
from tests.support.posteriors import Quadrant

FEW = 4000


class Factors:
    """Independent Gamma laws of several shapes and rates."""

    positive = True
    size = 3
    latents: dict = {}  # noqa: RUF012
    shape = np.array([0.4, 2.0, 40.0])
    rate = np.array([3.0, 0.01, 5.0])

    def draw(self, rng, theta):
        return self

    def parts(self, theta):
        plus = self.rate.astype(theta.dtype) * np.ones_like(theta)
        return Parts(plus, 0 * theta, self.shape.astype(theta.dtype), np.ones(3, theta.dtype))

    def sample(self, n=FEW, dtype=np.float64):
        return (generator(5).standard_gamma(self.shape, (n, 3)) / self.rate).astype(dtype)

    def least_p(self, theta):
        laws = [stats.gamma(a, scale=1 / b) for a, b in zip(self.shape, self.rate, strict=True)]
        return min(stats.kstest(x, law.cdf).pvalue for x, law in zip(theta.T, laws, strict=True))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_coordinates_and_position_are_each_others_inverse(dtype):
    space = UnboundedTarget(Factors(), np.array([0.3, 100.0, 0.2], dtype))
    u = np.linspace(LOWEST + 1, 60, 300).astype(dtype).reshape(-1, 3)
    theta = space.position(u)
    assert theta.dtype == dtype
    back = space.coordinates(theta)
    assert back.dtype == dtype
    np.testing.assert_allclose(back, u, rtol=1e-5 if dtype is np.float32 else 1e-10, atol=1e-5)
    np.testing.assert_allclose(space.coordinates(np.zeros((1, 3), dtype)), LOWEST, rtol=1e-6)


def test_gradient_is_that_of_the_law_with_its_jacobian():
    target, scale = Factors(), np.array([0.3, 100.0, 0.2])
    space = UnboundedTarget(target, scale)
    u = np.linspace(-15, 20, 120).reshape(-1, 3)
    d = 1e-4

    def minus_log_density(u):
        theta = space.position(u)
        slope = (space.position(u + d) - space.position(u - d)) / (2 * d)
        return target.rate * theta - (target.shape - 1) * np.log(theta) - np.log(slope)

    expected = (minus_log_density(u + d) - minus_log_density(u - d)) / (2 * d)
    np.testing.assert_allclose(space.draw(None, u).grad(u), expected, rtol=1e-4, atol=1e-4)
    low = np.full((1, 3), -1e4)
    np.testing.assert_allclose(space.draw(None, low).grad(low)[0], -2 * target.shape, atol=1e-6)


def test_curvature_is_one_where_factors_are_large():
    """With c = 1 over the gradient's positive part, whatever the size of the factor."""
    target = Factors()
    space = UnboundedTarget(target, 1 / target.rate)
    u = 2 * np.sqrt(target.shape[2] + np.zeros((1, 3)))
    slope = space.draw(None, u + 0.01).grad(u + 0.01) - space.draw(None, u).grad(u)
    assert slope[0, 2] / 0.01 == pytest.approx(1, abs=0.05)


def without_jacobian(potential, u):
    """V's gradient without the derivative of the log of the Jacobian."""
    root = np.log1p(np.exp(u))
    slope = 1 / (1 + np.exp(-u))
    return right_gradient(potential, u) + slope * (1 / root) + 1 - slope


right_gradient = UnboundedPotential.grad


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_small_steps_leave_gamma_laws(dtype, monkeypatch):
    target = Factors()
    sampler, start = HAMCMC(0.004, memory=2, trust=1.0), target.sample(dtype=dtype)
    space = UnboundedTarget(target, (1 / target.rate).astype(dtype))

    def least_p():
        u = step_many(space, sampler, space.coordinates(start), steps=200)
        assert u.dtype == dtype
        return target.least_p(space.position(u))

    assert least_p() > P_LEAST
    if dtype is np.float64:
        monkeypatch.setattr(UnboundedPotential, "grad", without_jacobian)
        assert least_p() < P_LEAST


def moved(draws, sampler, steps):
    """Mean of theta^2 over the second half of a run from exact draws, and its standard error."""
    target = Quadrant()
    rng = generator(4)
    state = sampler.init(rng, draws)
    total = np.zeros(len(draws))
    for k in range(steps):
        state = sampler.step(rng, state, target)
        if k >= steps // 2:
            total += (state.theta**2).mean(1) / (steps - steps // 2)
    return total.mean(), total.std() / math.sqrt(len(draws))


@pytest.mark.slow
@pytest.mark.parametrize("memory", [2, 3])
def test_dense_h_needs_no_mirror_and_a_mirror_is_wrong(memory):
    """E theta^2 is .707; a mirror under the dense H of the same hyperparameters gives 1.1."""
    draws = Quadrant().sample(FEW)
    exact = (Quadrant().sample(100_000) ** 2).mean()
    steps = 120 * memory
    sampler = PositiveHAMCMC(0.05, memory=memory, freeze=1)
    found, error = moved(draws, sampler, steps)
    assert abs(found - exact) < 0.03 * exact + Z_MOST * error
    mirrored, error = moved(draws, HAMCMC(0.05, memory=memory, gamma=1.0, trust=1.0), steps)
    assert mirrored > 1.3 * exact + Z_MOST * error


def test_is_sgrld_and_then_hamcmc_in_frozen_coordinates():
    target, theta = Factors(), Factors().sample(5)
    sampler = PositiveHAMCMC(lambda t: 0.3 / (t + 3), memory=3, trust=2.0, decay=0.5, freeze=4)
    found = step_many(target, sampler, theta, steps=12)

    rng = generator(0, 1)
    warm = SGRLD(sampler.step_size, decay=0.5)
    state = warm.init(rng, theta)
    for _ in range(4):
        state = warm.step(rng, state, target)
    space = UnboundedTarget(target, state.weight / state.plus)
    rest = HAMCMC(sampler.step_size, memory=3, gamma=1.0, trust=2.0)
    chain = rest.init(rng, space.coordinates(state.theta))._replace(step=4)
    for _ in range(8):
        chain = rest.step(rng, chain, space)
    np.testing.assert_array_equal(found, space.position(chain.theta))


def mixture(blocks=1):
    power = generator(1).standard_exponential((12, 20)).astype(np.float32)
    free = Source(2.0, 3, None, prior_gains=Gamma(0.3, 0.5))
    return AlphaMF(power, [free, Source(1.7, 2)], blocks=blocks)


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("chains", [(), (2,)])
def test_keeps_dtype_shape_and_sign_where_rows_are_not_yet_read(blocks, chains):
    target = mixture(blocks)
    *_, state = run(
        target,
        PositiveHAMCMC(0.3, memory=3, freeze=1),
        steps=40,
        seed=0,
        start=target.start(generator(3), chains),
    )
    assert state.theta.dtype == np.float32
    assert state.theta.shape == (*chains, target.size)
    assert np.isfinite(state.theta).all()
    assert (state.theta > 0).all()


def test_run_in_the_coordinates_resumes_with_the_latents_of_a_start_made_later(tmp_path):
    def go(steps, **settings):
        target = mixture()
        space = UnboundedTarget(target, np.full(target.size, 0.1, np.float32))
        start = space.coordinates(target.start(generator(3)))
        states = run(space, SGLD(0.01), steps=steps, seed=0, start=start, segment=10, **settings)
        return list(states)[-1].theta

    unbroken = go(20)
    go(10, checkpoint=tmp_path / "run.npz")
    np.testing.assert_array_equal(go(20, checkpoint=tmp_path / "run.npz"), unbroken)


def test_without_pairs_it_is_langevin_in_the_coordinates():
    target = Factors()
    space = UnboundedTarget(target, 1 / target.rate)
    u = space.coordinates(target.sample(20))
    state = HAMCMC(0.1, trust=1.0).step(generator(1), HAMCMC(0.1).init(None, u), space)
    rng = generator(1)
    plain = SGLD(0.1).step(rng, SGLD(0.1).init(None, u), space)
    np.testing.assert_allclose(state.theta, plain.theta, rtol=1e-12)
