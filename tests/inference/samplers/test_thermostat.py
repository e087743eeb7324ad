"""SGHMC and SGNHT: discretised laws, orders of the bias, gradient noise, masses and mirrors."""

import math
from dataclasses import replace

import numpy as np
import pytest

from alphamf.inference.checks import CHAINS, P_LEAST, Z_MOST, check, whiten
from alphamf.inference.random import generator
from alphamf.inference.samplers import reflect as mirror
from alphamf.inference.samplers import sghmc
from alphamf.inference.samplers.masses import UnitMass
from alphamf.inference.samplers.sghmc import SGHMC, SGNHT
from alphamf.inference.samplers.sgnphmc import SGNPHMC
from tests.support.momenta import (
    INVERSE_MASS,
    MIRRORED,
    PRECISION,
    FixedMass,
    Normal,
    blocks,
    sghmc_law,
)
from tests.support.posteriors import Quartic, gaussian_draws, gaussian_p, gaussian_z
from tests.support.twins import HalfNoise, twin

INTEGRATORS = ["euler", "splitting"]


def after_step(sampler, target, draws, seed=3):
    """Return (theta, p) one step after `draws` of them."""
    size = target.size
    rng = generator(seed, 1)
    state = sampler.init(rng, draws[:, :size])
    state = sampler.step(rng, state._replace(momentum=draws[:, size:]), target)
    return np.concatenate([state.theta, state.momentum], -1)


def misses(sampler, target, covariance, dtype=np.float64):
    """Return |z| and p of a step from draws of the covariance, and the step's end."""
    zero = np.zeros(len(covariance))
    end = after_step(sampler, target, gaussian_draws(zero, covariance, dtype=dtype))
    return gaussian_z(end, zero, covariance), gaussian_p(end, zero, covariance), end


@pytest.mark.parametrize("integrator", [*INTEGRATORS, "baoab"])
@pytest.mark.parametrize(("unit", "dtype"), [(True, np.float32), (False, np.float64)])
def test_sghmc_leaves_its_discretised_law(integrator, unit, dtype):
    h, inverse = 0.4, np.eye(2) if unit else INVERSE_MASS
    mass = UnitMass() if unit else FixedMass(inverse)
    sampler = SGHMC(h, leaps=3, friction=0.7, integrator=integrator, mass=mass)
    target, covariance = Normal(PRECISION), sghmc_law(sampler, h, inverse=inverse)
    z, p, end = misses(sampler, target, covariance, dtype)
    assert end.dtype == dtype
    assert z < Z_MOST
    assert p > P_LEAST
    # At so large a step the posterior itself is another law.
    ideal = blocks(np.linalg.inv(PRECISION), np.zeros((2, 2)), np.zeros((2, 2)), inverse)
    ideal[2:, 2:] = np.linalg.inv(inverse)
    assert gaussian_z(end, np.zeros(4), ideal) > Z_MOST

    assert misses(twin(sampler, HalfNoise), target, covariance, dtype)[0] > Z_MOST


def test_baoab_is_of_second_order_where_curvature_varies():
    # Small friction: theta's bias is that of the leapfrog scheme.
    report = check(SGHMC(0.4, 4, friction=0.5, integrator="baoab"), Quartic(), order=2, steps=100)
    assert report.passed, report


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_noise_estimate_makes_up_for_gradient_noise_at_any_step_size(integrator):
    h, variance = 0.3, 3.0
    target = Normal(PRECISION, noise=variance)
    mass = FixedMass(INVERSE_MASS)
    settings = {"leaps": 2, "friction": 0.7, "integrator": integrator, "mass": mass}
    plain = SGHMC(h, **settings)
    covariance = sghmc_law(plain, h)
    knowing = SGHMC(h, noise_estimate=h * variance / 2, **settings)
    z, p, _ = misses(knowing, target, covariance)
    assert z < Z_MOST
    assert p > P_LEAST
    assert misses(plain, target, covariance)[0] > Z_MOST
    # Unknown noise heats the chain, by a known factor.
    hotter = sghmc_law(plain, h, gradient_noise=variance)
    assert misses(plain, target, hotter)[0] < Z_MOST
    np.testing.assert_allclose(hotter, covariance * (1 + h * variance / (2 * plain.friction)))


def sgnht_z(sampler, target, inverse, seed=5):
    """Return the largest |z| among moments of theta, p and xi a step after the ideal law."""
    rng = generator(seed, 0)
    precision, variance = target.precision, np.array([[1 / np.trace(inverse)]])
    zero, covariance = np.zeros(target.size), np.linalg.inv(precision)
    state = sampler.init(rng, gaussian_draws(zero, covariance, seed=1))
    xi = gaussian_draws([sampler.diffusion], variance, seed=2)
    state = sampler.step(rng, state._replace(thermostat=xi), target)
    # xi and the squares of p, for independence: standard, and uncorrelated under the law.
    p = whiten(state.momentum, zero, np.linalg.inv(inverse))
    xi = whiten(state.thermostat, [sampler.diffusion], variance)
    joint = (xi * (p**2 - 1) / math.sqrt(2)).mean(0) * math.sqrt(CHAINS)
    z = gaussian_z(state.theta, zero, covariance), gaussian_z(p, zero, np.eye(target.size))
    return max(*z, gaussian_z(xi, [0], np.eye(1)), *np.abs(joint))


@pytest.mark.parametrize("inverse", [np.eye(2), INVERSE_MASS])
def test_sgnht_leaves_the_posterior_at_small_steps(inverse, monkeypatch):
    target = Normal(PRECISION)
    sampler = SGNHT(0.01, leaps=20, diffusion=0.5, mass=FixedMass(inverse))
    assert sgnht_z(sampler, target, inverse) < Z_MOST
    # The norm in the place of the squared norm heats the chain.
    dot = sghmc.dot
    monkeypatch.setattr(sghmc, "dot", lambda a, b: np.sqrt(dot(a, b)))
    assert sgnht_z(sampler, target, inverse) > Z_MOST
    monkeypatch.undo()
    assert sgnht_z(twin(sampler, HalfNoise), target, inverse) > Z_MOST
    # The printed thermostat, p' M^-1 p / D: right for the unit mass alone.
    monkeypatch.setattr(sghmc, "dot", lambda v, _: dot(v, np.linalg.solve(inverse, v.T).T))
    monkeypatch.setattr(sghmc, "_trace", lambda metric, like: like.shape[-1])
    assert (sgnht_z(sampler, target, inverse) < Z_MOST) == np.array_equal(inverse, np.eye(2))


def test_sgnht_absorbs_gradient_noise_that_heats_sghmc():
    h, variance = 0.05, 20.0
    target, rng = Normal(np.diag([2.0, 0.5]), noise=variance), generator(7)
    sampler = SGNHT(h, leaps=10, diffusion=0.5)
    state = sampler.init(rng, rng.standard_normal((4000, 2)))
    squares, xi = [], []
    for _ in range(80):
        state = sampler.step(rng, state, target)
        squares.append((state.theta**2).mean(0) @ target.precision)
        xi.append(state.thermostat.mean())
    np.testing.assert_allclose(np.mean(squares[40:], 0), 1, atol=0.1)
    np.testing.assert_allclose(np.mean(xi[40:]), 0.5 + h * variance / 2, atol=0.05)
    hot = sghmc_law(SGHMC(h, friction=0.5), h, target.precision, np.eye(2), variance)
    assert (np.diag(hot)[:2] * np.diag(target.precision) > 1.9).all()


def folded_z(sampler, covariance, seed=8):
    """Return |z| of (theta, p), mirrored at random, a step after the mirrored law."""
    rng = generator(seed, 0)
    draws = gaussian_draws(np.zeros(4), covariance)
    theta, p = draws[:, :2], draws[:, 2:]
    state = sampler.init(rng, np.abs(theta))._replace(momentum=p * np.sign(theta))
    if isinstance(sampler, SGNHT):
        xi = sampler.diffusion + rng.standard_normal((CHAINS, 1)) / math.sqrt(2)
        state = state._replace(thermostat=xi)
    state = sampler.step(rng, state, MIRRORED)
    assert (state.theta >= 0).all()
    signs = np.where(rng.random((CHAINS, 2)) < 0.5, -1, 1)
    end = np.concatenate([signs * state.theta, signs * state.momentum], -1)
    return gaussian_z(end, np.zeros(4), covariance)


@pytest.mark.parametrize(
    "sampler", [*(SGHMC(0.3, 3, integrator=k) for k in [*INTEGRATORS, "baoab"]), SGNHT(0.01, 40)]
)
def test_mirror_turns_the_momentum(sampler, monkeypatch):
    if isinstance(sampler, SGHMC):
        covariance = sghmc_law(sampler, 0.3, MIRRORED.precision, np.eye(2))
    else:
        covariance = blocks(
            np.linalg.inv(MIRRORED.precision), np.zeros((2, 2)), np.zeros((2, 2)), np.eye(2)
        )
    assert folded_z(sampler, covariance) < Z_MOST
    reflect = mirror.reflect
    monkeypatch.setattr(mirror, "reflect", lambda theta, target, p: reflect(theta, target))
    assert folded_z(sampler, covariance) > Z_MOST


@pytest.mark.parametrize(
    "sampler",
    [*(SGHMC(0.1, 3, integrator=k) for k in [*INTEGRATORS, "baoab"]), SGNHT(0.1, 3), SGNPHMC(0.1)],
)
def test_mass_learns_from_the_end_of_a_step(sampler):
    class Learner(FixedMass):
        def update(self, rng, state, theta, momentum):
            heard.append((theta, momentum))
            return state

    heard: list = []
    for target in (MIRRORED, Normal(PRECISION)):
        sampler = replace(sampler, mass=Learner([1.0, 2.0]))
        state = sampler.init(generator(0), np.ones((3, 2)))
        scaled = generator(0).standard_normal((3, 2)) / np.sqrt([1.0, 2.0])  # the start's momenta
        np.testing.assert_allclose(state.momentum, scaled)
        state = sampler.step(generator(1), state, target)
        assert heard[-1][0] is state.theta
        assert heard[-1][1] is state.momentum
