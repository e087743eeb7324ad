"""Tests of a sampler's law: exact draws, one step, and statistics of how far the law moved."""

from __future__ import annotations

import numpy as np

CHAINS = 20_000
"""Chains of a one-step test: enough to see four per cent of a wrong variance."""

P_LEAST = 1e-4
"""A statistical test fails below this p-value; seeds are fixed and nothing is retried."""

Z_MOST = 4.0
"""A statistical test fails above this |z|."""


def step_many(target, sampler, theta, *, steps=1, seed=0):
    """Return the positions of chains, shape (n, D), some steps after theta."""
    from alphamf.inference.random import generator

    rng = generator(seed, 1)
    state = sampler.init(rng, theta)
    for _ in range(steps):
        state = sampler.step(rng, state, target)
    return state.theta


def discretised(drift, noise):
    """Return the stationary covariance of x' = drift x + N(0, noise)."""
    from scipy.linalg import solve_discrete_lyapunov

    return solve_discrete_lyapunov(drift, noise)


def gaussian_draws(mean, covariance, *, n=CHAINS, seed=0, dtype=np.float64):
    """Return n exact draws from N(mean, covariance), shape (n, D)."""
    from alphamf.inference.random import generator

    z = generator(seed, 0).standard_normal((n, len(covariance)))
    return (mean + z @ np.linalg.cholesky(covariance).T).astype(dtype)


class Quadrant:
    """A Gaussian on the positive quadrant, of correlation -.8: its density is large at the wall."""

    positive = True
    size = 2
    latents: dict = {}  # noqa: RUF012
    precision = np.array([[1.0, 0.8], [0.8, 1.0]])

    def draw(self, rng, theta):
        return self

    def grad(self, theta):
        return theta @ self.precision

    def parts(self, theta):
        from alphamf.inference.protocols import Parts

        return Parts(theta @ self.precision, 0 * theta, np.ones(2), np.ones(2))

    def metric(self, theta):
        from alphamf.inference.metric import Dense

        return Dense(self.precision)

    def sample(self, n):
        draws = gaussian_draws(np.zeros(2), np.linalg.inv(self.precision), n=15 * n)
        return draws[(draws > 0).all(1)][:n]


def whiten(sample, mean, covariance):
    """Return draws (n, D) in the coordinates in which the law is standard normal."""
    centred = sample.astype(np.float64) - mean
    return np.linalg.solve(np.linalg.cholesky(covariance).astype(np.float64), centred.T).T


def gaussian_z(sample, mean, covariance):
    """Return the largest |z| among the whitened means and second moments of draws (n, D)."""
    white = whiten(sample, mean, covariance)
    n, size = white.shape
    of_means = white.mean(0) * np.sqrt(n)
    eye = np.eye(size)
    of_moments = (white.T @ white / n - eye) * np.sqrt(n / (1 + eye))
    return max(np.abs(of_means).max(), np.abs(of_moments).max())


def gaussian_p(sample, mean, covariance):
    """Return the least Kolmogorov-Smirnov p-value of the whitened coordinates of draws (n, D)."""
    from scipy.stats import kstest

    return min(kstest(row, "norm").pvalue for row in whiten(sample, mean, covariance).T)
