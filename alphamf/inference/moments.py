"""Convergence diagnostics from moments alone, if there are too many draws to keep."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from alphamf.tools.arrays import Array, to_host


class Moments(NamedTuple):
    """Moments of the draws of several chains."""

    draws: int  # of each chain
    mean: Array  # of each chain, shape (chains, ...)
    variance: Array  # mean squared deviation of each chain from its mean, shape (chains, ...)

    @property
    def pooled_variance(self) -> Array:
        """Mean squared deviation of the draws of all chains from their common mean, shape (...)."""
        total: Array = self.variance.mean(0) + self.mean.var(0)
        return total


def moments(draws: Array) -> Moments:
    """Return the moments of draws, shape (draws, chains, ...)."""
    return Moments(len(draws), draws.mean(0), draws.var(0))


def merge_moments(first: Moments, second: Moments) -> Moments:
    """Merge the moments of two consecutive parts of the same chains (Chan et al., 1983)."""
    draws = first.draws + second.draws
    share = second.draws / draws
    change = second.mean - first.mean
    variance = (1 - share) * first.variance + share * second.variance
    variance = variance + share * (1 - share) * change**2
    return Moments(draws, first.mean + share * change, variance)


def split_rhat(first: Moments, second: Moments) -> Array:
    r"""Split R-hat: 1 if the chains agree with each other, and each with its own first half.

    .. math:: \hat R = \sqrt{\frac{n - 1}{n} + \frac{B}{n W}},

    where W is the mean variance within the 2 C half-chains of n draws and B / n the variance of
    their means (Gelman et al., Bayesian Data Analysis, 2013, section 11.4). `first` and `second`,
    the halves, have two draws or more, n is their mean. It is 1 where no draw differs from another,
    infinite where only chains do; not rank-normalised, as `diagnostics.rhat` is.
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
