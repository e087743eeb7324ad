r"""Bayesian logistic regression.

.. math:: w \sim \mathcal{N}(0, v I), \qquad
   P(y_n = 1 \mid w) = \pi_n = \frac{1}{1 + e^{-a_n^\top w}}, \quad n = 1, \dots, N.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from alphamf.errors import AlphaMFError
from alphamf.inference.leaps import Regression, regression_of
from alphamf.inference.metric import Dense
from alphamf.inference.random import draw_rows, noise
from alphamf.inference.ranges import POSITIVE, at_least, check_ranges
from alphamf.tools.arrays import Array, namespace


class LogisticRegression:
    r"""Posterior of w with prior N(0, v I), where P(y_n = 1) = pi_n = 1 / (1 + exp(-a_n' w)).

    .. math:: U = \sum_n \left[\log(1 + e^{z_n}) - y_n z_n\right] + \frac{|w|^2}{2v}, \qquad
       z_n = a_n^\top w, \qquad \nabla U = \sum_n (\pi_n - y_n)\, a_n + \frac{w}{v}.

    Parameters
    ----------
    features
        a, shape (N, D), with a constant column if the model has an intercept.
    labels
        y, zeros and ones, shape (N,).
    prior_variance
        v.
    batch
        As in `LinearGaussian`.

    Raises
    ------
    AlphaMFError
        The shapes do not fit or are empty, a label is not 0 or 1, or a number is out of range.

    References
    ----------
    Girolami & Calderhead, JRSS B 73 (2011), section 7; Roychowdhury & Parthasarathy, NIPS 2017,
    section 4.2; Fu, Luo & Zhang, UAI 2016, section 5.2.

    Examples
    --------
    >>> target = LogisticRegression(np.array([[1.0], [-1.0]]), np.array([1.0, 0.0]))
    >>> target.draw(None, np.zeros(1)).grad(np.zeros(1))  # downhill is to the right
    array([-1.])
    """

    features: Array
    labels: Array
    prior_variance: float
    batch: int | None

    positive = False

    def __init__(
        self,
        features: Array,
        labels: Array,
        *,
        prior_variance: float = 10.0,
        batch: int | None = None,
    ) -> None:
        if features.ndim != 2 or not features.size or labels.shape != features.shape[:1]:
            raise AlphaMFError(
                "features and labels must have shapes (N, D) and (N,), "
                f"not {features.shape}, {labels.shape}"
            )
        if not ((labels == 0) | (labels == 1)).all():
            raise AlphaMFError("labels must be 0 or 1")
        self.features, self.labels = features, labels.astype(features.dtype)
        self.prior_variance, self.batch = prior_variance, batch
        check_ranges(self, prior_variance=POSITIVE, batch=at_least(1))
        self.latents: dict[str, Array] = {}
        self.size: Any = features.shape[1]
        self.regression: Regression | None = regression_of(
            features, self.labels, weight=len(labels), prior=1 / prior_variance, logistic=True
        )

    def start(self, rng: Any, chains: tuple[int, ...] = ()) -> Array:
        """Draw w at a tenth of the prior's width, so that few predictions are nearly certain."""
        theta = noise(
            rng, namespace(self.features).empty((*chains, self.size), self.features.dtype)
        )
        theta *= 0.1 * self.prior_variance**0.5
        return theta

    def draw(self, rng: Any, theta: Array) -> LogisticPotential:
        if self.batch is None:
            return LogisticPotential(self, self.features, self.labels)
        chosen = draw_rows(rng, len(self.labels), (*theta.shape[:-1], self.batch))
        return LogisticPotential(self, self.features.take(chosen, 0), self.labels.take(chosen, 0))

    def predict(self, theta: Array, features: Array) -> Array:
        """Return P(y = 1), shape (*chains, n), at features of shape (n, D)."""
        return sigmoid(theta @ features.T)


def sigmoid(z: Array) -> Array:
    """Return 1 / (1 + exp(-z)), written over z; it is computed by tanh, which does not overflow."""
    z *= 0.5
    namespace(z).tanh(z, out=z)
    z += 1.0
    z *= 0.5
    return z


class LogisticPotential(NamedTuple):
    """U of a minibatch of points for each chain, or of all points, which the chains share."""

    target: LogisticRegression
    # features, labels: shapes (*chains, n, D) and (*chains, n), or (N, D) and (N,).
    features: Array
    labels: Array

    @property
    def weight(self) -> Any:
        """Weight of a point, N / n."""
        return len(self.target.labels) / self.labels.shape[-1]

    def _scores(self, theta: Array) -> Array:
        """Return z, the features times theta, as a new array of shape (*chains, n)."""
        if self.features.ndim == 2:
            return theta @ self.features.T
        return namespace(theta).matmul(self.features, theta[..., None])[..., 0]

    def _sums(self, rows: Array, features: Array) -> Array:
        """Return the features' sum, (*chains, D), each weighted by one of `rows`, (*chains, n)."""
        if features.ndim == 2:
            return rows @ features
        return namespace(rows).matmul(rows[..., None, :], features)[..., 0, :]

    def value(self, theta: Array) -> Array:
        z = self._scores(theta)
        loss = namespace(z).logaddexp(z, 0.0)
        z *= self.labels
        loss -= z
        prior = (theta * theta).sum(-1) * (0.5 / self.target.prior_variance)
        return self.weight * loss.sum(-1) + prior

    def grad(self, theta: Array) -> Array:
        residual = sigmoid(self._scores(theta))
        residual -= self.labels
        gradient = self._sums(residual, self.features)
        gradient *= self.weight
        gradient += theta * (1 / self.target.prior_variance)
        return gradient

    def hessian_diagonal(self, theta: Array) -> Array:
        p = sigmoid(self._scores(theta))
        p *= 1 - p
        squares = self._sums(p, self.features * self.features)
        return self.weight * squares + 1 / self.target.prior_variance

    def metric(self, theta: Array) -> Dense:
        r"""Return the Fisher information of all data and the prior, with its slope.

        .. math:: G = \sum_n \pi_n (1 - \pi_n)\, a_n a_n^\top + \frac{I}{v}, \qquad
           \frac{\partial G}{\partial w_k} =
           \sum_n \pi_n (1 - \pi_n)(1 - 2\pi_n)\, a_{nk}\, a_n a_n^\top.

        It is meant for a few dozen weights at most: it takes time N D^3, and memory N D^2 + D^3.
        """
        xp = namespace(theta)
        a, size = self.target.features, self.target.size
        pairs = (a[:, :, None] * a[:, None, :]).reshape(-1, size * size)
        p = sigmoid(theta @ a.T)
        fisher = p * (1 - p)
        g = (fisher @ pairs).reshape(*theta.shape, size)
        g += xp.eye(size, dtype=theta.dtype) / self.target.prior_variance
        fisher *= 1 - 2 * p
        slope = (fisher[..., None, :] * a.T) @ pairs
        return Dense(g, slope.reshape(*theta.shape, size, size))
