"""RSGLD: its discretised law on Gaussians, and known laws under metrics that vary."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from alphamf.errors import AlphaMFError
from alphamf.inference.laws import (
    CHAINS,
    P_LEAST,
    Z_MOST,
    discretised,
    gaussian_draws,
    gaussian_p,
    gaussian_z,
    step_many,
)
from alphamf.inference.metric import Dense, Diagonal
from alphamf.inference.random import generator
from alphamf.inference.samplers import langevin
from alphamf.inference.samplers.langevin import RSGLD
from tests.support.posteriors import Quadrant, plane
from tests.support.twins import HalfNoise, Wrong, twin, wrong_metric

FEW = 20_000
"""Chains of a test that makes many steps."""


class Curved:
    """A standard Gaussian x in curved coordinates: theta = (x1, x2 + b x1^2), G = (J J')^-1."""

    positive = False
    size = 2
    latents: dict = {}  # noqa: RUF012

    def __init__(self, b: float = 0.7) -> None:
        self.b = b

    def draw(self, rng, theta):
        return self

    def grad(self, theta):
        one, rest = theta[..., 0], theta[..., 1] - self.b * theta[..., 0] ** 2
        return np.stack([one - 2 * self.b * one * rest, rest], -1)

    def metric(self, theta):
        bend = 2 * self.b * theta[..., 0]
        g = np.empty((*theta.shape, 2), theta.dtype)
        g[..., 0, 0], g[..., 1, 1] = 1 + bend**2, 1
        g[..., 0, 1] = g[..., 1, 0] = -bend
        slope = np.zeros((*theta.shape, 2, 2), theta.dtype)
        slope[..., 0, 0, 0] = 4 * self.b * bend
        slope[..., 0, 0, 1] = slope[..., 0, 1, 0] = -2 * self.b
        return Dense(g, slope)

    def curve(self, x):
        return np.stack([x[:, 0], x[:, 1] + self.b * x[:, 0] ** 2], -1)

    def straight(self, theta):
        return np.stack([theta[:, 0], theta[:, 1] - self.b * theta[:, 0] ** 2], -1)


class GammaLaw:
    """Gamma(shape, rate) with the Fisher metric of its logarithm, G = shape / theta^2."""

    positive = True
    size = 1
    latents: dict = {}  # noqa: RUF012

    def __init__(self, shape: float, rate: float) -> None:
        self.shape, self.rate = shape, rate

    def draw(self, rng, theta):
        return self

    def grad(self, theta):
        return (1 - self.shape) / theta + self.rate

    def metric(self, theta):
        return Diagonal(self.shape / theta**2, (-2 * self.shape / theta**3)[..., None])


class HalfNormal(GammaLaw):
    """exp(-precision x^2 / 2) on x > 0, with a constant metric."""

    def __init__(self, precision: float, metric: float) -> None:
        self.precision, self.constant = precision, metric

    def grad(self, theta):
        return self.precision * theta

    def metric(self, theta):
        return Diagonal(np.full(1, self.constant))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("diagonal", [False, True])
def test_leaves_its_discretised_law(dtype, diagonal):
    target, h = plane(dtype=dtype), 0.5
    precision = target.precision.astype(float)
    inverse = np.diag(1 / precision.diagonal()) if diagonal else np.linalg.inv(precision)
    law = (
        target.mean.astype(float),
        discretised(np.eye(2) - h * inverse @ precision, 2 * h * inverse),
    )
    if not diagonal:
        np.testing.assert_allclose(law[1], inverse / (1 - h / 2), rtol=1e-10)
    sampler, start = RSGLD(h, diagonal=diagonal), gaussian_draws(*law, dtype=dtype)
    theta = step_many(target, sampler, start)
    assert theta.dtype == dtype
    assert gaussian_z(theta, *law) < Z_MOST
    assert gaussian_p(theta, *law) > P_LEAST
    # At so large a step the posterior itself is another law.
    assert gaussian_z(theta, target.mean, target.covariance) > 5 * Z_MOST

    assert gaussian_z(step_many(target, twin(sampler, HalfNoise), start), *law) > Z_MOST

    def swapped(potential, theta):
        return wrong_metric(potential.metric(theta), inverse_root=lambda right, z: right.root(z))

    assert gaussian_z(step_many(Wrong(target, metric=swapped), sampler, start), *law) > Z_MOST


def test_minibatches_add_their_gradients_variance():
    target, h = plane(batch=10), 0.3
    # Several steps from the posterior: the noise of the gradients, seen through G^-1, widens it.
    start = gaussian_draws(target.mean, target.covariance, n=FEW)
    theta = step_many(target, RSGLD(h), start, steps=10)
    full = step_many(plane(), RSGLD(h), start, steps=10)
    assert gaussian_z(full, target.mean, target.covariance / (1 - h / 2)) < Z_MOST
    assert np.linalg.det(np.cov(theta.T)) > 1.2 * np.linalg.det(np.cov(full.T))
    white = (theta - target.mean) @ np.linalg.cholesky(target.precision)
    assert np.abs(white.mean(0)).max() < Z_MOST * white.std(0).max() / math.sqrt(FEW)


@pytest.mark.slow
@pytest.mark.parametrize("diagonal", [False, True])
def test_keeps_a_curved_gaussian_only_with_gamma(diagonal):
    target, h, steps = Curved(), 2e-3, 50
    start = gaussian_draws(np.zeros(2), np.eye(2), n=FEW // 2)

    def z(sampler, target=target):
        theta = step_many(target, sampler, target.curve(start), steps=steps)
        white = target.straight(theta)
        return gaussian_z(white, np.zeros(2), np.eye(2)), gaussian_p(white, np.zeros(2), np.eye(2))

    z_most, p_least = z(RSGLD(h, diagonal=diagonal))
    assert z_most < Z_MOST
    assert p_least > P_LEAST
    assert z(RSGLD(h, diagonal=diagonal, correction=False))[0] > Z_MOST

    def minus(potential, theta):
        return wrong_metric(potential.metric(theta), divergence=lambda right: -right.divergence())

    assert z(RSGLD(h, diagonal=diagonal), Wrong(target, metric=minus))[0] > Z_MOST


def test_keeps_a_gamma_law_under_a_diagonal_metric_only_with_gamma():
    law, target, h, steps = stats.gamma(3.0, scale=0.5), GammaLaw(3.0, 2.0), 2e-3, 50
    start = generator(5).standard_gamma(3.0, (FEW, 1)) * 0.5

    def p_value(sampler):
        theta = step_many(target, sampler, start, steps=steps)
        assert (theta >= 0).all()
        return stats.kstest(theta[:, 0], law.cdf).pvalue

    assert p_value(RSGLD(h)) > P_LEAST
    assert p_value(RSGLD(h, correction=False)) < P_LEAST


@pytest.mark.parametrize("diagonal", [False, True])
def test_bias_is_of_first_order_in_the_step(diagonal):
    # From the posterior, one unit of time at steps h and h / 2; the chains' noise is small enough
    # to see both biases of E x2^2 and their ratio.
    target = Curved(0.5)
    start = target.curve(gaussian_draws(np.zeros(2), np.eye(2)))

    def bias(h):
        theta = step_many(target, RSGLD(h, diagonal=diagonal), start, steps=round(0.8 / h))
        square = target.straight(theta)[:, 1] ** 2
        return square.mean() - 1, square.std() / math.sqrt(CHAINS)

    (coarse, error), (fine, other) = bias(0.2), bias(0.1)
    assert coarse > 10 * error
    assert abs(coarse - 2 * fine) < Z_MOST * math.hypot(error, 2 * other) + coarse / 3


def test_mirror_folds_the_law():
    precision, constant, h = 2.0, 4.0, 0.6
    scale = 1 / math.sqrt(precision * (1 - h * precision / (2 * constant)))
    start = scale * np.abs(generator(3).standard_normal((CHAINS, 1)))
    target = HalfNormal(precision, constant)

    def p_value():
        theta = step_many(target, RSGLD(h), start)
        return stats.kstest(theta[:, 0], stats.halfnorm(scale=scale).cdf).pvalue

    assert p_value() > P_LEAST
    target.positive = False
    assert p_value() < P_LEAST


@pytest.mark.slow
def test_mirror_goes_with_the_diagonal_of_a_metric_only(monkeypatch):
    target, h, steps = Quadrant(), 2e-3, 50
    start = target.sample(FEW)
    assert len(start) == FEW

    def z(sampler):
        theta = step_many(target, sampler, start, steps=steps)
        products = theta[:, :, None] * theta[:, None, :]
        change = products - start[:, :, None] * start[:, None, :]
        return np.abs(change.mean(0) / change.std(0)).max() * math.sqrt(FEW)

    assert z(RSGLD(h, diagonal=True)) < Z_MOST
    with pytest.raises(AlphaMFError, match="diagonal must be True if the target is positive"):
        z(RSGLD(h))
    target.positive = False
    keep = langevin.reflect
    monkeypatch.setattr(langevin, "reflect", lambda theta, target: np.abs(keep(theta, target)))
    assert z(RSGLD(h)) > Z_MOST


def test_is_its_formula():
    target = Curved()
    theta, h = generator(1).standard_normal((5, 2)), 0.1
    new = step_many(target, RSGLD(h), theta, seed=6)
    z = generator(6, 1).standard_normal((5, 2))
    for row, expected, draw in zip(theta, new, z, strict=True):
        inverse = np.linalg.inv(target.metric(row).g)
        gamma = np.array([0.0, 2 * target.b])  # of G^-1 = J J', J = [[1, 0], [2 b theta1, 1]]
        root = np.linalg.inv(np.linalg.cholesky(target.metric(row).g)).T
        drift = -inverse @ target.grad(row) + gamma
        np.testing.assert_allclose(
            expected, row + h * drift + math.sqrt(2 * h) * root @ draw, rtol=1e-10
        )


@pytest.mark.parametrize(("along", "right"), [("G", True), ("coordinate", False), ("1 / G", False)])
def test_dense_moves_are_mirrored_along_a_column_of_g(along, right):
    """A normal law on the half plane theta_1 > 0: E theta_2 is 0 under the right mirror only."""
    g = np.array([[1.0, 0.8], [0.8, 1.0]])
    column = {"G": g[0], "coordinate": np.eye(2)[0], "1 / G": np.linalg.inv(g)[0]}[along]
    rng, h, root = generator(0), 0.02, np.linalg.cholesky(g)
    theta = rng.standard_normal((CHAINS, 2))
    theta[:, 0] = np.abs(theta[:, 0])
    for _ in range(100):
        theta = theta - h * theta @ g + np.sqrt(2 * h) * rng.standard_normal(theta.shape) @ root.T
        theta -= np.outer(np.minimum(theta[:, 0], 0), 2 * column / column[0])
    z = theta[:, 1].mean() * np.sqrt(CHAINS) / theta[:, 1].std()
    assert (abs(z) < Z_MOST) == right
    assert abs(z) < Z_MOST or abs(z) > 3 * Z_MOST
