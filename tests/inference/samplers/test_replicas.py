"""Replica exchange: the joint law of both chains, with and without noise of the energies."""

from math import inf, sqrt

import numpy as np
import pytest
from scipy import stats

from alphamf.inference import SGLD
from alphamf.inference.chain import run
from alphamf.inference.checks import Z_MOST
from alphamf.inference.random import generator
from alphamf.inference.samplers.replicas import ReplicaExchange
from tests.support.posteriors import gaussian_z

TEMPERATURE = 5.0


class Plane:
    """The standard normal law of the plane, whose energies have normal noise."""

    size, positive = 2, False

    def __init__(self, deviation):
        self.latents, self.deviation = {}, deviation

    def draw(self, rng, theta):
        return Noisy(rng, self.deviation)


class Noisy:
    def __init__(self, rng, deviation):
        self.rng, self.deviation = rng, deviation

    def value(self, theta):
        noise = self.deviation * self.rng.standard_normal(theta.shape[:-1])
        return (theta**2).sum(-1) / 2 + noise

    def grad(self, theta):
        return theta


def after_swaps(deviation, factor, steps=3):
    """Return both chains after steps that only swap, from exact draws of both laws."""
    rng, count = generator(7), 100_000
    sampler = ReplicaExchange(1e-12, TEMPERATURE, factor=factor, memory=1e-9)
    state = sampler.init(rng, rng.standard_normal((count, 2)))
    state = state._replace(
        step=10**9,  # so that the variance stays what it is
        hot=sqrt(TEMPERATURE) * rng.standard_normal((count, 2)),
        variance=np.full(count, 2 * deviation**2),
    )
    target = Plane(deviation)
    for _ in range(steps):
        state = sampler.step(rng, state, target)
    return state


def joint_z(state):
    covariance = np.diag([1.0, 1.0, TEMPERATURE, TEMPERATURE])
    return gaussian_z(np.concatenate([state.theta, state.hot], -1), np.zeros(4), covariance)


def test_swaps_keep_both_laws():
    state = after_swaps(0.0, 1.0)
    assert state.swaps.mean() > 0.5
    assert joint_z(state) < Z_MOST


@pytest.mark.parametrize("deviation", [0.5, 1.5])
def test_noise_of_energies_needs_its_correction(deviation):
    state = after_swaps(deviation, 1.0)
    assert state.swaps.mean() > 0.1
    assert joint_z(state) < Z_MOST
    assert joint_z(after_swaps(deviation, inf)) > Z_MOST


class Hills:
    """A third of the mass on a hill at -3, two thirds at 3."""

    size, positive, latents = 1, False, {}
    means, weights, deviation = np.array([-3.0, 3.0]), np.array([1 / 3, 2 / 3]), 0.8

    def draw(self, rng, theta):
        return self

    def exact(self, rng, count):
        hill = (rng.random(count) < self.weights[1]).astype(int)
        return (self.means[hill] + self.deviation * rng.standard_normal(count))[:, None]

    def parts(self, theta):
        return self.weights * stats.norm.pdf(theta[..., None], self.means, self.deviation)

    def value(self, theta):
        return -np.log(self.parts(theta).sum(-1)[..., 0])

    def grad(self, theta):
        parts = self.parts(theta)
        pull = (theta[..., None] - self.means) / self.deviation**2
        return (parts * pull).sum(-1) / parts.sum(-1)


def test_finds_the_other_hill():
    start = np.full((1000, 1), -3.0)
    found = {}
    for sampler in (ReplicaExchange(0.05, 8.0), SGLD(0.05)):
        *_, state = run(Hills(), sampler, steps=400, seed=0, start=start)
        found[type(sampler)] = (state.theta > 0).mean()
    assert abs(found[ReplicaExchange] - 2 / 3) < 4 * sqrt(2 / 9 / 1000)
    assert found[SGLD] < 0.05


class Told(Plane):
    """A flat law whose differences of energy are told in advance."""

    def __init__(self, differences):
        self.latents, self.left = {}, list(differences)
        self.second = False

    def draw(self, rng, theta):
        return self

    def value(self, theta):
        self.second = not self.second
        return np.full(theta.shape[:-1], self.left.pop(0) if self.second else 0.0)

    def grad(self, theta):
        return np.zeros_like(theta)


def test_variance_is_the_mean_of_all_steps_and_then_forgets_at_its_rate():
    differences = [3.0, 1.0, 0.5, -0.5, 4.0, 1.0, -2.0, 0.0]
    halves = np.square(np.subtract(differences[::2], differences[1::2])) / 2
    sampler, target = ReplicaExchange(1e-9, 2.0, memory=0.4), Told(differences)
    state, expected = sampler.init(None, np.zeros((1, 2))), 0.0
    for weight, half in zip((1.0, 0.5, 0.4, 0.4), halves, strict=True):
        state = sampler.step(generator(0), state, target)
        expected = (1 - weight) * expected + weight * half
        np.testing.assert_allclose(state.variance, expected)
    assert not target.left
