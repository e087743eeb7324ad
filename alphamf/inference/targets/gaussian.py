r"""Bayesian linear regression with known noise: a posterior that is Gaussian and known exactly.

.. math:: \theta \sim \mathcal{N}(0, I), \qquad x_n \mid \theta \sim
   \mathcal{N}(a_n^\top \theta, \sigma^2), \quad n = 1, \dots, N.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from alphamf.errors import AlphaMFError
from alphamf.inference.leaps import Regression, regression_of
from alphamf.inference.metric import Dense
from alphamf.inference.random import draw_rows, noise
from alphamf.inference.ranges import POSITIVE, at_least, check_ranges
from alphamf.tools.arrays import Array, namespace


class LinearGaussian:
    r"""Posterior of theta with prior N(0, I), given x_n of the law N(a_n' theta, sigma^2).

    Parameters
    ----------
    a, x
        Regressors, shape (N, D), and observations, shape (N,).
    variance
        sigma^2.
    batch
        Number of data points that a draw reads, chosen with replacement for each chain. None: all
        of them, once each.

    Attributes
    ----------
    precision, covariance, mean
        :math:`\sum_n a_n a_n^\top / \sigma^2 + I` and its inverse, (D, D); posterior mean, (D,).

    Raises
    ------
    AlphaMFError
        The shapes do not fit or are empty, or variance or batch is out of range.

    References
    ----------
    Simsekli et al., ICML 2016, eqs. 2 and 14.

    Examples
    --------
    >>> target = LinearGaussian(np.eye(2), np.array([1.0, 2.0]), 1.0)
    >>> target.mean, target.covariance.diagonal()
    (array([0.5, 1. ]), array([0.5, 0.5]))
    """

    a: Array
    x: Array
    variance: float
    batch: int | None

    positive = False

    def __init__(self, a: Array, x: Array, variance: float, *, batch: int | None = None) -> None:
        if a.ndim != 2 or not a.size or x.shape != a.shape[:1]:
            raise AlphaMFError(
                f"a and x must have shapes (N, D) and (N,), not {a.shape}, {x.shape}"
            )
        xp = namespace(a)
        self.a, self.x, self.variance, self.batch = a, x, variance, batch
        check_ranges(self, variance=POSITIVE, batch=at_least(1))
        self.latents: dict[str, Array] = {}
        self.size: Any = a.shape[1]
        precision = xp.eye(self.size) + a.T.astype(xp.float64) @ a / variance
        covariance = xp.linalg.inv(precision)
        self.linear: Array = (a.T @ x / variance).astype(a.dtype)
        self.mean: Any = (covariance @ (a.T @ x / variance)).astype(a.dtype)
        self.precision: Any = precision.astype(a.dtype)
        self.covariance: Any = covariance.astype(a.dtype)
        self.regression: Regression | None = regression_of(
            a, x, weight=len(x) / variance, prior=1.0, logistic=False
        )

    def start(self, rng: Any, chains: tuple[int, ...] = ()) -> Array:
        return noise(rng, namespace(self.a).empty((*chains, self.size), self.a.dtype))

    def exact(self, rng: Any, count: int) -> Array:
        xp = namespace(self.a)
        root = xp.linalg.cholesky(self.covariance)
        draws: Array = noise(rng, xp.empty((count, self.size), self.a.dtype)) @ root.T
        draws += self.mean
        return draws

    def draw(self, rng: Any, theta: Array) -> FullPotential | BatchPotential:
        if self.batch is None:
            return FullPotential(self)
        chosen = draw_rows(rng, len(self.x), (*theta.shape[:-1], self.batch))
        return BatchPotential(self, self.a.take(chosen, 0), self.x.take(chosen, 0))


class FullPotential(NamedTuple):
    """U of all data, up to a constant, computed from sufficient statistics."""

    target: LinearGaussian

    def grad(self, theta: Array) -> Array:
        gradient: Array = theta @ self.target.precision
        gradient -= self.target.linear
        return gradient

    def value(self, theta: Array) -> Array:
        return ((0.5 * self.grad(theta) - 0.5 * self.target.linear) * theta).sum(-1)

    def metric(self, theta: Array) -> Dense:
        """Return all data's Fisher information plus the prior's precision, equal for all theta."""
        return Dense(self.target.precision)

    def hessian_diagonal(self, theta: Array) -> Array:
        return self.target.precision.diagonal()


class BatchPotential(NamedTuple):
    """U of a minibatch of n points: `a` of shape (*chains, n, D), `x` of shape (*chains, n)."""

    target: LinearGaussian
    a: Array
    x: Array

    @property
    def weight(self) -> Any:
        """Weight of a data point: N / n divided by the variance."""
        return len(self.target.x) / (self.x.shape[-1] * self.target.variance)

    def _residual(self, theta: Array) -> Array:
        return namespace(theta).matmul(self.a, theta[..., None])[..., 0] - self.x

    def grad(self, theta: Array) -> Array:
        residual = self._residual(theta)
        residual *= self.weight
        gradient: Array = namespace(theta).matmul(residual[..., None, :], self.a)[..., 0, :]
        gradient += theta
        return gradient

    def value(self, theta: Array) -> Array:
        residual = self._residual(theta)
        return 0.5 * (self.weight * (residual * residual).sum(-1) + (theta * theta).sum(-1))

    def metric(self, theta: Array) -> Dense:
        """Return all data's Fisher information plus the prior's precision, equal for all theta."""
        return Dense(self.target.precision)

    def hessian_diagonal(self, theta: Array) -> Array:
        return self.weight * (self.a * self.a).sum(-2) + 1
