r"""Likelihood of a spectrogram given a dispersion, with Phi integrated out.

A cell X of a source with dispersion v is complex, isotropic and symmetric alpha-stable:
:math:`E e^{i \Re(\bar z X)} = e^{-v (|z|^2/2)^{\alpha/2}}`. Its density is a Hankel transform,

.. math:: p(X; v) = v^{-2/\alpha}\, p_1(|X|\, v^{-1/\alpha}), \qquad
   p_1(r) = \frac{1}{2\pi} \int_0^\infty e^{-(t^2/2)^{\alpha/2}} J_0(rt)\, t\, dt,

which oscillates. The same number is the mean, over the law of Phi, of a complex Gaussian density,
:math:`p_1(r) = E\, e^{-r^2/\Phi} / (\pi\Phi)`. With Kanter's form of that law
(`alphamf.factorization.stable`), :math:`\Phi = 2\, b(U)\, E^{-\kappa}`, :math:`\kappa = 2/\alpha -
1`, with b the factor of U, it is an integral of positive smooth functions, which the trapezoidal
rule in :math:`\log E` and in the logit of U computes to six digits from the centre far into the
tail, :math:`p_1(r) \sim C r^{-2-\alpha}`. Closed forms are the Gaussian at alpha = 2 and, at alpha
= 1, Cauchy's law in the plane.

Unlike the potential of `AlphaMFTarget`, which depends on Phi, this density can compare dispersions,
and also indices alpha, with each other.

References
----------
Kanter, Annals of Probability 3 (1975); Samorodnitsky & Taqqu, Stable Non-Gaussian Random Processes
(1994), section 2.5, for isotropic laws; Trefethen & Weideman, SIAM Review 56 (2014), for the
trapezoidal rule.
"""

from functools import lru_cache

import numpy as np

from alphamf.factorization.cells import FLOOR, TINY
from alphamf.factorization.stable import check_alpha
from alphamf.tools.arrays import Floats

LOWEST, HIGHEST = -16.0, 44.0
"""Range of log r^2 in the table of log p_1. Below, p_1 is constant; above, it is a power of r."""

STEP = 1 / 128
"""Distance in log r^2 between two entries of the table."""

ROUNDING = 1e-10
"""An alpha that is closer than this to 2 counts as 2: decimal numbers are rounded, and so faint a
tail lies beyond the table."""


def log_density(power: Floats, dispersion: Floats, alpha: float) -> Floats:
    """Return the log density of each cell, in nats.

    Parameters
    ----------
    power
        |X|^2, any shape.
    dispersion
        v, of a shape that broadcasts with `power`'s. As in `AlphaMFTarget`, a variance of `FLOOR`
        is added, so that no cell's density grows without bound.
    alpha
        Index of the stable law, from 0.5 to 2.

    Returns
    -------
    ndarray
        log p(X; v), of the common shape and dtype of `power` and `dispersion`.

    Raises
    ------
    AlphaMFError
        alpha is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> power, dispersion = np.array([0.1, 10.0, 1000.0]), np.ones(3)
    >>> log_density(power, dispersion, 2.0).round(1)  # a Gaussian falls fast
    array([  -1.9,   -6.8, -501.8])
    >>> log_density(power, dispersion, 1.2).round(1)  # a heavy tail does not
    array([ -1.6,  -5.7, -13.2])
    """
    check_alpha(alpha)
    # The scale of |X|^2: a Gaussian of variance FLOOR is, at alpha = 2, one of scale FLOOR / 2.
    scale = np.maximum(dispersion, TINY) ** np.asarray(2 / alpha, dispersion.dtype)
    scale += np.asarray(FLOOR / 2, scale.dtype)
    ratio = power / scale
    if 2 - alpha < ROUNDING:
        return -np.log(2 * np.pi * scale) - ratio / 2
    table = _table(float(alpha)).astype(power.dtype)
    np.maximum(ratio, np.exp(LOWEST), out=ratio)
    place = (np.log(ratio) - LOWEST) / STEP
    entry = np.minimum(place.astype(np.int32), len(table) - 2)
    place -= entry
    # Beyond the end, the last slope: the power law of the tail.
    first = table[entry]
    density = first + place * (table[entry + 1] - first) - np.log(scale)
    return density


@lru_cache(maxsize=64)
def _table(alpha: float) -> Floats:
    """Return log p_1 at log r^2 from `LOWEST` to `HIGHEST` in steps of `STEP`; alpha is below 2."""
    from scipy.interpolate import CubicSpline

    h = alpha / 2
    kappa = (1 - h) / h
    # U by its logit, and by its distance from the nearer end, which keeps its digits near pi.
    logit, step = np.linspace(-40, 64, 417, retstep=True)
    near = np.logaddexp(0, -np.abs(logit))
    distance = np.pi * np.exp(-np.abs(logit) - near)
    u = np.where(logit > 0, np.pi - distance, distance)
    log_b = (
        np.log(np.sin(h * u)) + kappa * np.log(np.sin((1 - h) * u)) - np.log(np.sin(distance)) / h
    )
    weight_u = step * np.exp(-np.abs(logit) - 2 * near - log_b) / (2 * np.pi)
    log_e, step = np.linspace(-48 / max(kappa, 1), 4, 321, retstep=True)
    weight_e = step * np.exp((1 + kappa) * log_e - np.exp(log_e))
    powers = np.exp(kappa * log_e)
    coarse = np.linspace(LOWEST, HIGHEST, round(8 * (HIGHEST - LOWEST)) + 1)
    density = [
        weight_u @ (np.exp(-np.multiply.outer(np.exp(x - np.log(2) - log_b), powers)) @ weight_e)
        for x in coarse
    ]
    fine = np.linspace(LOWEST, HIGHEST, round((HIGHEST - LOWEST) / STEP) + 1)
    return CubicSpline(coarse, np.log(density))(fine)
