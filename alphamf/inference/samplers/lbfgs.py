"""The limited-memory BFGS inverse Hessian H as products, without forming the matrix.

It starts from gamma I and is updated by pairs (s, y) of displacements and gradient differences,
oldest first (Nocedal & Wright, 2006, eq. 6.17). A pair must have s'y > 0, beyond rounding, for H to
stay positive definite; others are skipped (rho = 0 instead of 1 / s'y), in each chain separately,
so that a pair of zeros is an empty slot. Vectors have shape (*chains, D).
"""

from math import sqrt
from typing import NamedTuple

from alphamf.tools.arrays import Array, dot, namespace, put


def least_curvature(ss: Array, yy: Array, resolution: float | None = None) -> Array:
    """Return the number that s'y of a pair must exceed, given s's and y'y, both of one shape.

    `resolution`: relative precision of the vectors, 1e-7 for float32. None: that of the dtype.
    """
    xp = namespace(ss)
    least: Array = xp.sqrt(ss)
    least *= xp.sqrt(yy)
    least *= sqrt(float(xp.finfo(ss.dtype).eps) if resolution is None else resolution)
    return least


class CompactHessian(NamedTuple):
    r"""H in compact form: arrays whose size does not depend on that of theta.

    With S and Y the matrices whose columns are s and y of m pairs, R the upper triangle of S'Y
    (diagonal included), D its diagonal and P = R^-1 S',

    .. math:: H = \gamma (I - P^\top Y^\top)(I - Y P) + P^\top D P.

    H g is gamma g plus a weighted sum of s and y; a draw from N(0, H) is noise plus one of s, with
    weights from inner products (Byrd, Nocedal & Schnabel, Math. Programming 63, 1994, eq. 2.6).
    """

    gamma: float  # H is gamma I where there are no pairs
    inverse: Array  # R^-1, 0 for skipped pairs, shape (*chains, m, m): P is never formed
    sy: Array  # D, 0 for skipped pairs, shape (*chains, m)
    yy: Array  # Y'Y, shape (*chains, m, m)

    def product(self, sg: Array, yg: Array) -> tuple[Array, Array]:
        r"""Return the weights a and b of :math:`H g = \gamma g + S a + Y b`.

        `sg`, `yg`: S'g and Y'g, shape (*chains, m, 1), as the weights are.
        """
        b = self.inverse @ sg
        a = self.sy[..., None] * b
        a += self.gamma * (self.yy @ b - yg)
        b *= -self.gamma
        return swap_last_axes(self.inverse) @ a, b

    def noise(self, yz: Array, w: Array) -> Array:
        r"""Return the weights a of :math:`\sqrt\gamma z + S a`, a draw from N(0, H).

        The compact form is a sum of two squares, so
        :math:`\sqrt\gamma (I - P^\top Y^\top) z + P^\top D^{1/2} w` has covariance H.

        `yz`: Y'z, shape (*chains, m, 1), as the weights are; z is standard normal. `w`: standard
        normal, shape (*chains, m).
        """
        a = yz * -sqrt(self.gamma)
        a += (namespace(w).sqrt(self.sy) * w)[..., None]
        return swap_last_axes(self.inverse) @ a


class Products(NamedTuple):
    """Inner products of m pairs (S, Y of `CompactHessian`); a new pair changes a row and column."""

    # sy, yy: S'Y and Y'Y, shape (*chains, m, m).
    sy: Array
    yy: Array
    ss: Array  # The diagonal of S'S, shape (*chains, m)


def products(s: Array, y: Array) -> Products:
    """Return the inner products of pairs of shape (m, *chains, D), in O(m^2 D)."""
    s, y = chains_first(s), chains_first(y)
    across = swap_last_axes(y)
    # A copy, because of Y'Y NumPy makes a symmetric product, which is slow for few long vectors.
    return Products(s @ across, y.copy() @ across, dot(s, s)[..., 0])


def update_products(known: Products, s: Array, y: Array, place: int) -> Products:
    """Return the products after only the pair at `place` has changed, in O(m D)."""
    new_s, new_y = s[place], y[place]
    s, y = chains_first(s), chains_first(y)
    sy, yy, ss = (each.copy() for each in known)
    row, column = (..., place, slice(None)), (..., slice(None), place)
    sy = put(sy, row, (y @ new_s[..., None])[..., 0])
    sy = put(sy, column, (s @ new_y[..., None])[..., 0])
    across = (y @ new_y[..., None])[..., 0]
    yy = put(put(yy, row, across), column, across)
    return Products(sy, yy, put(ss, (..., place), dot(new_s, new_s)[..., 0]))


def chains_first(vectors: Array) -> Array:
    """Return a view of (m, *chains, D) as (*chains, m, D)."""
    return vectors.transpose((*range(1, vectors.ndim - 1), 0, vectors.ndim - 1))


def compact_hessian(
    known: Products, gamma: float, age: Array, resolution: float | None = None
) -> CompactHessian:
    """Return H from its pairs' products; `age`: shape (m,), from 0 for the oldest pair on."""
    cross, yy, ss = known
    xp = namespace(cross)
    sy = xp.diagonal(cross, axis1=-2, axis2=-1)
    safe = sy > least_curvature(ss, xp.diagonal(yy, axis1=-2, axis2=-1), resolution)
    kept = safe[..., :, None] & safe[..., None, :]
    rows = age[:, None]
    # Triangular by age. What follows does not mind in which order the pairs are.
    upper = xp.where(kept & (rows <= age), cross, rows == age)
    return CompactHessian(gamma, xp.linalg.inv(upper) * kept, sy * safe, yy)


def swap_last_axes(matrix: Array) -> Array:
    """Return a view with the last two axes exchanged."""
    return namespace(matrix).swapaxes(matrix, -1, -2)


def curvatures(s: Array, y: Array) -> tuple[Array, Array]:
    """Return s'y and its reciprocal rho, both 0 where a pair is skipped, shape (..., 1).

    A pair is skipped unless the cosine of s and y exceeds the root of the dtype's resolution, 3e-4
    in float32; for a convex U only a Hessian of condition above 1e7 leads to a smaller cosine.
    """
    xp = namespace(s)
    sy = dot(s, y)
    safe = sy > least_curvature(dot(s, s), dot(y, y))
    sy *= safe
    return sy, safe / xp.where(safe, sy, 1)


class InverseHessian(NamedTuple):
    r"""H with its pairs, for any number of products and draws."""

    # s, y: pairs, shape (*chains, m, D).
    s: Array
    y: Array
    form: CompactHessian  # The compact form, from their inner products

    def apply(self, g: Array) -> Array:
        """Return H g, in O(m D)."""
        column = g[..., None]
        a, b = self.form.product(self.s @ column, self.y @ column)
        h = _combine(self.s, a)
        h += _combine(self.y, b)
        h += self.form.gamma * g
        return h

    def draw(self, z: Array, w: Array) -> Array:
        """Return a draw from N(0, H), from standard normal z, (*chains, D), and w, (*chains, m)."""
        x = _combine(self.s, self.form.noise(self.y @ z[..., None], w))
        x += sqrt(self.form.gamma) * z
        return x

    def inverse_root(self, z: Array) -> Array:
        r"""Return a draw from N(0, B), B = H^-1, where z is standard normal, in O(m^2 D).

        The pairs must be in order, the oldest first.

        The draw is R z with R R' = B; each pair in turn changes R,

        .. math:: R \leftarrow (I + u t^\top) R, \qquad t = \frac{s}{\sqrt{s^\top B s}}, \qquad
           u = \frac{y}{\sqrt{s^\top y}} - \frac{B s}{\sqrt{s^\top B s}},

        with B as before the pair: R is the inverse (by the Sherman-Morrison formula) and transpose
        of the square root of H by Brodie, Gourlay & Greenstadt, IMA J. Appl. Math. 11 (1973).
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


def _combine(vectors: Array, weights: Array) -> Array:
    """Return the sum of vectors (*chains, m, D) under weights (*chains, m, 1)."""
    return (swap_last_axes(weights) @ vectors)[..., 0, :]


def inverse_hessian(s: Array, y: Array, gamma: float) -> InverseHessian:
    """Return H from pairs of shape (m, *chains, D), oldest first, in O(m^2 D)."""
    return from_products(s, y, gamma, products(s, y))


def from_products(
    s: Array, y: Array, gamma: float, known: Products, oldest: int = 0
) -> InverseHessian:
    """Return H from pairs (m, *chains, D) in a ring, its oldest at `oldest`, and their products."""
    age = (namespace(s).arange(len(s)) - oldest) % len(s)
    return InverseHessian(chains_first(s), chains_first(y), compact_hessian(known, gamma, age))
