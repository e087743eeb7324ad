r"""The limited-memory BFGS inverse Hessian H, as products that never form it.

From pairs (s, y) of displacements and gradient differences, oldest first, and H = gamma I,

.. math:: H \leftarrow (I - \rho s y^\top) H (I - \rho y s^\top) + \rho s s^\top,
   \qquad \rho = 1 / s^\top y.

A pair must have s'y > 0 for H to stay positive definite. Pairs that do not, by more than rounding,
are skipped (rho = 0), each chain for itself; a pair of zeros is therefore an empty place.

Arrays: s and y have shape (m, *chains, D), vectors (*chains, D).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt

from alphamf.arrays import Array, dot, namespace


def curvatures(s: Array, y: Array) -> tuple[Array, Array]:
    """Return s'y and its reciprocal rho, both 0 where a pair is skipped, shape (m, *chains, 1).

    A pair is skipped unless the cosine of s and y exceeds the square root of the dtype's
    resolution: 3e-4 in float32, which only Hessians of condition above 1e7 fall below.
    """
    xp = namespace(s)
    sy = dot(s, y)
    least = dot(s, s)
    xp.sqrt(least, out=least)
    least *= xp.sqrt(dot(y, y))
    least *= sqrt(xp.finfo(s.dtype).eps)
    safe = sy > least
    sy *= safe
    return sy, safe / xp.where(safe, sy, 1)


def apply(s: Array, y: Array, gamma: float, g: Array) -> Array:
    """Return H g, in O(m D) by the two-loop recursion.

    References
    ----------
    Nocedal & Wright (2006), algorithm 7.4; Simsekli et al., ICML 2016, eq. 6.
    """
    _, rho = curvatures(s, y)
    h = g.copy()
    shares = [rho] * len(s)
    for k in reversed(range(len(s))):
        shares[k] = rho[k] * dot(s[k], h)
        h -= shares[k] * y[k]
    h *= gamma
    for k in range(len(s)):
        h += (shares[k] - rho[k] * dot(y[k], h)) * s[k]
    return h


def root(s: Array, y: Array, gamma: float, z: Array) -> Array:
    r"""Return S z with S S' = H, in O(m^2 D): a draw from N(0, H) where z is standard normal.

    .. math:: S \leftarrow (I - p q^\top) S, \qquad p = \frac{s}{s^\top y}, \qquad
       q = y - \sqrt{\frac{s^\top y}{s^\top B s}}\, B s, \qquad B = H^{-1}
       \leftarrow B - \frac{B s s^\top B}{s^\top B s} + \frac{y y^\top}{s^\top y}.

    The HAMCMC paper (eq. 11) prints s'By in the place of s'Bs, and q with the opposite sign of y,
    for which S S' is not H (``tests/test_lbfgs.py``).

    References
    ----------
    Brodie, Gourlay & Greenstadt, IMA J. Appl. Math. 11 (1973); Simsekli et al., ICML 2016, eq. 11.
    """
    xp = namespace(z)
    sy, rho = curvatures(s, y)
    x = z * sqrt(gamma)
    for k, (unit, _) in enumerate(_units(s, y, gamma, sy, rho)):
        share = rho[k] * (dot(y[k], x) - xp.sqrt(sy[k]) * dot(unit, x))
        x -= share * s[k]
    return x


def inverse_root(s: Array, y: Array, gamma: float, z: Array) -> Array:
    r"""Return R z with R R' = B = H^-1, in O(m^2 D): a draw from N(0, B) where z is standard.

    .. math:: R \leftarrow (I + u t^\top) R, \qquad t = \frac{s}{\sqrt{s^\top B s}}, \qquad
       u = \frac{y}{\sqrt{s^\top y}} - \frac{B s}{\sqrt{s^\top B s}},

    with B before the pair, which is R = S'^-1 for the S of `root`, by the Sherman-Morrison formula.

    References
    ----------
    Zhang & Sutton, NIPS 2011.
    """
    xp = namespace(z)
    sy, rho = curvatures(s, y)
    x = z * (1 / sqrt(gamma))
    for k, (unit, size) in enumerate(_units(s, y, gamma, sy, rho)):
        x += size * dot(s[k], x) * (xp.sqrt(rho[k]) * y[k] - unit)
    return x


def _units(
    s: Array, y: Array, gamma: float, sy: Array, rho: Array
) -> Iterator[tuple[Array, Array]]:
    """Yield Bs / sqrt(s'Bs) and 1 / sqrt(s'Bs) of each pair, both 0 where it is skipped."""
    xp = namespace(s)
    units: list[Array] = []
    for k in range(len(s)):
        unit = s[k] * (1 / gamma)
        for j, earlier in enumerate(units):
            unit -= dot(earlier, s[k]) * earlier
            unit += (rho[j] * dot(y[j], s[k])) * y[j]
        length = dot(s[k], unit)
        safe = (sy[k] > 0) & (length > 0)
        size = safe / xp.sqrt(xp.where(safe, length, 1))
        unit *= size
        units.append(unit)
        yield unit, size
