"""Richardson-Romberg around HAMCMC: the joint law of both chains, and the bias's order."""

from __future__ import annotations

import math

import numpy as np
import pytest

from alphamf.errors import AlphaMFError
from alphamf.inference.chain import run
from alphamf.inference.laws import (
    P_LEAST,
    Z_MOST,
    discretised,
    gaussian_draws,
    gaussian_p,
    gaussian_z,
)
from alphamf.inference.random import generator
from alphamf.inference.records import Extrapolated
from alphamf.inference.samplers import compact, hamcmc_richardson
from alphamf.inference.samplers.hamcmc_richardson import HAMCMCRichardson
from tests.support.bfgs import dense, dense_rectangle
from tests.support.posteriors import Orthant, space
from tests.support.states import check_resume

H, GAMMA = 0.4, 0.02


def memory():
    s = np.random.default_rng(3).standard_normal((2, 3))
    return s, s @ space().precision


def joint_law(precision, s, y):
    """Covariance of (middle, fine, coarse) under one H."""
    pull, root = dense(s, y, GAMMA) @ precision, math.sqrt(H) * dense_rectangle(s, y, GAMMA)
    half, whole = np.eye(3) - H / 2 * pull, np.eye(3) - H * pull
    none, still = np.zeros((3, 3)), np.zeros_like(root)
    drift = np.block([[none, half, none], [none, half @ half, none], [none, none, whole]])
    noises = np.block([[root, still], [half @ root, root], [root, root]])
    return discretised(drift, noises @ noises.T)


def stepped(target, s, y, draws):
    """Return (middle, fine, coarse) after a step of many chains, all with the same pairs."""
    _, fine, coarse = np.split(draws, 3, -1)
    s, y = (np.repeat(x[:, None], len(fine), 1).astype(fine.dtype) for x in (s, y))
    state = HAMCMCRichardson(H, memory=4, gamma=GAMMA).init(None, fine)
    members = state.members._replace(s=s, y=y, products=compact.products(s, y))
    state.past[0] = coarse
    sampler = HAMCMCRichardson(H, memory=4, gamma=GAMMA)
    state = sampler.step(generator(2), state._replace(members=members), target)
    assert state.theta.dtype == fine.dtype
    return np.concatenate([state.middle, state.theta, state.coarse], -1)


def halved(rng, inverse, like, h):
    return right_kick(rng, inverse, like, h / 2)


def plain(rng, inverse, like, h):
    """Noise of SGRRLD, without H."""
    return math.sqrt(h * GAMMA) * rng.standard_normal(like.shape, dtype=like.dtype)


right_kick = hamcmc_richardson._kick


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_both_chains_keep_their_joint_law(dtype, monkeypatch):
    target = space(dtype=dtype)
    s, y = memory()
    mean = np.tile(target.mean.astype(float), 3)
    covariance = joint_law(target.precision.astype(float), s, y)
    draws = gaussian_draws(mean, covariance, dtype=dtype)
    after = stepped(target, s, y, draws)
    assert gaussian_z(after, mean, covariance) < Z_MOST
    assert gaussian_p(after, mean, covariance) > P_LEAST
    for wrong in (halved, plain):
        monkeypatch.setattr(hamcmc_richardson, "_kick", wrong)
        assert gaussian_z(stepped(target, s, y, draws), mean, covariance) > Z_MOST


@pytest.mark.slow
def test_bias_of_the_variance_is_of_second_order():
    """At this h HAMCMC's variance is 11 % too large, the fine chain's 5 %, the estimate's 1 %."""
    target, chains = space(), 1500

    def squares(theta, target):
        return ((theta - target.mean) @ np.linalg.cholesky(target.precision)) ** 2

    sampler = HAMCMCRichardson(H, memory=4, gamma=GAMMA)
    start = gaussian_draws(target.mean, target.covariance, n=chains)
    record, fine, coarse, count = Extrapolated(squares, burn_in=60), 0.0, 0.0, 0
    for state in run(target, sampler, steps=400, seed=3, start=start, record=record):
        if state.step > 60:
            fine, coarse = (
                fine + squares(state.theta, target),
                coarse + squares(state.coarse, target),
            )
            count += 1
    found = [x.mean() / count - 1 for x in (coarse, fine)]
    error = coarse.mean(1).std() / count / math.sqrt(chains)
    estimate = record.mean.mean() - 1
    assert found[0] > 2 * Z_MOST * error
    assert found[1] > Z_MOST * error
    assert abs(estimate) < 0.35 * found[0]
    assert found[0] > 1.5 * found[1]


@pytest.mark.parametrize("chains", [(), (2,)])
def test_resumes_bit_for_bit(chains, tmp_path):
    sampler = HAMCMCRichardson(0.05, memory=4, gamma=GAMMA)
    check_resume(space(batch=6), sampler, chains, tmp_path / "run.npz")


def test_refuses_a_wall_and_latents():
    sampler = HAMCMCRichardson(0.1)
    state = sampler.init(generator(0), np.ones(2))
    with pytest.raises(AlphaMFError, match="HAMCMCRichardson cannot sample a positive target"):
        sampler.step(generator(0), state, Orthant())
    target = space()
    target.latents = {"phi0": np.ones(2)}
    with pytest.raises(AlphaMFError, match="without latents"):
        sampler.step(generator(0), state, target)


@pytest.mark.parametrize(("field", "value"), [("memory", 2), ("gamma", 0.0), ("trust", -1.0)])
def test_refuses_hyperparameters_out_of_range(field, value):
    with pytest.raises(AlphaMFError, match=f"{field} must"):
        HAMCMCRichardson(0.1, **{field: value})
