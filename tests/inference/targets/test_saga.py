"""SAGA: its formula step by step, unbiased gradients, the law of SGLD on it, and checkpoints."""

import numpy as np
import pytest

from alphamf.errors import AlphaMFError
from alphamf.inference import SGLD, DensityTarget
from alphamf.inference.checks import Z_MOST
from alphamf.inference.random import draw_rows, generator
from alphamf.inference.targets.control_variates import SAGA
from alphamf.inference.targets.gaussian import LinearGaussian
from tests.support.states import check_resume

RNG = np.random.default_rng(4)
A = RNG.standard_normal((30, 2))
X = A @ [1.0, -1.0] + RNG.standard_normal(30)


def linear(batch, a=A, x=X):
    return DensityTarget(
        lambda theta, a, x: (x - a @ theta) @ a,
        np.zeros(2),
        data=(a, x),
        batch=batch,
        prior=lambda theta: -theta,
    )


def test_is_algorithm_1_of_the_paper():
    target, rng, twin = SAGA(linear(4)), generator(1), generator(1)
    thetas = RNG.standard_normal((5, 1, 2))
    point = lambda i, theta: -(X[i] - A[i] @ theta) * A[i]  # noqa: E731
    alpha = np.array([point(i, thetas[0, 0]) for i in range(30)])
    for theta in thetas:
        found = target.draw(rng, theta).grad(theta)[0]
        chosen = draw_rows(twin, 30, (1, 4))[0]
        new = np.array([point(i, theta[0]) for i in chosen])
        expected = theta[0] + 30 / 4 * (new - alpha[chosen]).sum(0) + alpha.sum(0)
        np.testing.assert_allclose(found, expected, rtol=1e-10)
        alpha[chosen] = new
        np.testing.assert_allclose(target.latents["table"][0], alpha, rtol=1e-12)
        np.testing.assert_allclose(target.latents["total"][0], alpha.sum(0), rtol=1e-9)


def test_a_point_that_is_drawn_twice_counts_once():
    target, rng = SAGA(linear(60)), generator(2)
    for theta in RNG.standard_normal((4, 3, 2)):
        target.draw(rng, theta)
        table = target.latents["table"]
        np.testing.assert_allclose(target.latents["total"], table.sum(-2), rtol=1e-9)


def test_gradients_are_unbiased_also_elsewhere_on_the_minibatch():
    n = 2000
    target = SAGA(linear(3))
    target.draw(generator(3), np.full((n, 2), 0.5))
    theta, other = np.full((n, 2), 0.8), np.full((n, 2), 1.1)
    potential = target.draw(generator(4), theta)
    known = LinearGaussian(A, X, 1.0).draw(None, theta)
    for place in (theta, other):
        found = potential.grad(place)
        z = (found - known.grad(place)).mean(0) / (found.std(0) / np.sqrt(n))
        assert np.abs(z).max() < Z_MOST
    again = SAGA(linear(3))
    again.fill(np.full((n, 2), 0.5))
    again.draw(generator(3), np.full((n, 2), 0.5))
    _, gradient = again.draw_gradient(generator(4), theta)
    np.testing.assert_allclose(gradient, potential.grad(theta), rtol=1e-9)


@pytest.mark.parametrize("chains", [(), (2,)])
def test_resumes_bit_for_bit(chains, tmp_path):
    check_resume(lambda: SAGA(linear(3)), SGLD(1e-3), chains, tmp_path / "run.npz")


@pytest.mark.parametrize("target", [LinearGaussian(A, X, 1.0, batch=3), linear(None)])
def test_refuses_other_targets(target):
    with pytest.raises(AlphaMFError, match="SAGA needs a DensityTarget with minibatches"):
        SAGA(target)
