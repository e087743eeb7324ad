"""Metrics: products against the matrix written out, derivatives against differences."""

import numpy as np
import pytest

from alphamf.inference.metric import Dense, Diagonal
from alphamf.inference.random import generator
from tests.support.differences import central

SIZE = 3


def base(theta):
    """Return a matrix (*chains, D, D) of full rank that depends on every coordinate of theta."""
    weights = np.random.default_rng(0).standard_normal((SIZE, SIZE, SIZE))
    return 2 * np.eye(SIZE) + np.einsum("...k,kij->...ij", np.sin(theta), weights)


def base_slope(theta):
    weights = np.random.default_rng(0).standard_normal((SIZE, SIZE, SIZE))
    return np.cos(theta)[..., None, None] * weights


def dense(theta):
    """G = A A' + I of A = base(theta), with its derivatives."""
    a, slope = base(theta), base_slope(theta)
    half = slope @ np.swapaxes(a, -1, -2)[..., None, :, :]
    return Dense(a @ np.swapaxes(a, -1, -2) + np.eye(SIZE), half + np.swapaxes(half, -1, -2))


def positive(theta):
    """g_i = 2 + sin(sum_k (i + k + 1) theta_k): every g_i depends on every coordinate."""
    steps = 1.0 + np.add.outer(np.arange(SIZE), np.arange(SIZE))  # (k, i)
    phase = theta @ steps
    return Diagonal(2 + np.sin(phase), np.cos(phase)[..., None, :] * steps)


def matrix(metric):
    """Write the metric out as (*chains, D, D)."""
    return metric.g if isinstance(metric, Dense) else metric.g[..., None] * np.eye(SIZE)


def vectors(chains, seed=1):
    rng = generator(seed)
    return rng.standard_normal((*chains, SIZE)), rng.standard_normal((*chains, SIZE))


@pytest.mark.parametrize("make", [dense, positive])
@pytest.mark.parametrize("chains", [(), (4,), (2, 3)])
def test_products_are_those_of_the_matrix(make, chains):
    theta, v = vectors(chains)
    metric = make(theta)
    g = matrix(metric)
    np.testing.assert_allclose(metric.apply(v), np.einsum("...ij,...j->...i", g, v), rtol=1e-10)
    np.testing.assert_allclose(
        metric.solve(v), np.einsum("...ij,...j->...i", np.linalg.inv(g), v), rtol=1e-10
    )
    np.testing.assert_allclose(metric.log_det(), np.log(np.linalg.det(g)), rtol=1e-10)
    assert metric.log_det().shape == chains


@pytest.mark.parametrize("make", [dense, positive])
@pytest.mark.parametrize("chains", [(), (4,)])
def test_roots_are_roots_of_the_covariances(make, chains):
    theta, _ = vectors(chains)
    metric = make(theta)
    g = matrix(metric)
    # The images of the unit vectors are the columns of S; N(0, S S') is what it draws from.
    unit = [np.broadcast_to(e, theta.shape) for e in np.eye(SIZE)]
    root = np.stack([metric.root(e) for e in unit], -1)
    inverse = np.stack([metric.inverse_root(e) for e in unit], -1)
    np.testing.assert_allclose(root @ np.swapaxes(root, -1, -2), g, rtol=1e-10, atol=1e-12)
    covariance = inverse @ np.swapaxes(inverse, -1, -2)
    np.testing.assert_allclose(covariance, np.linalg.inv(g), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("make", [dense, positive])
@pytest.mark.parametrize("chains", [(), (4,), (2, 3)])
def test_divergence_is_that_of_the_inverse_by_differences(make, chains):
    theta, _ = vectors(chains)
    slope = central(lambda t: np.linalg.inv(matrix(make(t))), theta)
    expected = np.einsum("...ijj->...i", slope)
    result = make(theta).divergence()
    assert result.shape == theta.shape
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-8)
    # Neither sign nor index may be swapped unseen.
    assert np.abs(expected).min() > 1e-3
    assert np.abs(expected - np.einsum("...jji->...i", slope)).max() > 0.1


@pytest.mark.parametrize("make", [dense, positive])
@pytest.mark.parametrize("chains", [(), (4,), (2, 3)])
def test_force_is_the_derivative_of_the_kinetic_energy(make, chains):
    theta, p = vectors(chains)

    def kinetic(t):
        metric = make(t)
        return 0.5 * (p * metric.solve(p)).sum(-1) + 0.5 * metric.log_det()

    expected = central(kinetic, theta)
    result = make(theta).force(p)
    assert result.shape == theta.shape
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("make", [dense, positive])
def test_a_constant_metric_shared_by_chains_has_no_slope(make):
    theta, v = vectors((4,))
    shared = make(theta[0])._replace(slope=None)
    assert not np.any(shared.divergence())
    assert not np.any(shared.force(v))
    each = make(np.broadcast_to(theta[0], theta.shape))
    for name in ("apply", "solve", "root", "inverse_root"):
        np.testing.assert_allclose(getattr(shared, name)(v), getattr(each, name)(v), rtol=1e-10)
    if make is dense:
        assert shared.diagonal().slope is None


@pytest.mark.parametrize("make", [dense, positive])
def test_float32_stays_float32(make):
    theta, v = (x.astype(np.float32) for x in vectors((4,)))
    exact = make(theta)
    metric = type(exact)(*(part.astype(np.float32) for part in exact))
    for name in ("apply", "solve", "root", "inverse_root", "force"):
        assert getattr(metric, name)(v).dtype == np.float32
    assert metric.divergence().dtype == metric.log_det().dtype == np.float32
