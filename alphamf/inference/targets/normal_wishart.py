r"""Mean and precision of a normal distribution: a posterior that is known exactly but not Gaussian.

.. math:: x_n \sim \mathcal{N}(\mu, 1/\tau), \qquad
   p(\mu, \tau) \propto \mathcal{W}(\tau \mid 1, 1) \propto \tau^{-1/2} e^{-\tau/2}.

A Wishart law of one degree of freedom and scale 1 is, in one dimension, Gamma with shape 1/2 and
rate 1/2. The paper (see `NormalWishart`) has no prior of mu: this prior is flat, but the posterior
is proper. With N points of mean m and sum of squared deviations S,

.. math:: \tau \sim \mathrm{Gamma}\!\left(\tfrac{N}{2},\, \tfrac{1 + S}{2}\right), \qquad
   \mu \mid \tau \sim \mathcal{N}\!\left(m, \tfrac{1}{N\tau}\right).
"""

from __future__ import annotations

from math import log
from typing import Any, NamedTuple

from alphamf.errors import AlphaMFError
from alphamf.inference.metric import Diagonal
from alphamf.inference.random import draw_rows
from alphamf.inference.ranges import at_least, check_ranges
from alphamf.tools.arrays import LOG_LIMIT, Array, namespace


class NormalWishart:
    r"""Posterior of :math:`\theta = (\mu, \log \tau)`, which `unpack` turns into mu and tau.

    .. math:: U = -\tfrac{N + 1}{2} \log\tau
       + \tfrac{\tau}{2} \left(1 + S + N (\mu - m)^2\right).

    Parameters
    ----------
    x
        Observations, shape (N,), N at least 3, with mean m and sum of squared deviations S.
    batch
        As in `LinearGaussian`.

    Attributes
    ----------
    mean, variance
        Posterior means and variances of mu and of tau, shape (2,).

    Raises
    ------
    AlphaMFError
        x is not a vector of at least 3 points, or batch is out of range.

    References
    ----------
    Roychowdhury & Parthasarathy, NIPS 2017, section 4.1.

    Examples
    --------
    >>> target = NormalWishart(np.random.default_rng(0).normal(3.0, 1.0, 1000))
    >>> target.mean.round(1)  # of the observations' mean and precision
    array([3., 1.])
    """

    x: Array
    batch: int | None

    positive = False
    size = 2

    def __init__(self, x: Array, *, batch: int | None = None) -> None:
        if x.ndim != 1 or len(x) < 3:
            raise AlphaMFError(f"x must be a vector of at least 3 points, not {x.shape}")
        xp = namespace(x)
        self.x, self.batch = x, batch
        check_ranges(self, batch=at_least(1))
        self.latents: dict[str, Array] = {}
        n = len(x)
        # Sums of many float32 points lose digits that the law of mu, of width sd / sqrt(N), needs.
        exact = x.astype(xp.float64)
        self.centre: float = float(exact.mean())
        self.scatter: float = float(((exact - self.centre) ** 2).sum())
        rate = (1 + self.scatter) / 2
        self.mean: Any = xp.asarray([self.centre, n / 2 / rate], dtype=x.dtype)
        self.variance: Any = xp.asarray([2 * rate / (n * (n - 2)), n / 2 / rate**2], dtype=x.dtype)

    def unpack(self, theta: Array) -> tuple[Array, Array]:
        """Return mu and tau at theta, each of shape (*chains,)."""
        xp = namespace(theta)
        return theta[..., 0], xp.exp(xp.minimum(theta[..., 1], LOG_LIMIT))

    def start(self, rng: Any, chains: tuple[int, ...] = ()) -> Array:
        """Draw (mu, log tau) around the data's mean and log precision, shape (*chains, 2)."""
        xp = namespace(self.x)
        theta: Array = rng.standard_normal((*chains, 2), dtype=self.x.dtype)
        spread = (1 + self.scatter) / len(self.x)
        theta *= xp.asarray([spread**0.5, 1.0], dtype=theta.dtype)
        theta += xp.asarray([self.centre, -log(spread)], dtype=theta.dtype)
        return theta

    def draw(self, rng: Any, theta: Array) -> NormalWishartPotential:
        if self.batch is None:
            return NormalWishartPotential(self, self.centre, self.scatter)
        x = self.x[draw_rows(rng, len(self.x), (*theta.shape[:-1], self.batch))]
        centre = x.mean(-1)
        x -= centre[..., None]
        return NormalWishartPotential(self, centre, (x * x).mean(-1) * len(self.x))


class NormalWishartPotential(NamedTuple):
    """U given the mean of the points, and the mean of their squared deviations times N."""

    target: NormalWishart
    centre: Array | float  # Mean of the points, shape (*chains,), or one number
    scatter: Array | float  # Mean squared deviation from `centre`, times N; shape as `centre`

    @property
    def n(self) -> int:
        """N, the number of points."""
        return len(self.target.x)

    def _terms(self, theta: Array) -> tuple[Array, Array, Array]:
        """Return mu - m, tau and tau (1 + S + N (mu - m)^2) / 2."""
        mu, tau = self.target.unpack(theta)
        gap = mu - self.centre
        return gap, tau, 0.5 * tau * (1 + self.scatter + self.n * gap * gap)

    def value(self, theta: Array) -> Array:
        return self._terms(theta)[2] - 0.5 * (self.n + 1) * theta[..., 1]

    def grad(self, theta: Array) -> Array:
        gap, tau, energy = self._terms(theta)
        return namespace(theta).stack([self.n * tau * gap, energy - 0.5 * (self.n + 1)], -1)

    def hessian_diagonal(self, theta: Array) -> Array:
        _, tau, energy = self._terms(theta)
        return namespace(theta).stack([self.n * tau, energy], -1)

    def metric(self, theta: Array) -> Diagonal:
        r"""Return the Fisher information of all data, minus the Hessian of the log prior.

        It is :math:`\mathrm{diag}(N\tau,\; N/2 + \tau/2)`. The paper takes the observed
        information, indefinite where :math:`N(\mu - m)^2 > 1 + S`; this is its expectation.
        """
        xp = namespace(theta)
        tau = self.target.unpack(theta)[1]
        g = xp.stack([self.n * tau, 0.5 * (self.n + tau)], -1)
        by_log_tau = xp.stack([self.n * tau, 0.5 * tau], -1)
        return Diagonal(g, xp.stack([xp.zeros_like(g), by_log_tau], -2))
