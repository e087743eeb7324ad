"""SG-NPHMC and SGR-NPHMC: the leapfrog and its energy, laws and orders, gradient noise, mirrors."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from alphamf.inference.chain import run
from alphamf.inference.checks import CHAINS, P_LEAST, Z_MOST
from alphamf.inference.metric import Dense, Diagonal
from alphamf.inference.random import generator
from alphamf.inference.samplers import sgnphmc
from alphamf.inference.samplers.masses import MassEM, UnitMass
from alphamf.inference.samplers.sgnphmc import SGNPHMC, SGRNPHMC, Constant, NosePoincare, Point
from alphamf.inference.targets.gaussian import LinearGaussian
from tests.support.differences import central
from tests.support.momenta import INVERSE_MASS, PRECISION, FixedMass, Normal
from tests.support.posteriors import Quartic, gaussian_draws, gaussian_p, gaussian_z
from tests.support.twins import HalfNoise, twin

MASS = FixedMass(INVERSE_MASS)
DENSE = Constant(Dense(INVERSE_MASS))


class Lifted(Quartic):
    """The same law, with another constant of U."""

    def value(self, theta):
        return super().value(theta) + 1e3


def bent(theta):
    """Return the metric I + w w' / 2 with w = (1, theta_1)."""
    w = np.stack([np.ones_like(theta[..., 0]), theta[..., 0]], -1)
    change = np.zeros((*theta.shape, 2), theta.dtype)
    change[..., 0, 1] = 1
    slope = change[..., :, :, None] * w[..., None, None, :]
    g = w[..., :, None] * w[..., None, :]
    return Dense(np.eye(2, dtype=theta.dtype) + g / 2, (slope + np.swapaxes(slope, -1, -2)) / 2)


def constant(theta):
    return DENSE


def energy(flow, point, h0):
    """Return H, from its definition."""
    theta, p, s, q = point
    metric = flow.metric(theta)
    r = p / s
    inner = flow.potential.value(theta)[..., None] + 0.5 * np.reshape(metric.log_det(), (-1, 1))
    inner = inner + 0.5 * (r * metric.solve(r)).sum(-1, keepdims=True)
    return s * (inner + q * q / (2 * flow.inertia) + theta.shape[-1] * np.log(s) - h0)


def level(flow, point, h0):
    return h0 - flow.energy(point.theta, flow.metric(point.theta))


def cloud(seed=0, n=5):
    """Return points, and an H0 for each that puts none on the surface."""
    rng = generator(seed)
    theta, p = rng.standard_normal((2, n, 2))
    return Point(theta, p, 0.5 + rng.random((n, 1)), rng.standard_normal((n, 1))), 1.0 + p[:, :1]


def written(h, flow, point, h0):
    """Return the leapfrog of a constant mass written out."""
    theta, p, s, q = point
    mass, size = flow.inertia, 2

    def thrust(theta, p, s):
        kinetic = (p @ INVERSE_MASS * p).sum(-1, keepdims=True) / (2 * s**2)
        value = flow.potential.value(theta)[:, None]
        return kinetic - value - size * (1 + np.log(s)) + h0

    p = p - h / 2 * s * flow.potential.grad(theta)
    c = q + h / 2 * thrust(theta, p, s)
    q = (-1 + np.sqrt(1 + h * c / mass)) * 2 * mass / h
    new = s * (1 + h / 2 * q / mass) / (1 - h / 2 * q / mass)
    theta = theta + h / 2 * p @ INVERSE_MASS * (1 / s + 1 / new)
    p = p - h / 2 * new * flow.potential.grad(theta)
    before = p + h / 2 * new * flow.potential.grad(theta)
    q = q + h / 2 * (thrust(theta, before, new) - q**2 / (2 * mass))
    return Point(theta, p, new, q)


def test_leap_is_the_one_written_out():
    flow = NosePoincare(Quartic(), Quartic(), constant, 2.0, 1)
    point, h0 = cloud()
    end, metric = flow.leap(0.1, point, level(flow, point, h0))
    for mine, other in zip(end, written(0.1, flow, point, h0), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-10)
    assert metric is DENSE


FLOWS = [
    NosePoincare(Quartic(), Quartic(), constant, 2.0, 1),
    NosePoincare(Quartic(), Quartic(), bent, 2.0, 60),
]


@pytest.mark.parametrize("flow", FLOWS)
def test_leap_keeps_energy_to_third_order_turns_back_and_is_symplectic(flow):
    point, h0 = cloud()
    before = energy(flow, point, h0)

    def leap(h, point):
        return flow.leap(h, point, level(flow, point, h0))[0]

    errors = [np.abs(energy(flow, leap(h, point), h0) - before).max() for h in (0.02, 0.01)]
    assert 7 < errors[0] / errors[1] < 9

    def turned(point):
        return point._replace(p=-point.p, q=-point.q)

    back = turned(leap(0.05, turned(leap(0.05, point))))
    for mine, other in zip(back, point, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-9)

    # J' Omega J = Omega in the coordinates (theta, s, p, q), by central differences.
    def mapped(x):
        theta, s, p, q = np.split(x, [2, 3, 5], -1)
        end = leap(0.05, Point(theta, p, s, q))
        return np.concatenate([end.theta, end.s, end.p, end.q], -1)

    x = np.concatenate([point.theta, point.s, point.p, point.q], -1)
    jacobian = central(mapped, x)
    omega = np.kron([[0, 1], [-1, 0]], np.eye(3))
    kept = np.swapaxes(jacobian, -1, -2) @ omega @ jacobian
    np.testing.assert_allclose(kept, np.broadcast_to(omega, kept.shape), atol=1e-7)


@pytest.mark.parametrize("flow", FLOWS)
def test_leap_from_the_surface_asks_for_p_over_s_alone_and_not_for_a_constant_of_u(flow):
    point = cloud()[0]
    one = point._replace(p=point.p / point.s, s=np.ones_like(point.s))
    end = flow.leap(0.1, point)[0]
    same = flow.leap(0.1, one)[0]
    lifted = flow._replace(potential=Lifted()).leap(0.1, one)[0]
    for other in (same, lifted):
        np.testing.assert_allclose(other.theta, end.theta, rtol=1e-9)
        np.testing.assert_allclose(other.p / other.s, end.p / end.s, rtol=1e-9)
        np.testing.assert_allclose(other.q, end.q, rtol=1e-9)
    # That surface is H = 0, which the leap leaves at third order.
    h0 = one.q**2 / 4 + flow.energy(one.theta, flow.metric(one.theta))
    h0 = h0 + 0.5 * (one.p * flow.metric(one.theta).solve(one.p)).sum(-1, keepdims=True)
    np.testing.assert_allclose(energy(flow, one, h0), 0, atol=1e-12)
    gone = [np.abs(energy(flow, flow.leap(h, one)[0], h0)).max() for h in (0.02, 0.01)]
    assert 7 < gone[0] / gone[1] < 9


def test_leap_stays_finite_where_momenta_are_far_too_large():
    flow = FLOWS[0]
    point = Point(
        np.ones((2, 2)), 1e3 * np.ones((2, 2)), np.ones((2, 1)), np.array([[1e3], [-1e3]])
    )
    end = flow.leap(0.1, point)[0]
    assert all(np.isfinite(field).all() for field in end)
    np.testing.assert_allclose(end.s, 3.0)


class Curved(Normal):
    """A normal law with a metric of its own, which need not be the Fisher information."""

    def __init__(self, precision, metric, noise=0.0, positive=False):
        super().__init__(precision, noise, positive)
        self.bend = metric

    def draw(self, rng, theta):
        return WithMetric(super().draw(rng, theta), self.bend)


@dataclass
class WithMetric:
    potential: Any
    metric: Any

    def grad(self, theta):
        return self.potential.grad(theta)

    def value(self, theta):
        return self.potential.value(theta)


def factor(sampler, target, theta):
    """Return the Cholesky factor of the metric at theta, (n, D, D)."""
    if hasattr(sampler, "mass"):
        inverse = sampler.mass.inverse(sampler.mass.init(theta))
        g = np.linalg.inv(inverse.apply(np.eye(theta.shape[-1])))[None]
    else:
        metric = target.draw(None, theta).metric(theta)
        g = metric.g if isinstance(metric, Dense) else metric.g[..., None] * np.eye(target.size)
    return np.linalg.cholesky(g)


def ideal_check(sampler, target, seed=4, n=CHAINS):
    """Return the largest |z| and least p of theta, r and q a step after the ideal law."""
    rng = generator(seed, 0)
    size, inertia = target.size, sampler.inertia * target.size
    zero, eye = np.zeros(2 * size + 1), np.eye(2 * size + 1)
    white = gaussian_draws(zero, eye, n=n)
    root = np.linalg.cholesky(np.linalg.inv(target.precision))
    theta = white[:, :size] @ root.T
    signs = np.sign(theta) if target.positive else 1
    state = sampler.init(rng, signs * theta)
    r = (factor(sampler, target, state.theta) @ white[:, size:-1, None])[..., 0]
    q = math.sqrt(inertia) * white[:, -1:]
    state = state._replace(step=1, momentum=signs * r, thermostat=q)
    state = sampler.step(rng, state, target)
    if target.positive:
        assert (state.theta >= 0).all()
        signs = np.where(rng.random(theta.shape) < 0.5, -1, 1)
    r = np.linalg.solve(factor(sampler, target, state.theta), state.momentum[..., None])[..., 0]
    q = state.thermostat / math.sqrt(inertia)
    end = np.concatenate([signs * state.theta @ np.linalg.inv(root).T, signs * r, q], -1)
    return gaussian_z(end, zero, eye), gaussian_p(end, zero, eye)


LAWS = [
    (SGNPHMC(0.05, 5, thermostat_friction=0.5, mass=MASS), Normal(PRECISION)),
    (SGRNPHMC(0.05, 4, thermostat_friction=0.5), Curved(PRECISION, bent)),
]


@pytest.mark.parametrize(("sampler", "target"), LAWS)
def test_leaves_the_posterior_at_small_steps(sampler, target):
    z, p = ideal_check(sampler, target)
    assert z < Z_MOST
    assert p > P_LEAST
    assert ideal_check(twin(sampler, HalfNoise), target)[0] > Z_MOST


@pytest.mark.slow
def test_law_needs_the_slope_of_the_metric():
    sampler, _ = LAWS[1]
    flat = Curved(PRECISION, lambda theta: bent(theta)._replace(slope=None))
    assert ideal_check(replace(sampler, leaps=12), flat, n=100_000)[0] > Z_MOST


def test_constant_dense_metric_is_the_plain_sampler_in_other_coordinates():
    g = np.array([[2.0, 0.7], [0.7, 1.0]])
    root = np.linalg.cholesky(g)
    inverse = np.linalg.inv(root)
    target = Curved(PRECISION, lambda theta: Dense(g))
    plain = Normal(inverse @ PRECISION @ inverse.T)  # phi = root' theta
    theta, r = generator(1).standard_normal((2, 3, 2))
    one = SGRNPHMC(0.1, 4).init(None, theta)._replace(step=1, momentum=r)
    two = SGNPHMC(0.1, 4).init(generator(0), theta @ root)._replace(momentum=r @ inverse.T)
    for k in range(3):
        one = SGRNPHMC(0.1, 4).step(generator(2, k), one, target)
        two = SGNPHMC(0.1, 4).step(generator(2, k), two, plain)
    np.testing.assert_allclose(one.theta @ root, two.theta, rtol=1e-10)
    np.testing.assert_allclose(one.momentum @ inverse.T, two.momentum, rtol=1e-10)
    np.testing.assert_allclose(one.thermostat, two.thermostat, rtol=1e-10)


def test_first_momentum_of_the_riemannian_sampler_has_the_metric_as_covariance():
    target, still = Curved(PRECISION, bent), SGRNPHMC(1e-6, 1, friction=0.0)
    theta = np.ones((CHAINS, 2))
    state = still.step(generator(3), still.init(generator(0), theta), target)
    assert gaussian_z(state.momentum, np.zeros(2), bent(np.ones(2)).g) < Z_MOST


@pytest.mark.slow
@pytest.mark.parametrize("cold", [0.0, 1.0])
def test_thermostat_absorbs_gradient_noise_unless_it_is_pulled_back(cold):
    h, variance = 0.05, 20.0
    target, rng = Normal(np.diag([2.0, 0.5]), noise=variance), generator(7)
    mass = FixedMass([0.25, 0.25])  # noise of covariance V = 5 M
    sampler = SGNPHMC(h, 10, friction=0.5, thermostat_friction=cold, mass=mass)
    state = sampler.init(rng, rng.standard_normal((2000, 2)))
    sums = []
    for _ in range(120):
        state = sampler.step(rng, state, target)
        theta, r, q = state.theta, state.momentum, state.thermostat
        sums.append([*(theta**2).mean(0) @ target.precision, (r**2).mean() / 4, q.mean()])
    first, second, heat, pull = np.mean(sums[60:], 0)
    np.testing.assert_allclose(heat - 1, cold / 2 * pull, atol=0.01)
    if not cold:
        np.testing.assert_allclose([first, second], 1, atol=0.1)
        np.testing.assert_allclose(pull / 2, h * 5 / 2, atol=0.02)


def cone(theta):
    """Return the metric 1 + theta^2 / 2 of each coordinate."""
    slope = theta[..., :, None] * np.eye(2, dtype=theta.dtype)
    return Diagonal(1 + theta**2 / 2, slope)


HALF = Curved(np.diag([2.0, 0.5]), cone, positive=True)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", [SGNPHMC(0.05, 8), SGRNPHMC(0.05, 8)])
def test_mirror_turns_the_momentum(sampler, monkeypatch):
    assert ideal_check(sampler, HALF)[0] < Z_MOST
    reflect = sgnphmc.reflect
    monkeypatch.setattr(sgnphmc, "reflect", lambda theta, target, p: reflect(theta, target))
    assert ideal_check(sampler, HALF)[0] > Z_MOST


def test_mass_of_q_learns_from_q_as_m_does_from_momenta():
    """The bath is `MassEM` of the path of q, in units of the Q at the start."""
    target = LinearGaussian(np.diag([1.0, 3.0]), np.ones(2), 0.1)
    learner = MassEM(samples=20, freeze=60)
    sampler = SGNPHMC(0.2, leaps=2, inertia=2.0, bath=learner)
    state = sampler.init(generator(0), np.full((3, 2), 2.0))
    twin, masses = learner.init(np.zeros((3, 1))), []
    for _ in range(80):
        rng = generator(4, state.step)
        state = sampler.step(rng, state, target)
        # Offsets of subsamples do not enter an M step.
        twin = learner.update(generator(5), twin, state.thermostat, state.thermostat / 2)
        masses.append(state.mass.bath.inverse.copy())
        np.testing.assert_allclose(state.mass.bath.inverse, twin.inverse, rtol=1e-12)
    assert (masses[19] != 1).all()
    np.testing.assert_array_equal(masses[-1], masses[59])


def test_learned_q_is_the_inertia_of_the_next_step():
    """A step with a bath of M = m is that of the sampler whose inertia is m times as large."""
    target = LinearGaussian(np.diag([1.0, 3.0]), np.ones(2), 0.1)
    one = SGNPHMC(0.2, inertia=1.5, thermostat_friction=0.3, bath=FixedMass(np.array([[0.25]])))
    two = SGNPHMC(0.2, inertia=6.0, thermostat_friction=0.3)
    theta = np.full((3, 2), 0.5)
    states = [
        each.step(generator(1), each.init(generator(0), theta), target) for each in (one, two)
    ]
    np.testing.assert_allclose(states[0].theta, states[1].theta, rtol=1e-12)
    np.testing.assert_allclose(states[0].thermostat, states[1].thermostat, rtol=1e-12)
    assert states[1].mass == UnitMass().init(theta)  # the state's form, as it is in checkpoints


@pytest.mark.slow
def test_q_learns_nothing_in_equilibrium():
    """Q / D wanders around its start, whatever that is: it is no property of the posterior."""
    target = LinearGaussian(np.eye(2), np.ones(2), 1.0)
    for inertia in (0.5, 5.0):
        sampler = SGNPHMC(0.2, leaps=5, inertia=inertia, bath=MassEM(samples=200, freeze=600))
        start = target.exact(generator(0), 400)
        *_, state = run(target, sampler, steps=600, seed=1, start=start)
        assert np.median(state.mass.bath.inverse) == pytest.approx(1, abs=0.15)
