"""Matrix factorisation of ratings: derivatives, minibatches, dense twins and MovieLens."""

import numpy as np
import pytest

from alphamf.errors import AlphaMFError
from alphamf.inference.checks import Z_MOST
from alphamf.inference.random import generator
from alphamf.inference.targets import bpmf
from alphamf.inference.targets.bpmf import BPMF, BPMFPotential
from tests.support.differences import unbiased_z

SHAPE = (5, 4)
VARIANCES = {"variance_w": 0.5, "variance_h": 2.0, "variance_x": 0.8}


def model(batch=None, dtype=np.float64, rank=3, variances=VARIANCES):
    rng = np.random.default_rng(4)
    users, items = np.divmod(rng.permutation(20)[:12], 4)
    ratings = rng.integers(1, 6, 12).astype(dtype)
    return BPMF(users, items, ratings, shape=SHAPE, rank=rank, offset=3.5, batch=batch, **variances)


def wide(target, rng, chains=()):
    return 10 * target.start(rng, chains)


def test_value_and_gradient_are_those_of_the_dense_matrices(monkeypatch):
    monkeypatch.setattr(bpmf, "CHUNK", 5)
    target = model()
    theta = wide(target, generator(2))
    w, h = target.unpack(theta)
    seen = np.zeros(SHAPE)
    seen[target.users, target.items] = 1
    x = np.zeros(SHAPE)
    x[target.users, target.items] = target.residual + 3.5
    error = seen * (3.5 + w @ h.T - x)
    potential = target.draw(generator(0), theta)
    expected = (error**2).sum() / 1.6 + (w**2).sum() / 1.0 + (h**2).sum() / 4.0
    assert potential.value(theta) == pytest.approx(expected, rel=1e-12)
    gw, gh = target.unpack(potential.grad(theta))
    np.testing.assert_allclose(gw, error @ h / 0.8 + w / 0.5, rtol=1e-10)
    np.testing.assert_allclose(gh, error.T @ w / 0.8 + h / 2.0, rtol=1e-10)
    pairs = np.argwhere(np.ones(SHAPE)).T
    np.testing.assert_allclose(target.predict(theta, *pairs), (3.5 + w @ h.T).ravel(), rtol=1e-10)


def test_given_h_the_law_of_w_is_that_of_linear_regression():
    # U is quadratic in W: its minimum and curvature are the exact Gaussian posterior's.
    target = model()
    theta = wide(target, generator(3))
    w, h = target.unpack(theta)
    potential = target.draw(generator(0), theta)
    for user in range(SHAPE[0]):
        rows = h[target.items[target.users == user]]
        precision = rows.T @ rows / 0.8 + np.eye(3) / 0.5
        mean = np.linalg.solve(precision, rows.T @ target.residual[target.users == user] / 0.8)
        gradient = target.unpack(potential.grad(theta))[0][user]
        np.testing.assert_allclose(gradient, precision @ (w[user] - mean), rtol=1e-9, atol=1e-9)


def test_a_rating_that_is_drawn_twice_counts_twice(monkeypatch):
    target = model(batch=4)
    theta = wide(target, generator(6))
    right = BPMFPotential._scatter

    def once(self, out, entries, users, items, w, h):
        first = np.unique(4 * users + items, return_index=True)[1]
        right(self, out, entries[first], users[first], items[first], w, h)

    monkeypatch.setattr(BPMFPotential, "_scatter", once)
    assert unbiased_z(target, model().draw(generator(0), theta), theta, 1000) > Z_MOST


def test_refuses_what_does_not_fit():
    i, x = np.zeros(3, int), np.ones(3)
    with pytest.raises(AlphaMFError, match=r"one length, not \(3,\), \(2,\), \(3,\)"):
        BPMF(i, i[:2], x, shape=(1, 1), rank=1)
    with pytest.raises(AlphaMFError, match="items must be from 0 to 0, not 1 to 1"):
        BPMF(i, i + 1, x, shape=(1, 1), rank=1)
    with pytest.raises(AlphaMFError, match="variance_h must be positive, not 0"):
        BPMF(i, i, x, shape=(1, 1), rank=1, variance_h=0)
    with pytest.raises(AlphaMFError, match="rank must be at least 1, not 0"):
        BPMF(i, i, x, shape=(1, 1), rank=0)
