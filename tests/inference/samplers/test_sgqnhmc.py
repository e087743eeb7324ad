"""SGQNHMC: the discretised law once C rests, its twins, and what it learns."""

from __future__ import annotations

import math

import numpy as np
import pytest

from alphamf.errors import AlphaMFError
from alphamf.inference.laws import (
    P_LEAST,
    Z_MOST,
    discretised,
    gaussian_draws,
    gaussian_p,
    gaussian_z,
)
from alphamf.inference.random import generator
from alphamf.inference.samplers.qnhmc import LBFGS
from alphamf.inference.samplers.sgqnhmc import SGQNHMC
from tests.support.bfgs import dense
from tests.support.posteriors import Orthant, space
from tests.support.states import check_resume
from tests.support.twins import Drawing, HalfNoise

H, FRICTION, GAMMA, LEAPS = 1.0, 0.8, 0.05, 2


def pairs():
    s = np.random.default_rng(3).standard_normal((2, 3))
    return s, s @ space().precision


def law(precision, c):
    """Return the stationary covariance of (theta, p)."""
    eye, none = np.eye(3), np.zeros((3, 3))
    drift = np.block([[eye, H / 2 * c], [none, eye]])
    kick = np.block([[eye, none], [-H / 2 * c @ precision, eye]])
    keep = math.exp(-H * FRICTION)
    rub = np.diag(np.repeat([1, keep], 3))
    added = np.diag(np.repeat([0, 1 - keep**2], 3))
    after = drift @ kick
    return discretised(after @ rub @ kick @ drift, after @ added @ after.T)


def stepped(target, sampler, inverse, draws):
    """Return (theta, p) after a step of many chains under one C."""
    theta, p = np.split(draws, 2, -1)
    s, y = (np.repeat(x[:, None], len(theta), 1).astype(theta.dtype) for x in inverse)
    state = sampler.init(generator(1), theta)._replace(momentum=p, inverse=LBFGS(s, y, GAMMA))
    state = sampler.step(generator(2), state, target)
    assert state.theta.dtype == state.momentum.dtype == theta.dtype
    return np.concatenate([state.theta, state.momentum], -1)


def one_sided(self):
    """C where theta moves, and no C in the force: every second product is left out."""
    right, calls = right_product(self), []

    def apply(v):
        calls.append(1)
        return right(v) if len(calls) % 3 != 2 else GAMMA * v

    return apply


right_product = LBFGS.product


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_resting_c_leaves_its_discretised_law(dtype, monkeypatch):
    target = space(dtype=dtype)
    inverse = pairs()
    covariance = law(target.precision.astype(float), dense(*inverse, GAMMA))
    mean = np.concatenate([target.mean.astype(float), np.zeros(3)])
    draws = gaussian_draws(mean, covariance, dtype=dtype)
    sampler = SGQNHMC(H, LEAPS, FRICTION, memory=2, freeze=0, gamma=GAMMA)
    after = stepped(target, sampler, inverse, draws)
    assert gaussian_z(after, mean, covariance) < Z_MOST
    assert gaussian_p(after, mean, covariance) > P_LEAST
    halved = Drawing(sampler, HalfNoise)
    assert gaussian_z(stepped(target, halved, inverse, draws), mean, covariance) > Z_MOST
    monkeypatch.setattr(LBFGS, "product", one_sided)
    assert gaussian_z(stepped(target, sampler, inverse, draws), mean, covariance) > Z_MOST


def test_learns_from_one_minibatch_a_pair_and_then_rests():
    target = space(batch=6)
    sampler = SGQNHMC(0.3, 2, memory=2, freeze=3, gamma=GAMMA)
    rng = generator(3)
    state = sampler.init(rng, target.start(rng))
    for k in range(5):
        old, state = state, sampler.step(rng, state, target)
        s, y = state.inverse.s[-1], state.inverse.y[-1]
        if k < 3:
            np.testing.assert_allclose(s, state.theta - old.theta)
            assert s @ y > 0  # of one minibatch the gradients' difference has a positive curvature
        else:
            np.testing.assert_array_equal(state.inverse.s, old.inverse.s)


@pytest.mark.parametrize("chains", [(), (2,)])
def test_resumes_bit_for_bit(chains, tmp_path):
    sampler = SGQNHMC(0.3, 2, memory=2, freeze=14, gamma=GAMMA)
    check_resume(space(batch=6), sampler, chains, tmp_path / "run.npz")


def test_refuses_a_positive_target():
    sampler = SGQNHMC(0.1)
    with pytest.raises(AlphaMFError, match="SGQNHMC cannot sample a positive target"):
        sampler.step(generator(0), sampler.init(generator(0), np.ones(2)), Orthant())


@pytest.mark.parametrize(
    ("field", "value"),
    [("leaps", 0), ("friction", 0.0), ("memory", 0), ("freeze", -1), ("gamma", 0.0)],
)
def test_refuses_hyperparameters_out_of_range(field, value):
    with pytest.raises(AlphaMFError, match=f"{field} must"):
        SGQNHMC(0.1, **{field: value})
