r"""Kernel Stein discrepancy and Stein thinning: the quality of samples from gradients alone.

In coordinates z that make Gamma, a covariance, the identity, with score :math:`s = \nabla \log \pi`
and the inverse multiquadric kernel :math:`(1 + |r|^2)^{-1/2}`, r = z - z', the kernel

.. math:: k_\pi(z, z') = \frac{D}{q^{3/2}} - \frac{3 |r|^2}{q^{5/2}}
   + \frac{(s - s')^\top r}{q^{3/2}} + \frac{s^\top s'}{q^{1/2}}, \qquad q = 1 + |r|^2,

has mean zero under the target, in either argument. So its mean over pairs of samples measures how
far they are from the target, including a bias that all chains share, which R-hat cannot detect.
"""

from math import sqrt

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.inference.ranges import at_least, check_range
from alphamf.tools.arrays import Array, parts, to_host

ROWS = 500
"""Number of rows of the kernel's n x n matrix that are in memory at a time."""


def stein_discrepancy(draws: Array, scores: Array, covariance: Array | None = None) -> float:
    r"""Return the kernel Stein discrepancy, :math:`\sqrt{n^{-2} \sum_{ij} k_\pi(z_i, z_j)}`.

    It is zero for the target's law alone, and of the order of n^-1/2 for n independent samples of
    it. To compare samples, give all the same `covariance`. The discrepancy hardly depends on the
    weights of modes that are far from each other. The time is O(n^2 D).

    Parameters
    ----------
    draws
        Positions, shape (n, D) or (kept, chains, D).
    scores
        Gradients of the log density at the draws, given all data (minus ``grad`` of a potential),
        of the same shape.
    covariance
        Gamma, shape (D, D); None: the covariance of the draws.

    Raises
    ------
    AlphaMFError
        `draws` or `scores` have unfit shapes or are not finite, or Gamma is not positive definite.

    References
    ----------
    Liu, Lee & Jordan, ICML 2016; Gorham & Mackey, "Measuring sample quality with kernels", ICML
    2017, for the kernel.

    Examples
    --------
    >>> draws = np.random.default_rng(0).standard_normal((1000, 2))
    >>> wide = 1.3 * draws
    >>> [round(stein_discrepancy(x, -x, np.eye(2)), 2) for x in (draws, wide)]
    [0.05, 0.22]
    """
    z, s = _whitened(draws, scores, covariance)
    total = sum(float(_kernel(z[some], s[some], z, s).sum()) for some in parts(len(z), ROWS))
    return sqrt(max(total, 0.0)) / len(z)


def stein_thin(draws: Array, scores: Array, count: int, covariance: Array | None = None) -> Array:
    """Choose the samples that represent the target best, one after another.

    Each choice minimises the kernel Stein discrepancy of the samples chosen so far. A sample may be
    chosen more than once. The time is O(n count D).

    Parameters
    ----------
    draws, scores, covariance
        As for `stein_discrepancy`.
    count
        Number of samples to choose.

    Returns
    -------
    Array
        Indices into the draws reshaped to (n, D), shape (count,).

    Raises
    ------
    AlphaMFError
        As `stein_discrepancy`, or `count` is below 1.

    References
    ----------
    Riabiz et al., JRSS B 84 (2022), algorithm 1.

    Examples
    --------
    >>> draws = np.random.default_rng(0).standard_normal((1000, 1))
    >>> chosen = draws[stein_thin(draws, -draws, 20)]
    >>> bool(abs(chosen.mean()) < 0.1)
    True
    """
    check_range("count", count, at_least(1))
    z, s = _whitened(draws, scores, covariance)
    pull = 0.5 * (z.shape[-1] + (s * s).sum(-1))  # half of the kernel of each sample with itself
    chosen = []
    for _ in range(count):
        best = int(np.argmin(pull))
        chosen.append(best)
        pull += _kernel(z[[best]], s[[best]], z, s)[0]
    return np.array(chosen)


def _whitened(draws: Array, scores: Array, covariance: Array | None) -> tuple[Array, Array]:
    """Return positions and scores in coordinates in which Gamma is the identity, shape (n, D)."""
    x, s = (np.asarray(to_host(each), np.float64) for each in (draws, scores))
    if x.shape != s.shape or x.ndim not in (2, 3) or not x.size:
        raise AlphaMFError(
            f"draws and scores must have the same shape (n, D), not {x.shape} and {s.shape}"
        )
    if not (np.isfinite(x).all() and np.isfinite(s).all()):
        raise AlphaMFError("draws and scores must be finite")
    x, s = x.reshape(-1, x.shape[-1]), s.reshape(-1, x.shape[-1])
    gamma = np.atleast_2d(np.cov(x.T) if covariance is None else covariance)
    try:
        root = np.linalg.cholesky(gamma)
    except np.linalg.LinAlgError:
        raise AlphaMFError("covariance must be positive definite") from None
    return np.linalg.solve(root, x.T).T, s @ root


def _kernel(z: Array, s: Array, others: Array, their_s: Array) -> Array:
    """Return the kernel of samples `z`, (m, D), and `others`, (n, D), with their scores: (m, n)."""
    squares = (z * z).sum(-1)[:, None] + (others * others).sum(-1) - 2 * z @ others.T
    squares = np.maximum(squares, 0)
    q = 1 + squares
    # (s - s')'r with r = z - z', multiplied out.
    along = ((s * z).sum(-1)[:, None] - s @ others.T) - (z @ their_s.T - (their_s * others).sum(-1))
    kernel: Array = (z.shape[-1] + along - 3 * squares / q) / (q * np.sqrt(q))
    kernel += s @ their_s.T / np.sqrt(q)
    return kernel
