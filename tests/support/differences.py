"""Derivatives by differences, and means of minibatches."""

import numpy as np

from alphamf.inference.random import generator


def central(function, theta, step=1e-5):
    """Return derivatives along each coordinate of theta, on a new last axis."""
    return np.stack(
        [
            (function(theta + step * e) - function(theta - step * e)) / (2 * step)
            for e in np.eye(theta.shape[-1])
        ],
        -1,
    )


def unbiased_z(target, whole, theta, chains=100_000):
    """Return the largest |z| of minibatches' means against the potential of all data.

    Values are compared by differences, as the one of all data may drop a constant.
    """
    there = theta + 0.3
    many, others = np.tile(theta, (chains, 1)), np.tile(there, (chains, 1))
    potential = target.draw(generator(3), many)
    pairs = [
        (potential.grad(many), whole.grad(theta)),
        (potential.value(many) - potential.value(others), whole.value(theta) - whole.value(there)),
        (potential.hessian_diagonal(many), whole.hessian_diagonal(theta)),
    ]
    return max(
        np.abs((batch.mean(0) - full) / np.maximum(batch.std(0), 1e-9)).max() * chains**0.5
        for batch, full in pairs
    )
