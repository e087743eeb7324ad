"""Bayesian logistic regression: derivatives, minibatches, exact checks and the shared data sets."""

import numpy as np
import pytest
from scipy import special

from alphamf.errors import AlphaMFError
from alphamf.inference.checks import Z_MOST
from alphamf.inference.random import generator
from alphamf.inference.targets.logistic import LogisticRegression, sigmoid
from tests.support.differences import unbiased_z
from tests.support.twins import Wrong


def model(batch=None, dtype=np.float64, n=30, size=3):
    rng = np.random.default_rng(4)
    a = rng.standard_normal((n, size)) @ np.triu(np.ones((size, size)))
    y = rng.random(n) < special.expit(a @ np.linspace(-1, 1, size))
    return LogisticRegression(a.astype(dtype), y.astype(np.int8), batch=batch)


def test_value_is_minus_the_log_likelihood_and_prior():
    target = model()
    theta = 3 * target.start(generator(2), (5,))
    p = special.expit(theta @ target.features.T)
    likelihood = np.log(np.where(target.labels == 1, p, 1 - p)).sum(-1)
    expected = -likelihood + (theta**2).sum(-1) / 20
    np.testing.assert_allclose(target.draw(generator(0), theta).value(theta), expected, rtol=1e-10)
    np.testing.assert_allclose(target.predict(theta, target.features), p, rtol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_certain_labels_overflow_nothing(dtype):
    target = LogisticRegression(np.array([[1.0], [-1.0]], dtype), np.array([1, 1]))
    theta = np.array([1e4], dtype)
    potential = target.draw(generator(0), theta)
    assert potential.value(theta) == pytest.approx(1e4 + 5e6)
    assert potential.grad(theta)[0] == pytest.approx(1 + 1e3)
    np.testing.assert_array_equal(
        sigmoid(np.array([-1e4, 0, 1e4], dtype)), np.array([0, 0.5, 1], dtype)
    )


def test_the_check_rejects_a_weighted_prior():
    target = model(batch=4)
    theta = target.start(generator(2))
    whole = model().draw(generator(0), theta)
    wrong = Wrong(target, grad=lambda right, t: right.grad(t) + (right.weight - 1) * t)
    assert unbiased_z(wrong, whole, theta) > Z_MOST


def test_minibatch_metric_is_that_of_all_data():
    theta = model().start(generator(5), (2,))
    for field in ("g", "slope"):
        full = getattr(model().draw(generator(0), theta).metric(theta), field)
        batch = getattr(model(batch=4).draw(generator(0), theta).metric(theta), field)
        np.testing.assert_array_equal(full, batch)


def test_refuses_what_does_not_fit():
    a, y = np.ones((4, 2)), np.ones(4)
    with pytest.raises(AlphaMFError, match=r"not \(4, 2\), \(3,\)"):
        LogisticRegression(a, y[:3])
    with pytest.raises(AlphaMFError, match="labels must be 0 or 1"):
        LogisticRegression(a, -y)
    with pytest.raises(AlphaMFError, match="prior_variance must be positive, not 0"):
        LogisticRegression(a, y, prior_variance=0)


@pytest.mark.parametrize(("name", "least"), [("australian_credit", 0.87), ("statlog_heart", 0.84)])
def test_newton_by_the_metric_finds_the_mode_of_real_data(shared, name, least):
    path = shared / "datasets" / "uci" / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"no data set at {path}")
    with np.load(path) as file:
        x, y = file["X"], file["y"]
    x = np.column_stack([np.ones(len(x)), (x - x.mean(0)) / x.std(0)])
    target = LogisticRegression(x, y)
    mode = np.zeros(target.size)
    for _ in range(20):
        potential = target.draw(generator(0), mode)
        mode = mode - potential.metric(mode).solve(potential.grad(mode))  # it is the Hessian here
    np.testing.assert_allclose(target.draw(generator(0), mode).grad(mode), 0, atol=1e-8)
    assert ((target.predict(mode, x) > 0.5) == y).mean() >= least
