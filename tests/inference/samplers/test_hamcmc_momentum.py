"""HAMCMC with momenta: the discretised law with a frozen memory, its twins, and the formula."""

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
from alphamf.inference.samplers import compact, hamcmc_momentum, lbfgs
from alphamf.inference.samplers.hamcmc_momentum import HAMCMCMomentum
from alphamf.inference.targets.gaussian import LinearGaussian
from tests.support.bfgs import dense, dense_rectangle, pairs
from tests.support.posteriors import Orthant, space
from tests.support.states import check_resume
from tests.support.twins import Drawing, HalfNoise

H, FRICTION, GAMMA = 0.8, 0.7, 0.02


def memory():
    """Two pairs of the Gaussian `space`."""
    s = np.random.default_rng(3).standard_normal((2, 3))
    return s, s @ space().precision


def leap(precision, factor):
    """Return what a step multiplies (theta, p) by, and the covariance of what it adds."""
    size, wide = factor.shape
    eye, none = np.eye(size), np.zeros((size, wide))
    kick = np.block([[eye, none], [-H / 2 * factor.T @ precision, np.eye(wide)]])
    drift = np.block([[eye, H * factor], [none.T, np.eye(wide)]])
    decay = math.exp(-H * FRICTION / 2)
    rub = np.diag(np.repeat([1, decay], [size, wide]))
    added = np.diag(np.repeat([0, 1 - decay**2], [size, wide]))
    whole = rub @ kick @ drift @ kick
    return whole @ rub, whole @ added @ whole.T + added


def stepped(target, sampler, s, y, draws):
    """Theta and momenta after a step of many chains from draws of them, all with the same pairs."""
    draws = draws.astype(target.linear.dtype)
    theta, p, extra = draws[:, :3], draws[:, 3:6], draws[:, 6:]
    s, y = (np.repeat(x[:, None], len(theta), 1).astype(theta.dtype) for x in (s, y))
    state = sampler.init(generator(1), theta)
    members = state.members._replace(s=s, y=y, products=compact.products(s, y))
    state.momentum[0], state.extra[0] = p, extra
    state = sampler.step(generator(2), state._replace(members=members), target)
    return np.concatenate([state.theta, state.momentum[0], state.extra[0]], 1)


def pull_of_h(inverse, g):
    """H g in the place of F' g: what a leap of QNHMC would push with."""
    return inverse.apply(g), np.zeros_like(inverse.form.sy)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_frozen_memory_leaves_its_discretised_law(dtype, monkeypatch):
    target = space(dtype=dtype)
    s, y = memory()
    factor = dense_rectangle(s, y, GAMMA)
    covariance = discretised(*leap(target.precision.astype(float), factor))
    law = np.concatenate([target.mean.astype(float), np.zeros(5)]), covariance
    sampler = HAMCMCMomentum(H, FRICTION, memory=4, gamma=GAMMA)
    draws = gaussian_draws(*law)
    # F is one square root of H; the rotation between it and the test's does not touch theta.
    after = stepped(target, sampler, s, y, draws)[:, :3]
    assert gaussian_z(after, law[0][:3], covariance[:3, :3]) < Z_MOST
    assert gaussian_p(after, law[0][:3], covariance[:3, :3]) > P_LEAST

    twins = [(Drawing(sampler, HalfNoise), lbfgs.InverseHessian.pull), (sampler, pull_of_h)]
    for twin, pull in twins:
        with monkeypatch.context() as patch:
            patch.setattr(lbfgs.InverseHessian, "pull", pull)
            after = stepped(target, twin, s, y, draws)[:, :3]
        assert gaussian_z(after, law[0][:3], covariance[:3, :3]) > Z_MOST


def test_pull_is_the_transpose_of_draw():
    s, y = pairs(m=3, chains=(), size=5)
    inverse = lbfgs.inverse_hessian(s[:, None], y[:, None], 0.7)
    eye = np.eye(8)
    rows = np.array([inverse.draw(z[None, :5], z[None, 5:])[0] for z in eye])
    g = np.random.default_rng(1).standard_normal(5)
    np.testing.assert_allclose(rows @ g, np.concatenate(inverse.pull(g[None]), -1)[0], rtol=1e-10)
    np.testing.assert_allclose(rows.T @ rows, dense(s, y, 0.7), rtol=1e-10)


def euler(momenta, force, h):
    """All of a kick before the drift and none after, as SGHMC has it."""
    kicks.append(h)
    if len(kicks) % 2:
        right_kick(momenta, force, 2 * h)


right_kick = hamcmc_momentum._kick
kicks: list = []


def along(members, step, new, s_new, y_new, trust):
    """Pairs along the chains, as HAMCMC has them, on `wide`."""
    s_new = new - members.past[step % len(members.past)]
    return right_joined(members, step, new, s_new, s_new @ wide().precision, trust)


right_joined = hamcmc_momentum.insert_sample


def wide():
    """Return a Gaussian posterior of condition 100 in ten dimensions."""
    rng = np.random.default_rng(0)
    turn, _ = np.linalg.qr(rng.standard_normal((10, 10)))
    a = rng.standard_normal((300, 10)) * np.geomspace(1, 0.1, 10) @ turn.T
    return LinearGaussian(a, a @ np.ones(10), 1.0)


def variance(steps=600):
    """Mean of the whitened squares, less one, and its error, from exact draws."""
    target, n = wide(), 300
    narrow = 1 / np.linalg.eigvalsh(target.precision)[-1]
    sampler = HAMCMCMomentum(0.3, 0.3, memory=4, gamma=narrow)
    rng = generator(8)
    root = np.linalg.cholesky(target.precision)
    state = sampler.init(rng, gaussian_draws(target.mean, target.covariance, n=n))
    total = np.zeros(n)
    for k in range(steps):
        state = sampler.step(rng, state, target)
        if k >= steps // 3:
            total += (((state.theta - target.mean) @ root) ** 2).mean(1)
    total /= steps - steps // 3
    return total.mean() - 1, total.std() / math.sqrt(n)


@pytest.mark.slow
def test_h_must_not_know_the_momentum_and_the_leap_must_be_symmetric(monkeypatch):
    """A law for each constant F is not enough: with either twin the variance is far too small."""
    found, error = variance()
    assert abs(found) < 0.03 + Z_MOST * error
    for name, wrong in (("insert_sample", along), ("_kick", euler)):
        with monkeypatch.context() as patch:
            patch.setattr(hamcmc_momentum, name, wrong)
            found, error = variance()
        assert found < -0.05 - Z_MOST * error, name


@pytest.mark.parametrize("chains", [(), (2,)])
def test_resumes_bit_for_bit(chains, tmp_path):
    sampler = HAMCMCMomentum(0.2, memory=4, gamma=GAMMA)
    check_resume(space(batch=6), sampler, chains, tmp_path / "run.npz")


def test_refuses_a_positive_target():
    target = Orthant()
    sampler = HAMCMCMomentum(0.1)
    with pytest.raises(AlphaMFError, match="HAMCMCMomentum cannot sample a positive target"):
        sampler.step(generator(0), sampler.init(generator(0), np.ones(2)), target)


@pytest.mark.parametrize(("field", "value"), [("friction", 0.0), ("memory", 2), ("gamma", -1.0)])
def test_refuses_hyperparameters_out_of_range(field, value):
    with pytest.raises(AlphaMFError, match=f"{field} must"):
        HAMCMCMomentum(0.1, **{field: value})
