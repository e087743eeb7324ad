"""Statistics of the difference between a sampler's law and the law that it should have.

A test fails if a p-value is below `P_LEAST` or a |z| above `Z_MOST`, at a fixed seed and without a
second try. For a correct sampler about one such number in ten thousand is that extreme.
"""

from typing import Any

import numpy as np

from alphamf.inference.checks import CHAINS, whiten
from alphamf.inference.protocols import Sampler, Target
from alphamf.inference.random import generator
from alphamf.tools.arrays import Array


def step_many(
    target: Target[Any], sampler: Sampler[Any], theta: Array, *, steps: int = 1, seed: int = 0
) -> Array:
    """Return the positions of chains `steps` steps after theta; both have the shape (n, D)."""
    rng = generator(seed, 1)
    state = sampler.init(rng, theta)
    for _ in range(steps):
        state = sampler.step(rng, state, target)
    return state.theta


def discretised(drift: Array, noise: Array) -> Array:
    """Return the stationary covariance of x' = drift x + N(0, noise); all have shape (D, D).

    For SGLD on a Gaussian, `drift` is I - h precision and `noise` is 2 h I.
    """
    from scipy.linalg import solve_discrete_lyapunov

    return solve_discrete_lyapunov(drift, noise)


def gaussian_draws(
    mean: Array, covariance: Array, *, n: int = CHAINS, seed: int = 0, dtype: Any = np.float64
) -> Array:
    """Return n exact draws from N(mean, covariance), shape (n, D)."""
    z = generator(seed, 0).standard_normal((n, len(covariance)))
    return (mean + z @ np.linalg.cholesky(covariance).T).astype(dtype)


def gaussian_z(sample: Array, mean: Array, covariance: Array) -> float:
    """Return the largest |z| among the whitened means and second moments of draws (n, D)."""
    white = whiten(sample, mean, covariance)
    n, size = white.shape
    of_means = white.mean(0) * np.sqrt(n)
    eye = np.eye(size)
    of_moments = (white.T @ white / n - eye) * np.sqrt(n / (1 + eye))
    return float(max(np.abs(of_means).max(), np.abs(of_moments).max()))


def gaussian_p(sample: Array, mean: Array, covariance: Array) -> float:
    """Return the least Kolmogorov-Smirnov p-value of the whitened coordinates of draws (n, D)."""
    from scipy.stats import kstest

    return float(min(kstest(row, "norm").pvalue for row in whiten(sample, mean, covariance).T))
