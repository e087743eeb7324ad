r"""Bayesian matrix factorisation with hyperpriors: means and precisions of the factors are drawn.

.. math:: w_i \sim \mathcal{N}(\mu_w, \Lambda_w^{-1}), \qquad
   \mu_w \mid \Lambda_w \sim \mathcal{N}(0, (\beta_0 \Lambda_w)^{-1}), \qquad
   \Lambda_w \sim \mathcal{W}(I, \nu_0),

and the same for the rows of H'. Given N rows of mean m and sum of squared deviations S, both are
conjugate,

.. math:: \Lambda \sim \mathcal{W}\!\left(\left[I + S + \tfrac{\beta_0 N}{\beta_0 + N} m
   m^\top\right]^{-1},\, \nu_0 + N\right), \qquad
   \mu \mid \Lambda \sim \mathcal{N}\!\left(\tfrac{N m}{\beta_0 + N},\,
   ((\beta_0 + N) \Lambda)^{-1}\right),

so that `draw` draws them afresh, which is exact for every sampler, ensembles included.
"""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.inference.targets.bpmf import BPMF, BPMFPotential
from alphamf.tools.arrays import Array


class HyperBPMF:
    r"""`BPMF` whose priors of W and H have a mean and a precision of their own.

    Parameters
    ----------
    target
        The ratings, with ``variance_w`` and ``variance_h`` infinite.
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
        A prior of the target is proper, or a number is out of range.

    References
    ----------
    Salakhutdinov & Mnih, ICML 2008, eqs. 5 to 7 and 14; their demo code has beta_0 = 2, nu_0 = K
    and a precision of the ratings of 2.

    Examples
    --------
    >>> import numpy as np
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
        if not 0 < beta < inf:
            raise AlphaMFError(f"beta must be a positive number, not {beta}")
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
        """Draw W and H as normal noise of width 0.1, and their means and precisions given both."""
        theta: Array = rng.standard_normal((*chains, self.size), dtype=self.target.residual.dtype)
        theta *= 0.1
        self._draw_latents(rng, theta)
        return theta

    def draw(self, rng: Any, theta: Array) -> HyperPotential:
        """Draw means and precisions given theta, and a minibatch of the target."""
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
        """Return a draw of mu and Lambda given rows of shape (N, K)."""
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
        """Return the deviations of W and of H' from their means, and Lambda times them."""
        found = []
        for rows, (mean, precision) in zip(self._unpack(theta), self._priors, strict=True):
            deviation = rows - mean[..., None, :]
            found.append((deviation, deviation @ precision))
        return found

    def value(self, theta: Array) -> Array:
        """U up to a constant, shape (*chains,)."""
        total = self._ratings.value(theta)
        for deviation, pull in self._pulls(theta):
            total = total + 0.5 * (deviation * pull).sum((-2, -1))
        return total

    def grad(self, theta: Array) -> Array:
        """Gradient, shape (*chains, D)."""
        gradient = self._ratings.grad(theta)
        for rows, (_, pull) in zip(self._unpack(gradient), self._pulls(theta), strict=True):
            rows += pull
        return gradient
