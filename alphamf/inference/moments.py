"""Convergence diagnostics from moments alone, if there are too many draws to keep."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from alphamf.tools.arrays import Array, to_host


class Moments(NamedTuple):
    """Moments of the draws of several chains.

    Attributes
    ----------
    draws
        Number of draws of each chain.
    mean
        Mean of each chain, shape (chains, ...).
    variance
        Mean squared deviation of each chain's draws from its mean, shape (chains, ...).

    Examples
    --------
    >>> import numpy as np
    >>> draws = np.random.default_rng(0).standard_normal((1000, 4))  # independent, four chains
    >>> found = moments(draws)
    >>> found.draws, found.mean.shape
    (1000, (4,))
    """

    draws: int
    mean: Array
    variance: Array

    @property
    def pooled_variance(self) -> Array:
        """Mean squared deviation of the draws of all chains from their common mean, shape (...)."""
        total: Array = self.variance.mean(0) + self.mean.var(0)
        return total


def moments(draws: Array) -> Moments:
    """Return the moments of draws, shape (draws, chains, ...).

    Examples
    --------
    >>> import numpy as np
    >>> moments(np.array([[0.0], [2.0]]))
    Moments(draws=2, mean=array([1.]), variance=array([1.]))
    """
    return Moments(len(draws), draws.mean(0), draws.var(0))


def merge_moments(first: Moments, second: Moments) -> Moments:
    """Merge the moments of two consecutive parts of the same chains.

    References
    ----------
    Chan, Golub & LeVeque, American Statistician 37 (1983).

    Examples
    --------
    >>> import numpy as np
    >>> draws = np.arange(6.0)[:, None]
    >>> merge_moments(moments(draws[:2]), moments(draws[2:])).mean, draws.mean()
    (array([2.5]), np.float64(2.5))
    """
    draws = first.draws + second.draws
    share = second.draws / draws
    change = second.mean - first.mean
    variance = (1 - share) * first.variance + share * second.variance
    variance = variance + share * (1 - share) * change**2
    return Moments(draws, first.mean + share * change, variance)


def split_rhat(first: Moments, second: Moments) -> Array:
    r"""Split R-hat: 1 if the chains agree with each other, and each with its own first half.

    .. math:: \hat R = \sqrt{\frac{n - 1}{n} + \frac{B}{n W}},

    where W is the mean variance within the 2 C half-chains of n draws and B / n the variance
    of their means. It is not rank-normalised, as `diagnostics.rhat` is, which needs the draws.

    Parameters
    ----------
    first, second
        Moments of both halves, each of two draws or more; n is the mean of their lengths.

    Returns
    -------
    ndarray
        Shape (...); 1 where no draw differs from another, infinite where only chains do.

    References
    ----------
    Gelman et al., Bayesian Data Analysis, 3rd ed. (2013), section 11.4.

    Examples
    --------
    >>> import numpy as np
    >>> draws = np.random.default_rng(0).standard_normal((1000, 4))  # independent, four chains
    >>> float(split_rhat(moments(draws[:500]), moments(draws[500:])).round(2))
    1.0
    >>> drift = draws + np.linspace(0, 9, 1000)[:, None]  # all chains in the same way
    >>> bool(split_rhat(moments(drift[:500]), moments(drift[500:])) > 1.5)
    True
    """
    halves = first, second
    n = (first.draws + second.draws) / 2
    unbiased = [half.draws / (half.draws - 1) * to_host(half.variance) for half in halves]
    within = np.concatenate(unbiased).mean(0)
    between = np.concatenate([to_host(half.mean) for half in halves]).var(0, ddof=1)
    ratio = np.where(between > 0, np.inf, 1 / n)  # of chains that stand still
    np.divide(between, within, out=ratio, where=within > 0)
    rhat: Array = np.sqrt((n - 1) / n + ratio)
    return rhat
