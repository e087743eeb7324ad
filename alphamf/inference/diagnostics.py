"""Convergence diagnostics of plain arrays, most of them computed by arviz-stats.

Draws have shape (draws, chains, ...), as `records.Trace` keeps them for a theta with one chain
axis; a single chain is ``draws[:, None]``. `ess`, `mcse`, `rhat` need at least `LEAST` draws.
"""

from typing import Any, NamedTuple

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.inference.ranges import at_least, check_range
from alphamf.tools.arrays import Array, to_host

LEAST = 4
"""Minimum number of draws per chain; with fewer, `ess`, `rhat` and others raise an AlphaMFError."""


class Summary(NamedTuple):
    """Posterior mean, standard deviation, Monte Carlo standard error of the mean, ESS, R-hat."""

    mean: Array
    std: Array
    mcse: Array  # Monte Carlo standard error of the mean
    ess: Array  # effective sample size of all chains together
    rhat: Array  # near 1 where the chains agree


def ess(draws: Array) -> Array:
    """Return the effective sample size for the mean, shape (...), of draws (draws, chains, ...).

    References
    ----------
    Vehtari et al., Bayesian Analysis 16 (2021), with Geyer's initial monotone sequence.

    Examples
    --------
    >>> draws = np.random.default_rng(0).standard_normal((1000, 4))  # independent, four chains
    >>> bool(3000 < ess(draws) < 5000)
    True
    """
    return _per_quantity("ess", draws, method="mean")


def mcse(draws: Array) -> Array:
    """Return the Monte Carlo standard error of the mean: standard deviation / root of the ESS.

    An average of correlated draws is off by about this much. `draws`: shape (draws, chains, ...).
    Returns: shape (...).

    Examples
    --------
    >>> draws = np.random.default_rng(0).standard_normal((1000, 4))  # independent, four chains
    >>> round(float(mcse(draws)), 3)  # 1 / sqrt(4000) = 0.0158
    0.016
    """
    return _per_quantity("mcse", draws, method="mean")


def rhat(draws: Array) -> Array:
    """Return rank-normalised split R-hat, shape (...): near 1 if chains agree, else above 1.01.

    References
    ----------
    Vehtari et al., Bayesian Analysis 16 (2021).

    Examples
    --------
    >>> draws = np.random.default_rng(0).standard_normal((1000, 4))  # independent, four chains
    >>> round(float(rhat(draws)), 2), float(rhat(draws + np.arange(4))) > 1.5
    (1.0, True)
    """
    return _per_quantity("rhat", draws, method="rank")


def summarise(draws: Array) -> Summary:
    """Return mean, std, mcse, ess and rhat, of shape (...), of draws (draws, chains, ...).

    Examples
    --------
    >>> draws = np.random.default_rng(0).standard_normal((1000, 4))  # independent, four chains
    >>> found = summarise(draws)
    >>> round(float(found.std), 1), round(float(found.rhat), 2)
    (1.0, 1.0)
    """
    draws = _checked(draws)
    return Summary(
        draws.mean((0, 1), dtype=np.float64),
        draws.std((0, 1), dtype=np.float64),
        mcse(draws),
        ess(draws),
        rhat(draws),
    )


def separate_chains(draws: Array, count: int) -> Array:
    """Separate the draws of a sampler that moves `count` chains in turn into one series per chain.

    HAMCMC's newest sample (count = memory) and HMC-BFGS's (count = ensemble) are correlated with
    the one `count` steps before, and hardly with those between, which misleads `ess` and `mcse`.

    Parameters
    ----------
    draws
        Shape (draws, chains, ...), of every step.

    Returns
    -------
    Array
        Shape (draws // count, count * chains, ...); draws of an incomplete last round are dropped.

    Raises
    ------
    AlphaMFError
        `count` is below 1.

    Examples
    --------
    >>> separate_chains(np.arange(6)[:, None], 3)  # three chains that moved in turn
    array([[0, 1, 2],
           [3, 4, 5]])
    """
    check_range("count", count, at_least(1))
    draws = to_host(draws)
    kept = len(draws) - len(draws) % count
    return draws[:kept].reshape(kept // count, count * draws.shape[1], *draws.shape[2:])


def autocorrelation(draws: Array, lags: int) -> Array:
    """Return the autocorrelation at lags 1 to `lags`, averaged over chains, shape (lags, ...)."""
    draws = _checked(draws)
    if not 1 <= lags < len(draws):
        raise AlphaMFError(f"lags must be from 1 to below {len(draws)} draws, not {lags}")
    rho = _arviz("autocorr")(np.moveaxis(draws, 0, -1).astype(np.float64), axis=-1)
    return np.moveaxis(rho[..., 1 : lags + 1], -1, 0).mean(1)


def autocorrelation_sum(draws: Array, lags: int) -> Array:
    """Sum absolute autocorrelations at lags 1 to `lags`, shape (...); Fu et al., 2016, table 1."""
    return np.abs(autocorrelation(draws, lags)).sum(0)


def acceptance(state: Any) -> float:
    """Return the proportion of proposals that a Metropolis sampler has accepted, over all chains.

    Raises
    ------
    AlphaMFError
        The state belongs to a sampler that accepts every move, or has made no step.

    Examples
    --------
    >>> from alphamf.inference.chain import run
    >>> from alphamf.inference.samplers.hmc import HMC
    >>> from alphamf.inference.targets.gaussian import LinearGaussian
    >>> target = LinearGaussian(np.eye(2), np.ones(2), 1.0)
    >>> *_, last = run(target, HMC(0.1), steps=20, seed=0, chains=(10,))
    >>> acceptance(last) > 0.9
    True
    """
    if not hasattr(state, "accepted"):
        raise AlphaMFError(f"acceptance needs a Metropolis sampler's state, not {type(state)!r}")
    if not state.step:
        raise AlphaMFError("acceptance needs at least one step, not 0")
    return float(state.accepted.mean() / state.step)


def _checked(draws: Array) -> Array:
    draws = to_host(draws)
    if draws.ndim < 2 or len(draws) < LEAST:
        raise AlphaMFError(
            f"draws must have shape (draws, chains, ...) with at least {LEAST} draws, "
            f"not {draws.shape}"
        )
    return draws


def _arviz(name: str) -> Any:
    from arviz_stats.base.array import array_stats

    return getattr(array_stats, name)


def _per_quantity(name: str, draws: Array, method: str) -> Array:
    # In float64: sums over a long float32 chain would show more error than the chain's own.
    values = np.asarray(_checked(draws), np.float64)
    return np.asarray(_arviz(name)(values, chain_axis=1, draw_axis=0, method=method))


class Moments(NamedTuple):
    """Moments of the draws of several chains."""

    draws: int  # Number of draws of each chain
    mean: Array  # Mean of each chain, shape (chains, ...)
    variance: Array  # Mean squared deviation of each chain from its mean, shape (chains, ...)

    @property
    def pooled_variance(self) -> Array:
        """Mean squared deviation of the draws of all chains from their common mean, shape (...)."""
        return self.variance.mean(0) + self.mean.var(0)


def moments(draws: Array) -> Moments:
    """Return the moments of draws of shape (draws, chains, ...)."""
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
    r"""Return split R-hat, shape (...): near 1 if chains, and the halves of each chain, agree.

    .. math:: \hat R = \sqrt{\frac{n - 1}{n} + \frac{B}{n W}},

    where W is the mean variance within the half-chains and B / n the variance of their means
    (Gelman et al., Bayesian Data Analysis, 2013, section 11.4). The halves, `first` and `second`,
    have two draws or more per chain, on average n. R-hat is 1 if all draws are equal, and infinite
    if all half-chains are constant but differ. It is not rank-normalised; `rhat` is.
    """
    halves = first, second
    n = (first.draws + second.draws) / 2
    unbiased = [half.draws / (half.draws - 1) * to_host(half.variance) for half in halves]
    within = np.concatenate(unbiased).mean(0)
    between = np.concatenate([to_host(half.mean) for half in halves]).var(0, ddof=1)
    ratio = np.where(between > 0, np.inf, 1 / n)  # 1 / n if no chain moves
    np.divide(between, within, out=ratio, where=within > 0)
    return np.sqrt((n - 1) / n + ratio)
