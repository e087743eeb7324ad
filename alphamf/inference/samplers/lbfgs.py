r"""The limited-memory BFGS inverse Hessian H, by products that never form it.

From pairs (s, y) of displacements and gradient differences, oldest first, and H = gamma I,

.. math:: H \leftarrow (I - \rho s y^\top) H (I - \rho y s^\top) + \rho s s^\top,
   \qquad \rho = 1 / s^\top y.

A pair must have s'y > 0 for H to stay positive definite. Pairs that do not, by more than rounding,
are skipped (rho = 0), each chain for itself; a pair of zeros is therefore an empty place.

Vectors have shape (*chains, D).
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

from alphamf.tools.arrays import Array, dot, namespace


def curvatures(s: Array, y: Array) -> tuple[Array, Array]:
    """Return s'y and its reciprocal rho, both 0 where a pair is skipped, shape (..., 1).

    A pair is skipped unless the cosine of s and y exceeds the square root of the dtype's
    resolution: 3e-4 in float32, which only Hessians of condition above 1e7 fall below.
    """
    xp = namespace(s)
    sy = dot(s, y)
    safe = sy > _least(dot(s, s), dot(y, y))
    sy *= safe
    return sy, safe / xp.where(safe, sy, 1)


def _least(ss: Array, yy: Array, resolution: float | None = None) -> Array:
    """Return the s'y that a pair must exceed, from s's and y'y and the vectors' resolution."""
    xp = namespace(ss)
    least: Array = xp.sqrt(ss)
    least *= xp.sqrt(yy)
    least *= sqrt(float(xp.finfo(ss.dtype).eps) if resolution is None else resolution)
    return least


class Compact(NamedTuple):
    r"""H as the compact form has it, in numbers that do not grow with D.

    With S and Y the matrices whose columns are the pairs, R the upper triangle of S'Y (diagonal
    included), D its diagonal and P = R^-1 S',

    .. math:: H = \gamma (I - P^\top Y^\top)(I - Y P) + P^\top D P.

    So H g and a draw from N(0, H) are sums of the pairs, under weights made of their inner products
    with g and with the noise.

    Attributes
    ----------
    gamma
        H where there are no pairs.
    inverse
        R^-1, 0 for skipped pairs, shape (*chains, m, m): P is never formed.
    sy
        D, 0 for skipped pairs, shape (*chains, m).
    yy
        Y'Y, shape (*chains, m, m).

    References
    ----------
    Byrd, Nocedal & Schnabel, Mathematical Programming 63 (1994), eq. 2.6.
    """

    gamma: float
    inverse: Array
    sy: Array
    yy: Array

    def product(self, sg: Array, yg: Array) -> tuple[Array, Array]:
        r"""Return the weights a and b of :math:`H g = \gamma g + S a + Y b`.

        Parameters
        ----------
        sg, yg
            S'g and Y'g, shape (*chains, m, 1), as the weights are.
        """
        b = self.inverse @ sg
        a = self.sy[..., None] * b
        a += self.gamma * (self.yy @ b - yg)
        b *= -self.gamma
        return _transposed(self.inverse) @ a, b

    def noise(self, yz: Array, w: Array) -> Array:
        r"""Return the weights a of :math:`\sqrt\gamma z + S a`, a draw from N(0, H).

        The compact form is a sum of two squares, so
        :math:`\sqrt\gamma (I - P^\top Y^\top) z + P^\top D^{1/2} w` has covariance H.

        Parameters
        ----------
        yz
            Y'z, shape (*chains, m, 1), as the weights are; z is standard normal.
        w
            Standard normal, shape (*chains, m).
        """
        a = yz * -sqrt(self.gamma)
        a += (namespace(w).sqrt(self.sy) * w)[..., None]
        return _transposed(self.inverse) @ a


class InverseHessian(NamedTuple):
    r"""H in the compact form, which serves any number of products.

    Attributes
    ----------
    s, y
        Pairs, shape (*chains, m, D).
    form
        What is made of their inner products.
    """

    s: Array
    y: Array
    form: Compact

    def apply(self, g: Array) -> Array:
        """Return H g, in O(m D)."""
        column = g[..., None]
        a, b = self.form.product(self.s @ column, self.y @ column)
        h = _combine(self.s, a)
        h += _combine(self.y, b)
        h += self.form.gamma * g
        return h

    def draw(self, z: Array, w: Array) -> Array:
        r"""Return a draw from N(0, H) where z and w, shape (*chains, m), are standard normal.

        It takes O(m D), where a square root of H takes O(m^2 D)
        (``tests/inference/samplers/test_lbfgs.py`` has that of the HAMCMC paper's eq. 11,
        corrected).
        """
        x = _combine(self.s, self.form.noise(self.y @ z[..., None], w))
        x += sqrt(self.form.gamma) * z
        return x

    def inverse_root(self, z: Array) -> Array:
        r"""Return a draw from N(0, B), B = H^-1, where z is standard normal, in O(m^2 D).

        The pairs must stand oldest first.

        It is R z with R R' = B, pair by pair

        .. math:: R \leftarrow (I + u t^\top) R, \qquad t = \frac{s}{\sqrt{s^\top B s}}, \qquad
           u = \frac{y}{\sqrt{s^\top y}} - \frac{B s}{\sqrt{s^\top B s}},

        with B before the pair: the inverse, by the Sherman-Morrison formula, and transpose of the
        square root of H by Brodie, Gourlay & Greenstadt, IMA J. Appl. Math. 11 (1973).
        """
        xp = namespace(z)
        rho = (self.form.sy > 0) / xp.where(self.form.sy > 0, self.form.sy, 1)
        x = z * (1 / sqrt(self.form.gamma))
        units: list[Array] = []  # Bs / sqrt(s'Bs) of the pairs before, 0 where one is skipped
        for k in range(self.s.shape[-2]):
            s, y, scale = self.s[..., k, :], self.y[..., k, :], rho[..., k, None]
            unit = s * (1 / self.form.gamma)
            for j, earlier in enumerate(units):
                unit -= dot(earlier, s) * earlier
                unit += (rho[..., j, None] * dot(self.y[..., j, :], s)) * self.y[..., j, :]
            length = dot(s, unit)
            safe = (scale > 0) & (length > 0)
            size = safe / xp.sqrt(xp.where(safe, length, 1))
            unit *= size
            units.append(unit)
            x += size * dot(s, x) * (xp.sqrt(scale) * y - unit)
        return x


def _transposed(matrix: Array) -> Array:
    transposed: Array = namespace(matrix).swapaxes(matrix, -1, -2)
    return transposed


def _combine(vectors: Array, weights: Array) -> Array:
    """Return the sum of vectors (*chains, m, D) under weights (*chains, m, 1)."""
    return (_transposed(weights) @ vectors)[..., 0, :]


class Products(NamedTuple):
    """Inner products of pairs, of which a step changes one row and column each.

    Attributes
    ----------
    sy, yy
        S'Y and Y'Y, shape (*chains, m, m).
    ss
        The diagonal of S'S, shape (*chains, m).
    """

    sy: Array
    yy: Array
    ss: Array


def products(s: Array, y: Array) -> Products:
    """Return the inner products of pairs of shape (m, *chains, D), in O(m^2 D)."""
    s, y = _chains_first(s), _chains_first(y)
    across = _transposed(y)
    # A copy, because of Y'Y NumPy makes a symmetric product, which is slow for few long vectors.
    return Products(s @ across, y.copy() @ across, dot(s, s)[..., 0])


def renewed(known: Products, s: Array, y: Array, place: int) -> Products:
    """Return the products where only the pair at `place` is another one, in O(m D)."""
    new_s, new_y = s[place], y[place]
    s, y = _chains_first(s), _chains_first(y)
    sy, yy, ss = (each.copy() for each in known)
    sy[..., place, :] = (y @ new_s[..., None])[..., 0]
    sy[..., :, place] = (s @ new_y[..., None])[..., 0]
    yy[..., place, :] = yy[..., :, place] = (y @ new_y[..., None])[..., 0]
    ss[..., place] = dot(new_s, new_s)[..., 0]
    return Products(sy, yy, ss)


def _chains_first(vectors: Array) -> Array:
    """Return a view of (m, *chains, D) as (*chains, m, D)."""
    return vectors.transpose((*range(1, vectors.ndim - 1), 0, vectors.ndim - 1))


def inverse_hessian(s: Array, y: Array, gamma: float) -> InverseHessian:
    """Return H from pairs of shape (m, *chains, D), oldest first, in O(m^2 D)."""
    return from_products(s, y, gamma, products(s, y))


def from_products(
    s: Array, y: Array, gamma: float, known: Products, oldest: int = 0
) -> InverseHessian:
    """Return H from pairs whose inner products are known.

    Parameters
    ----------
    s, y
        Pairs, shape (m, *chains, D), in a ring.
    oldest
        Place of the oldest pair, which the others follow by age, the first after the last.
    """
    age = (namespace(s).arange(len(s)) - oldest) % len(s)
    return InverseHessian(_chains_first(s), _chains_first(y), compact(known, gamma, age))


def compact(known: Products, gamma: float, age: Array, resolution: float | None = None) -> Compact:
    """Return H from the inner products of its pairs.

    Parameters
    ----------
    known
        Inner products.
    gamma
        H where there are no pairs.
    age
        Number of each pair in the order of age, the oldest 0, shape (m,).
    resolution
        Of the vectors, 1e-7 for float32; None: that of the products.
    """
    cross, yy, ss = known
    xp = namespace(cross)
    sy = xp.diagonal(cross, axis1=-2, axis2=-1)
    safe = sy > _least(ss, xp.diagonal(yy, axis1=-2, axis2=-1), resolution)
    kept = safe[..., :, None] & safe[..., None, :]
    rows = age[:, None]
    # Triangular by age. What follows does not mind in which order the pairs are.
    upper = xp.where(kept & (rows <= age), cross, rows == age)
    return Compact(gamma, xp.linalg.inv(upper) * kept, sy * safe, yy)
