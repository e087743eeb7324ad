"""HAMCMC: algorithm 1 written out, laws with a frozen memory, the posterior, the naive chain."""

import math

import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov

from alphamf.factorization.alpha_mf import AlphaMFTarget, Source
from alphamf.factorization.priors import Gamma
from alphamf.inference.checks import P_LEAST, Z_MOST
from alphamf.inference.random import generator
from alphamf.inference.samplers import lbfgs
from alphamf.inference.samplers.hamcmc import HAMCMC, NaiveQN
from tests.inference.samplers.test_qnhmc import mean_square
from tests.support.bfgs import dense, dense_rectangle, matrix_of
from tests.support.posteriors import (
    Quartic,
    gaussian_draws,
    gaussian_p,
    gaussian_z,
    space,
    step_many,
)
from tests.support.twins import HalfNoise, twin


@pytest.mark.parametrize("memory", [2, 3, 5])
@pytest.mark.parametrize("trust", [0.0, 4.0])
def test_is_algorithm_1_written_out(memory, trust):
    target = space(batch=6)
    sampler = HAMCMC(lambda t: 0.3 / (t + 10), memory=memory, gamma=0.1, trust=trust)
    start = target.start(generator(1))
    steps = 4 * memory + 1
    theta = step_many(target, sampler, start, steps=steps, seed=7)

    # theta_t is chain[t + memory]; before the first step there are M copies of the start.
    rng = generator(7, 1)
    chain = [start] * memory
    s, y = [], []
    for t in range(steps):
        h = 0.3 / (t // memory * memory + 10)
        origin = chain[-memory]
        # The M - 1 latest pairs: the one that ended at `origin` is M steps old, so not in it.
        pairs = np.array(list(zip(s, y, strict=True))[1 - memory :]).reshape(-1, 2, 3)
        potential = target.draw(rng, origin)
        z, w = rng.standard_normal(3), rng.standard_normal(memory - 1)
        z = np.concatenate([z, w[memory - 1 - len(pairs) :]])  # the oldest places are empty
        inverse = dense(pairs[:, 0], pairs[:, 1], 0.1)
        factor = dense_rectangle(pairs[:, 0], pairs[:, 1], 0.1)
        new = origin - h * inverse @ potential.grad(origin) + math.sqrt(2 * h) * factor @ z
        s.append(new - origin)
        y.append(potential.grad(new) - potential.grad(origin) + trust * (new - origin))
        chain.append(new)
    np.testing.assert_allclose(theta, chain[-1], rtol=1e-9)


def frozen_step(target, sampler, pairs, theta, seed=9):
    """One step from theta, all chains with the same memory."""
    s, y = (np.repeat(p[:, None], len(theta), 1).astype(theta.dtype) for p in pairs)
    state = sampler.init(generator(seed), theta)._replace(s=s, y=y, products=lbfgs.products(s, y))
    return sampler.step(generator(seed), state, target).theta


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("empty", [False, True])
def test_frozen_memory_leaves_its_discretised_law(dtype, empty):
    target = space(dtype=dtype)
    sampler = HAMCMC(0.4, memory=3, gamma=0.02)
    s = np.zeros((2, 3)) if empty else np.random.default_rng(3).standard_normal((2, 3))
    y = s @ target.precision.astype(float)
    inverse = sampler.gamma * np.eye(3) if empty else dense(s, y, sampler.gamma)
    law = (
        target.mean.astype(float),
        solve_discrete_lyapunov(np.eye(3) - 0.4 * inverse @ target.precision, 2 * 0.4 * inverse),
    )
    start = gaussian_draws(*law, dtype=dtype)
    theta = frozen_step(target, sampler, (s, y), start)
    assert theta.dtype == dtype
    assert gaussian_z(theta, *law) < Z_MOST
    assert gaussian_p(theta, *law) > P_LEAST

    halved = twin(sampler, HalfNoise)
    assert gaussian_z(frozen_step(target, halved, (s, y), start), *law) > Z_MOST


@pytest.mark.slow
def test_naive_chain_has_another_law_and_hamcmc_comes_close():
    # The naive chain gives 1.59 at any step size, HAMCMC 1.10 to 1.15.
    exact = 2 / math.sqrt(math.pi)
    settings = {"gamma": 0.3, "trust": 1.0}
    near, _ = mean_square(HAMCMC(0.02, **settings), chains=4000, steps=400, seed=12)
    far, _ = mean_square(NaiveQN(0.02, **settings), chains=4000, steps=200, seed=12)
    assert abs(near - exact) < 0.05
    assert far - exact > 0.3


@pytest.mark.parametrize("chains", [(), (2,)])
def test_memory_sees_the_mirror(chains):
    power = np.random.default_rng(0).standard_exponential((6, 5)).astype(np.float32)
    priors = Gamma(2.0, 1.0), Gamma(2.0, 1.0)
    target = AlphaMFTarget(power, [Source(1.2, 2, None, *priors)], blocks=2)
    rng = generator(0)
    sampler = HAMCMC(0.1, memory=3, gamma=1e-3, trust=1e3)
    state = sampler.init(rng, target.start(rng, chains))
    for _ in range(20):
        origin = state.past[state.step % 3].copy()
        state = sampler.step(rng, state, target)
        np.testing.assert_array_equal(state.s[(state.step - 1) % 2], state.theta - origin)


def test_naive_chain_moves_from_the_newest_sample():
    class Spy(Quartic):
        def draw(self, rng, theta):
            self.drawn = theta.copy()
            return self

    target, sampler = Spy(), NaiveQN(0.1, memory=3)
    state = sampler.init(generator(0), np.ones(2))
    for _ in range(4):
        newest = state.theta
        state = sampler.step(generator(1), state, target)
        np.testing.assert_array_equal(target.drawn, newest)
    # The memory holds the last two moves, in two places, of which the older one comes first here.
    assert state.step % 2 == 0
    inverse = matrix_of("apply", state.s, state.y)
    np.testing.assert_allclose(inverse @ state.y[-1], state.s[-1], rtol=1e-9)
