r"""The limited-memory BFGS inverse Hessian H as products, without forming the matrix.

From pairs (s, y) of displacements and gradient differences, oldest first, and H = gamma I,

.. math:: H \leftarrow (I - \rho s y^\top) H (I - \rho y s^\top) + \rho s s^\top,
   \qquad \rho = 1 / s^\top y.

A pair must have s'y > 0 for H to stay positive definite. Pairs without this property, beyond
rounding, are skipped (rho = 0), in each chain separately; a pair of zeros is therefore an empty
slot.

Vectors have shape (*chains, D).
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

from alphamf.errors import AlphaMFError
from alphamf.inference.samplers.compact import (
    CompactHessian,
    Products,
    chains_first,
    compact_hessian,
    least_curvature,
    products,
    swap_last_axes,
)
from alphamf.tools.arrays import Array, dot, namespace


def curvatures(s: Array, y: Array) -> tuple[Array, Array]:
    """Return s'y and its reciprocal rho, both 0 where a pair is skipped, shape (..., 1).

    A pair is skipped unless the cosine of s and y exceeds the square root of the dtype's
    resolution: 3e-4 in float32, which only Hessians of condition above 1e7 fall below.
    """
    xp = namespace(s)
    sy = dot(s, y)
    safe = sy > least_curvature(dot(s, s), dot(y, y))
    sy *= safe
    return sy, safe / xp.where(safe, sy, 1)


class InverseHessian(NamedTuple):
    r"""H in compact form, for any number of products."""

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
        """Return a draw from N(0, H) where z and w, shape (*chains, m), are standard normal."""
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


def _combine(vectors: Array, weights: Array) -> Array:
    """Return the sum of vectors (*chains, m, D) under weights (*chains, m, 1)."""
    return (swap_last_axes(weights) @ vectors)[..., 0, :]


def inverse_hessian(s: Array, y: Array, gamma: float) -> InverseHessian:
    """Return H from pairs of shape (m, *chains, D), oldest first, in O(m^2 D)."""
    return from_products(s, y, gamma, products(s, y))


def from_products(
    s: Array, y: Array, gamma: float, known: Products, oldest: int = 0
) -> InverseHessian:
    """Return H from pairs whose inner products are known.

    `s`, `y`: pairs, shape (m, *chains, D), in a ring.
    """
    age = (namespace(s).arange(len(s)) - oldest) % len(s)
    return InverseHessian(chains_first(s), chains_first(y), compact_hessian(known, gamma, age))


def check_pairs(memory: int, least: int, gamma: float, trust: float) -> None:
    """Raise an AlphaMFError if a hyperparameter of HAMCMC or a relative is out of range."""
    if memory < least:
        raise AlphaMFError(f"memory must be at least {least}, not {memory}")
    check_gamma(gamma)
    if not trust >= 0:
        raise AlphaMFError(f"trust must not be negative, not {trust}")


def check_gamma(gamma: float) -> None:
    """Raise an AlphaMFError if the scale of an initial inverse Hessian is not positive."""
    if not gamma > 0:
        raise AlphaMFError(f"gamma must be positive, not {gamma}")
