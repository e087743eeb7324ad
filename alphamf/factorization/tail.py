r"""Estimate the tail index alpha of a noise from the distances of its cells to their median.

In a cell of frequency f, the noise of a steady spectrum is :math:`X = \sqrt{c\, m_f}\, Y`, where
:math:`m_f` is the median of :math:`|X|^2` over time, Y symmetric alpha-stable of unit dispersion
and c a scale. The likelihood
:math:`p(|X|^2 \mid \alpha, c)` therefore needs only a histogram of :math:`\log |X|^2 / m_f`, whose
counts add up over segments, channels and hours. Phi is integrated out,

.. math:: p_1(r) = E\, e^{-r^2/\Phi} / (\pi\Phi),

as in `likelihood`, but by the law of Phi alone: Kanter's form gives :math:`P(\Phi > x)` as the
mean of :math:`1 - \exp(-(x / 2b(U))^{-1/\kappa})` over U. Only alpha and c remain, so that no
sampling is needed: c is integrated out by Laplace's method, and alpha lies on a grid.

A noise that is Gaussian but whose level varies, such as voices, has heavy tails around its median,
too: small alphas distinguish steady noise from any noise that comes in bursts.

References
----------
Kanter, Annals of Probability 3 (1975); Tierney & Kadane, JASA 81 (1986), for Laplace's method.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from alphamf.factorization.cells import FLOOR
from alphamf.tools.arrays import Reals

STEP = 0.1
"""Width of a class of log |X|^2 / m."""

LOWEST, HIGHEST = -16.0, 44.0
"""The start of the first class and the end of the last; values beyond are counted in these."""

SHIFTS = 20
"""Classes that log c may be from zero, either way."""

QUIETEST = 1e-8
"""Minimum median of a bin, as a fraction of the largest, that counts as noise."""

LEAST_FRAMES = 40
"""Minimum number of frames for a usable median."""

LEAST_CELLS = 2000
"""Minimum number of cells to estimate a tail from."""

STEADY = 1.8
"""Minimum alpha of a noise that is called steady."""

GRID: Reals = 2 - np.linspace(np.sqrt(1.5), 0, 33) ** 2
"""The alphas at which the likelihood is computed: closer together towards 2, where it changes most.
Interpolation yields `FINE` of them."""

FINE = 1501


@dataclass(frozen=True, eq=False)
class Tail:
    """Distribution of a noise's cells around the median of their frequency.

    The sum of two of them is the distribution of both noises together.

    Examples
    --------
    >>> import numpy as np
    >>> from alphamf.factorization.stable import symmetric_stable
    >>> rng = np.random.default_rng(0)
    >>> found = tail(abs(symmetric_stable(rng, 1.4, (129, 400))) ** 2)
    >>> round(found.alpha, 1), found.kind
    (1.4, 'impulsive')
    """

    # Number of cells in each class of log |X|^2 / m, of width `STEP` from `LOWEST` to `HIGHEST`.
    counts: Reals

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tail):
            return NotImplemented
        return np.array_equal(self.counts, other.counts)

    def __add__(self, other: Tail) -> Tail:
        return Tail(self.counts + other.counts)

    @cached_property
    def alpha(self) -> float | None:
        """Posterior mean of alpha under a flat prior from 0.5 to 2; None for too few cells."""
        if self.counts.sum() < LEAST_CELLS:
            return None
        alphas, weights = posterior(self.counts)
        return float(alphas @ weights)

    @property
    def kind(self) -> str | None:
        """``"steady"`` if alpha is 1.8 or more, otherwise ``"impulsive"``; None without alpha."""
        alpha = self.alpha
        return None if alpha is None else "steady" if alpha >= STEADY else "impulsive"


def tail(power: Reals) -> Tail:
    """Measure the distribution of a noise's cells around their median.

    Parameters
    ----------
    power
        |X|^2 of frames of noise alone, shape (bins, frames). Digital silence is left out, and fewer
        frames than `LEAST_FRAMES` are not used.

    Examples
    --------
    >>> import numpy as np
    >>> tail(np.random.default_rng(0).standard_exponential((129, 200))).kind
    'steady'
    """
    frames = power.mean(axis=0)
    power = power[:, frames > FLOOR * np.median(frames)] if frames.any() else power[:, :0]
    if power.shape[1] < LEAST_FRAMES:
        return count_levels(np.empty(0))
    median = np.median(power, axis=1, keepdims=True)
    heard = median[:, 0] > QUIETEST * median.max()
    ratio = power[heard] / median[heard]
    return count_levels(np.log(np.maximum(ratio, np.exp(LOWEST), out=ratio)))


def count_levels(log_ratio: Reals) -> Tail:
    """Count values of log |X|^2 / m, any shape, in classes."""
    place = ((log_ratio.ravel() - LOWEST) / STEP).astype(int)
    last = round((HIGHEST - LOWEST) / STEP) - 1
    return Tail(np.bincount(place.clip(0, last), minlength=last + 1).astype(np.float64))


def posterior(counts: Reals) -> tuple[Reals, Reals]:
    """Return a grid of alphas and their probabilities under a flat prior, each of shape (FINE,)."""
    from scipy.interpolate import CubicSpline

    shifts = counts.sum() * STEP * np.arange(SHIFTS, -SHIFTS - 1, -1)
    marginal = [
        _without_scale(np.correlate(table, counts, mode="valid") - shifts) for table in _tables()
    ]
    alphas = np.linspace(GRID[0], GRID[-1], FINE)
    spline = CubicSpline(-np.sqrt(2 - GRID), marginal)
    logs = spline(-np.sqrt(2 - alphas))
    weights = np.exp(logs - logs.max())
    return alphas, weights / weights.sum()


def _without_scale(likelihood: Reals) -> float:
    """Return the log of the integral over log c, approximated by a parabola at the maximum."""
    top = int(likelihood.argmax().clip(1, len(likelihood) - 2))
    before, best, after = likelihood[top - 1 : top + 2]
    curvature, slope = 2 * best - before - after, (after - before) / 2
    if curvature <= 0:  # at an end
        return float(best)
    return float(best + slope**2 / (2 * curvature) - np.log(curvature) / 2)


@cache
def _tables() -> Reals:
    """Return log p_1 for the alphas of `GRID`, at the middles of classes and beyond."""
    count = round((HIGHEST - LOWEST) / STEP)
    log_ratio = LOWEST + STEP * (np.arange(-SHIFTS, count + SHIFTS) + 0.5)
    return np.array([log_density(np.exp(log_ratio), alpha) for alpha in GRID])


def log_density(power: Reals, alpha: float) -> Reals:
    """Return log p(X) at unit dispersion, up to log pi; |X|^2 of shape (cells,).

    It is a few hundred times as fast as `likelihood.log_density` for a new alpha, and as accurate.
    """
    phi, weight = _phi(alpha)
    return np.log(np.exp(-power[:, None] / phi) @ (weight / phi) + np.finfo(float).tiny)


def _phi(alpha: float) -> tuple[Reals, Reals]:
    """Return values of Phi and their probabilities, including the far tail."""
    h = alpha / 2
    if h == 1:
        return np.array([2.0]), np.array([1.0])
    logit, step = np.linspace(-40, 64, 417, retstep=True)
    near = np.logaddexp(0, -np.abs(logit))
    # U by its logit, and by its distance from the nearer end, which keeps its digits near pi.
    distance = np.pi * np.exp(-np.abs(logit) - near)
    share = step * np.exp(-np.abs(logit) - 2 * near)
    u = np.where(logit > 0, np.pi - distance, distance)
    kappa = (1 - h) / h
    log_b = (
        np.log(np.sin(h * u)) + kappa * np.log(np.sin((1 - h) * u)) - np.log(np.sin(distance)) / h
    )
    edges = np.arange(-7, 60, 0.08)
    logs = (log_b + np.log(2) - edges[1:-1, None]) / kappa
    above = -np.expm1(-np.exp(logs.clip(-700, 50))) @ share
    weight = -np.diff(np.concatenate([[1.0], above, [0.0]]))
    return np.exp((edges[1:] + edges[:-1]) / 2), weight
