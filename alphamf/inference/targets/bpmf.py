r"""Probabilistic matrix factorisation of a sparse matrix of ratings, with hyperpriors or without.

.. math:: W_{ik} \sim \mathcal{N}(0, \sigma_w^2), \qquad H_{kj} \sim \mathcal{N}(0, \sigma_h^2),
   \qquad X_{ij} \mid W, H \sim \mathcal{N}\Big(b + \sum_k W_{ik} H_{kj},\; \sigma_x^2\Big)

for the observed pairs (i, j) alone, of users i = 1, ..., I and items j = 1, ..., J.
"""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.inference.random import draw_rows
from alphamf.inference.ranges import FINITE, POSITIVE, at_least, check_range, check_ranges
from alphamf.tools.arrays import Array, parts

CHUNK = 16_384
"""Number of ratings whose rows of W and H are multiplied at once, so that these stay in cache."""


VARIANCES = dict.fromkeys(("variance_w", "variance_h", "variance_x"), POSITIVE)


class BPMF:
    r"""Posterior of theta = (W, H'), both stored row by row: D = (I + J) K. NumPy only.

    .. math:: U = \frac{|E|^2}{2\sigma_x^2} + \frac{|W|^2}{2\sigma_w^2} + \frac{|H|^2}{2\sigma_h^2},
       \qquad E_{ij} = b + (WH)_{ij} - X_{ij} \text{ if } X_{ij} \text{ is observed, else } 0,

    .. math:: \nabla_W U = \frac{E H^\top}{\sigma_x^2} + \frac{W}{\sigma_w^2}, \qquad
       \nabla_H U = \frac{W^\top E}{\sigma_x^2} + \frac{H}{\sigma_h^2}.

    Parameters
    ----------
    users, items, ratings
        i and j of each rating, from zero, and X, shape (N,); theta has the dtype of X - b.
    shape, rank
        (I, J) and K.
    variance_w, variance_h, variance_x
        sigma_w^2, sigma_h^2 and sigma_x^2.
    offset
        b, a constant, such as the ratings' mean.
    batch
        Number of ratings that a draw reads, as in `LinearGaussian`.

    Raises
    ------
    AlphaMFError
        Shapes do not fit or are empty, an index is outside `shape`, or a number is out of range.

    References
    ----------
    Simsekli et al., ICML 2016, eq. 17; Durmus et al., NIPS 2016, section 5.2; Fu, Luo & Zhang, UAI
    2016, section 5.3; Salakhutdinov & Mnih, ICML 2008.

    Examples
    --------
    >>> users, items = np.array([0, 0, 1]), np.array([0, 1, 1])
    >>> target = BPMF(users, items, np.array([5.0, 3.0, 4.0]), shape=(2, 2), rank=1, offset=4.0)
    >>> target.size  # one factor of each user and item
    4
    """

    users: Array
    items: Array
    shape: tuple[int, int]
    rank: int
    offset: float
    batch: int | None
    variance_w: float
    variance_h: float
    variance_x: float

    positive = False

    def __init__(
        self,
        users: Array,
        items: Array,
        ratings: Array,
        *,
        shape: tuple[int, int],
        rank: int,
        variance_w: float = 1.0,
        variance_h: float = 1.0,
        variance_x: float = 1.0,
        offset: float = 0.0,
        batch: int | None = None,
    ) -> None:
        if ratings.ndim != 1 or not ratings.size or not users.shape == items.shape == ratings.shape:
            raise AlphaMFError(
                "users, items and ratings must be vectors of one length, "
                f"not {users.shape}, {items.shape}, {ratings.shape}"
            )
        for name, index, count in zip(("users", "items"), (users, items), shape, strict=True):
            check_index(name, index, count)
        self.users, self.items = users.astype(np.int32), items.astype(np.int32)
        self.residual: Array = ratings - offset
        self.shape, self.rank, self.offset, self.batch = shape, rank, offset, batch
        self.variance_w, self.variance_h, self.variance_x = variance_w, variance_h, variance_x
        check_ranges(self, **VARIANCES, rank=at_least(1), batch=at_least(1))
        self.latents: dict[str, Array] = {}
        self.size: int = sum(shape) * rank

    def unpack(self, theta: Array) -> tuple[Array, Array]:
        """Return W, shape (*chains, I, K), and H', shape (*chains, J, K), as views of theta."""
        chains, cut = theta.shape[:-1], self.shape[0] * self.rank
        return (
            theta[..., :cut].reshape(*chains, self.shape[0], self.rank),
            theta[..., cut:].reshape(*chains, self.shape[1], self.rank),
        )

    def start(self, rng: Any, chains: tuple[int, ...] = ()) -> Array:
        """Draw W and H at a tenth of their priors' widths, because full-width draws fit badly."""
        theta: Array = rng.standard_normal((*chains, self.size), dtype=self.residual.dtype)
        w, h = self.unpack(theta)
        w *= 0.1 * self.variance_w**0.5
        h *= 0.1 * self.variance_h**0.5
        return theta

    def draw(self, rng: Any, theta: Array) -> BPMFPotential:
        data: Any = (self.users, self.items, self.residual)
        if self.batch is not None:
            chosen = draw_rows(rng, len(self.users), (*theta.shape[:-1], self.batch))
            data = tuple(x.take(chosen) for x in data)
        return BPMFPotential(self, *data)

    def predict(self, theta: Array, users: Array, items: Array) -> Array:
        """Return the expected ratings of pairs, shape (*chains, n), from indices of shape (n,)."""
        w, h = self.unpack(theta)
        predicted = np.empty((*theta.shape[:-1], len(users)), theta.dtype)
        for chain in np.ndindex(theta.shape[:-1]):
            predicted[chain] = products(w[chain], h[chain], users, items)
        predicted += self.offset
        return predicted


def check_index(name: str, index: Array, count: int) -> None:
    """Raise an AlphaMFError if an index is not from 0 to below `count`."""
    if len(index) and (index.min() < 0 or index.max() >= count):
        raise AlphaMFError(
            f"{name} must be from 0 to {count - 1}, not {index.min()} to {index.max()}"
        )


def products(w: Array, h: Array, users: Array, items: Array) -> Array:
    """Return inner products of ``w[users]`` and ``h[items]``, (n,); w: (I, K), h: (J, K)."""
    out = np.empty(len(users), w.dtype)
    ones = np.ones(w.shape[1], w.dtype)
    for part in parts(len(users), CHUNK):
        # take copies rows three times as fast as indexing does.
        rows = w.take(users[part], axis=0)
        rows *= h.take(items[part], axis=0)
        np.matmul(rows, ones, out=out[part])
    return out


class BPMFPotential(NamedTuple):
    """U of some ratings, shape (n,), or (*chains, n) if each chain has its own."""

    target: BPMF
    # users, items, residual: i, j and X - b of each rating.
    users: Array
    items: Array
    residual: Array

    @property
    def weight(self) -> Any:
        """Weight in U of half a squared error: N / n divided by the ratings' variance."""
        return len(self.target.users) / (self.users.shape[-1] * self.target.variance_x)

    def _chains(self, theta: Array) -> Any:
        """Yield each chain's index, W, H', users, items and X - b."""
        w, h = self.target.unpack(theta)
        for chain in np.ndindex(theta.shape[:-1]):
            own = chain if self.users.ndim > 1 else ()
            yield chain, w[chain], h[chain], self.users[own], self.items[own], self.residual[own]

    def value(self, theta: Array) -> Array:
        target = self.target
        value = np.empty(theta.shape[:-1], theta.dtype)
        for chain, w, h, users, items, residual in self._chains(theta):
            error = products(w, h, users, items)
            error -= residual
            prior = (w * w).sum() / target.variance_w + (h * h).sum() / target.variance_h
            value[chain] = 0.5 * (self.weight * (error * error).sum() + prior)
        return value[()]

    def grad(self, theta: Array) -> Array:
        gradient = theta.copy()
        w, h = self.target.unpack(gradient)
        w *= 1 / self.target.variance_w
        h *= 1 / self.target.variance_h
        for chain, w, h, users, items, residual in self._chains(theta):
            error = products(w, h, users, items)
            error -= residual
            error *= self.weight
            self._scatter(gradient[chain], error, users, items, w, h)
        return gradient

    def hessian_diagonal(self, theta: Array) -> Array:
        diagonal = np.empty_like(theta)
        w, h = self.target.unpack(diagonal)
        w[...] = 1 / self.target.variance_w
        h[...] = 1 / self.target.variance_h
        for chain, w, h, users, items, _ in self._chains(theta):
            weights = np.full(len(users), self.weight, theta.dtype)
            self._scatter(diagonal[chain], weights, users, items, w * w, h * h)
        return diagonal

    def _scatter(
        self, out: Array, entries: Array, users: Array, items: Array, w: Array, h: Array
    ) -> None:
        """Add E H' and E' W to `out`, shape (D,), where E has `entries` at (users, items)."""
        from scipy.sparse import coo_array

        matrix = coo_array((entries, (users, items)), shape=self.target.shape)
        of_w, of_h = self.target.unpack(out)
        of_w += matrix @ h
        of_h += matrix.T @ w


class HyperBPMF:
    r"""`BPMF` with a hyperprior: mean and precision of the rows of W and of H' are unknown.

    .. math:: w_i \sim \mathcal{N}(\mu_w, \Lambda_w^{-1}), \qquad
       \mu_w \mid \Lambda_w \sim \mathcal{N}(0, (\beta_0 \Lambda_w)^{-1}), \qquad
       \Lambda_w \sim \mathcal{W}(I, \nu_0),

    and the same for the rows of H'. These priors are conjugate, so `draw` draws mu and Lambda
    afresh, which is exact for every sampler, ensembles included.

    Parameters
    ----------
    target
        The `BPMF` of the ratings, with infinite ``variance_w`` and ``variance_h``.
    beta
        beta_0, positive.
    degrees
        nu_0, more than K - 1; None: K.

    Attributes
    ----------
    latents
        ``mean_w`` and ``mean_h``, shape (*chains, K); ``precision_w`` and ``precision_h``, shape
        (*chains, K, K).

    Raises
    ------
    AlphaMFError
        A variance of W or H is finite, or a number is out of range.

    References
    ----------
    Salakhutdinov & Mnih, ICML 2008, eqs. 5 to 7 and 14; their demo code has beta_0 = 2, nu_0 = K
    and a precision of the ratings of 2.

    Examples
    --------
    >>> users, items, ratings = np.array([0, 0, 1]), np.array([0, 1, 1]), np.array([5.0, 3.0, 4.0])
    >>> wide = {"variance_w": np.inf, "variance_h": np.inf, "variance_x": 0.5}
    >>> target = HyperBPMF(BPMF(users, items, ratings, shape=(2, 2), rank=1, offset=4.0, **wide))
    >>> theta = target.start(np.random.default_rng(0))
    >>> target.draw(np.random.default_rng(1), theta).grad(theta).shape
    (4,)
    >>> target.latents["precision_w"].shape
    (1, 1)
    """

    positive = False

    def __init__(self, target: BPMF, *, beta: float = 2.0, degrees: float | None = None) -> None:
        if not target.variance_w == target.variance_h == inf:
            raise AlphaMFError(
                "variance_w and variance_h must be infinite where hyperpriors stand in their "
                f"place, not {target.variance_w} and {target.variance_h}"
            )
        check_range("beta", beta, FINITE)
        self.degrees: float = target.rank if degrees is None else degrees
        if not target.rank - 1 < self.degrees < inf:
            raise AlphaMFError(
                f"degrees must be more than {target.rank - 1}, K - 1, not {self.degrees}"
            )
        self.target: BPMF = target
        self.beta: float = beta
        self.size: int = target.size
        self.latents: dict[str, Array] = {}

    def start(self, rng: Any, chains: tuple[int, ...] = ()) -> Array:
        """Draw all entries of W and H from N(0, 0.01), then means and precisions given both."""
        theta: Array = rng.standard_normal((*chains, self.size), dtype=self.target.residual.dtype)
        theta *= 0.1
        self._draw_latents(rng, theta)
        return theta

    def draw(self, rng: Any, theta: Array) -> HyperPotential:
        """Draw means and precisions given theta, and a minibatch; return the potential for them."""
        self._draw_latents(rng, theta)
        return HyperPotential(self, self.target.draw(rng, theta))

    def _draw_latents(self, rng: Any, theta: Array) -> None:
        for name, rows in zip("wh", self.target.unpack(theta), strict=True):
            chains, rank = theta.shape[:-1], self.target.rank
            mean = np.empty((*chains, rank), theta.dtype)
            precision = np.empty((*chains, rank, rank), theta.dtype)
            for chain in np.ndindex(chains):
                own = rows[chain].astype(np.float64)
                mean[chain], precision[chain] = self._conjugate(rng, own)
            self.latents |= {f"mean_{name}": mean, f"precision_{name}": precision}

    def _conjugate(self, rng: Any, rows: Array) -> tuple[Array, Array]:
        r"""Return a draw of mu and Lambda given rows of shape (N, K), of mean m and scatter S.

        .. math:: \Lambda \sim \mathcal{W}\!\left(\left[I + S + \tfrac{\beta_0 N}{\beta_0 + N} m
           m^\top\right]^{-1},\, \nu_0 + N\right), \qquad
           \mu \mid \Lambda \sim \mathcal{N}\!\left(\tfrac{N m}{\beta_0 + N},\,
           ((\beta_0 + N) \Lambda)^{-1}\right).
        """
        count, rank = rows.shape
        mean = rows.mean(0)
        centred = rows - mean
        shrunk = self.beta * count / (self.beta + count)
        scatter = np.eye(rank) + centred.T @ centred + shrunk * np.outer(mean, mean)
        # Bartlett: Lambda = L A A' L' with L L' the inverse of the scatter.
        root = np.linalg.cholesky(np.linalg.inv(scatter))
        lower = np.tril(rng.standard_normal((rank, rank)), -1)
        shapes = 0.5 * (self.degrees + count - np.arange(rank))
        lower += np.diag(np.sqrt(2 * rng.standard_gamma(shapes)))
        root = root @ lower
        noise = np.linalg.solve(root.T, rng.standard_normal(rank))
        total = self.beta + count
        return count * mean / total + noise / np.sqrt(total), root @ root.T


class HyperPotential:
    """U of some ratings at fixed means and precisions of W and H."""

    def __init__(self, target: HyperBPMF, ratings: BPMFPotential) -> None:
        self._ratings, self._unpack = ratings, target.target.unpack
        self._priors = [
            (target.latents[f"mean_{name}"], target.latents[f"precision_{name}"]) for name in "wh"
        ]

    def _pulls(self, theta: Array) -> list[tuple[Array, Array]]:
        """Return, for W and H', the rows' deviations from their mean, and these times Lambda."""
        found = []
        for rows, (mean, precision) in zip(self._unpack(theta), self._priors, strict=True):
            deviation = rows - mean[..., None, :]
            found.append((deviation, deviation @ precision))
        return found

    def value(self, theta: Array) -> Array:
        total = self._ratings.value(theta)
        for deviation, pull in self._pulls(theta):
            total = total + 0.5 * (deviation * pull).sum((-2, -1))
        return total

    def grad(self, theta: Array) -> Array:
        gradient = self._ratings.grad(theta)
        for rows, (_, pull) in zip(self._unpack(gradient), self._pulls(theta), strict=True):
            rows += pull
        return gradient
