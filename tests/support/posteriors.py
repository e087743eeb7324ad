"""Posteriors with known laws, on which samplers are tested, and how far draws are from a law."""

import math

import numpy as np
from scipy import stats

from alphamf.inference.checks import CHAINS, whiten
from alphamf.inference.metric import Dense, Diagonal
from alphamf.inference.protocols import Parts
from alphamf.inference.random import generator
from alphamf.inference.targets.gaussian import LinearGaussian
from alphamf.tools.arrays import dot


def plane(batch=None, dtype=np.float64):
    """Return a correlated posterior in two dimensions."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((30, 2)) @ np.array([[1.0, 0.8], [0.0, 0.4]])
    x = a @ np.ones(2) + rng.standard_normal(30)
    return LinearGaussian(a.astype(dtype), x.astype(dtype), 1.0, batch=batch)


class OneGamma:
    """Gamma(shape, rate): a positive posterior with a known law."""

    positive = True
    size = 1

    def __init__(self, shape: float, rate: float) -> None:
        self.shape, self.rate = shape, rate
        self.latents: dict = {}

    def draw(self, rng, theta):
        return self

    def parts(self, theta):
        """Return parts of which SGRLD makes the exact metric, theta / rate."""
        shape = np.full(1, self.shape, theta.dtype)
        return Parts(np.full_like(theta, self.rate), np.zeros_like(theta), shape, np.ones(1))

    def grad(self, theta):
        return (1 - self.shape) / theta + self.rate

    def sample(self, n):
        return generator(0, 9).standard_gamma(self.shape, (n, 1)) / self.rate


class HalfNormal(OneGamma):
    """exp(-precision x^2 / 2) on x > 0, with a constant metric."""

    def __init__(self, precision: float, metric: float = 1.0) -> None:
        self.precision, self.constant = precision, metric
        self.latents = {}

    def parts(self, theta):
        return Parts(self.precision * theta, np.zeros_like(theta), np.ones(1), np.ones(1))

    def grad(self, theta):
        return self.precision * theta

    def metric(self, theta):
        return Diagonal(np.full(1, self.constant))

    def sample(self, n):
        return np.abs(generator(0, 9).standard_normal((n, 1))) / math.sqrt(self.precision)


MIXED = np.array([[1.0, 0.9], [0.9, 2.0]])
"""An inverse mass with which mirroring is not symmetric."""


def space(batch=None, dtype=np.float64):
    """Return a correlated posterior in three dimensions, of condition 16."""
    rng = np.random.default_rng(2)
    a = rng.standard_normal((60, 3)) @ np.array([[1.0, 0.7, 0.2], [0.0, 0.5, 0.3], [0.0, 0.0, 0.4]])
    x = a @ np.ones(3) + rng.standard_normal(60)
    return LinearGaussian(a.astype(dtype), x.astype(dtype), 1.0, batch=batch)


class Quartic:
    """U = |theta|^4 / 4 in the plane."""

    positive = False
    size = 2

    def __init__(self) -> None:
        self.latents: dict = {}

    def start(self, rng, chains=(), dtype=np.float64):
        # |theta|^4 / 2 is chi-square with one degree of freedom.
        radius = (2 * rng.standard_normal(chains) ** 2) ** 0.25
        angle = 2 * math.pi * rng.random(chains)
        return np.stack([radius * np.cos(angle), radius * np.sin(angle)], -1).astype(dtype)

    def exact(self, rng, count):
        return self.start(rng, (count,))

    def draw(self, rng, theta):
        return self

    def grad(self, theta):
        return theta * dot(theta, theta)

    def value(self, theta):
        return 0.25 * dot(theta, theta)[..., 0] ** 2

    def p_value(self, theta):
        theta = np.clip(theta.astype(np.float64), -1e6, 1e6)  # a twin accepts what diverges
        fourth = (theta**2).sum(-1) ** 2 / 2
        angle = np.arctan2(theta[:, 1], theta[:, 0]) / (2 * math.pi) + 0.5
        return min(
            stats.kstest(fourth, stats.chi2(1).cdf).pvalue, stats.kstest(angle, "uniform").pvalue
        )


class Curved(Quartic):
    """The same law with a dense metric I + theta theta', unrelated to it."""

    def metric(self, theta):
        eye = np.eye(2, dtype=theta.dtype)
        slope = eye[:, :, None] * theta[..., None, None, :]  # delta_ki theta_j
        return Dense(
            eye + theta[..., :, None] * theta[..., None, :], slope + np.swapaxes(slope, -1, -2)
        )


class Crossed(Quartic):
    """The same law with a diagonal metric, each entry a function of the other coordinate."""

    def metric(self, theta):
        other = theta[..., ::-1]
        slope = np.zeros((*theta.shape, 2), theta.dtype)
        slope[..., 0, 1], slope[..., 1, 0] = theta[..., 0], theta[..., 1]
        return Diagonal(1 + 0.5 * other * other, slope)


class Orthant:
    """Exp(1) times Gamma(3, 1): a positive posterior whose density does not vanish at the wall."""

    positive = True
    size = 2

    def __init__(self) -> None:
        self.latents: dict = {}

    def start(self, rng, chains=(), dtype=np.float64):
        draws = rng.standard_exponential(chains), rng.standard_gamma(3.0, chains)
        return np.stack(draws, -1).astype(dtype)

    def exact(self, rng, count):
        return self.start(rng, (count,))

    def draw(self, rng, theta):
        return self

    def grad(self, theta):
        return 1 - np.array([0, 2], theta.dtype) / theta

    def value(self, theta):
        return theta.sum(-1) - 2 * np.log(theta[..., 1])

    def p_value(self, theta):
        first = stats.kstest(theta[:, 0], "expon").pvalue
        second = stats.kstest(theta[:, 1], stats.gamma(3).cdf).pvalue
        ranks = theta.argsort(0).argsort(0)
        return min(first, second, stats.pearsonr(ranks[:, 0], ranks[:, 1]).pvalue)


class CurvedOrthant(Orthant):
    """The same law with the dense metric of `Curved`."""

    metric = Curved.metric


def normal_wishart_draws(target, rng, chains=()):
    n, dtype = len(target.x), target.x.dtype
    tau = rng.standard_gamma(n / 2, chains, dtype=dtype) * (2 / (1 + target.scatter))
    tau = np.asarray(tau, dtype=dtype)
    mu = rng.standard_normal(chains, dtype=dtype) / np.sqrt(n * tau) + target.centre
    return np.stack([mu, np.log(tau)], -1)


def step_many(target, sampler, theta, *, steps=1, seed=0):
    rng = generator(seed, 1)
    state = sampler.init(rng, theta)
    for _ in range(steps):
        state = sampler.step(rng, state, target)
    return state.theta


def gaussian_draws(mean, covariance, *, n=CHAINS, seed=0, dtype=np.float64):
    z = generator(seed, 0).standard_normal((n, len(covariance)))
    return (mean + z @ np.linalg.cholesky(covariance).T).astype(dtype)


def gaussian_z(sample, mean, covariance):
    """Return the largest |z| among the whitened means and second moments of draws (n, D)."""
    white = whiten(sample, mean, covariance)
    n, size = white.shape
    of_means = white.mean(0) * np.sqrt(n)
    eye = np.eye(size)
    of_moments = (white.T @ white / n - eye) * np.sqrt(n / (1 + eye))
    return float(max(np.abs(of_means).max(), np.abs(of_moments).max()))


def gaussian_p(sample, mean, covariance):
    """Return the least Kolmogorov-Smirnov p-value of the whitened coordinates of draws (n, D)."""
    return float(
        min(stats.kstest(row, "norm").pvalue for row in whiten(sample, mean, covariance).T)
    )
