import numpy as np
import pytest

from alphamf.errors import AlphaMFError
from alphamf.inference.random import generator
from alphamf.inference.targets.gaussian import LinearGaussian


def model(batch=None, dtype=np.float64, n=20, size=3):
    rng = np.random.default_rng(4)
    a = rng.standard_normal((n, size)) @ np.triu(np.ones((size, size)))
    x = a @ np.arange(1.0, size + 1) + rng.standard_normal(n)
    return LinearGaussian(a.astype(dtype), x.astype(dtype), 1.5, batch=batch)


def test_posterior_is_that_of_the_joint_gaussian():
    target = model()
    a, x = target.a, target.x
    # theta and x are jointly Gaussian: condition on x.
    gain = a.T @ np.linalg.inv(a @ a.T + 1.5 * np.eye(len(x)))
    np.testing.assert_allclose(target.mean, gain @ x, rtol=1e-9)
    np.testing.assert_allclose(target.covariance, np.eye(3) - gain @ a, rtol=1e-6, atol=1e-9)
    potential = target.draw(generator(0), target.mean)
    np.testing.assert_allclose(potential.grad(target.mean), 0, atol=1e-9)
    metric = potential.metric(target.mean)
    assert metric.slope is None
    np.testing.assert_allclose(metric.g @ target.covariance, np.eye(3), atol=1e-9)


def test_minibatch_of_every_point_in_turn_averages_to_the_full_potential():
    target = model(batch=1)
    full = model().draw(generator(0), target.mean)
    theta = np.array([0.3, -1.0, 2.0])

    class EachPoint:
        def __init__(self):
            self.point = -1

        def random(self, shape):
            self.point += 1
            return np.full(shape, (self.point + 0.5) / len(target.x))

    rng = EachPoint()
    potentials = [target.draw(rng, theta) for _ in target.x]
    np.testing.assert_allclose(
        np.mean([p.grad(theta) for p in potentials], 0), full.grad(theta), rtol=1e-10
    )
    # The values agree up to the constant that the full potential drops.
    values = [np.mean([p.value(t) for p in potentials]) - full.value(t) for t in (theta, 2 * theta)]
    assert values[0] == pytest.approx(values[1])


def test_refuses_what_does_not_fit():
    a, x = np.ones((4, 2)), np.ones(4)
    with pytest.raises(AlphaMFError, match=r"not \(4, 2\), \(3,\)"):
        LinearGaussian(a, x[:3], 1.0)
    with pytest.raises(AlphaMFError, match="variance must be positive, not 0"):
        LinearGaussian(a, x, 0.0)
