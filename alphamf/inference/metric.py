r"""Riemannian metrics G, dense or diagonal, with the operations that samplers need.

A potential's ``metric(theta)`` returns a metric; a mass matrix or its inverse is a metric that does
not depend on theta. Vectors have shape (*chains, D); the chain axes of a metric may be missing if
it is the same for all chains.
"""

from typing import NamedTuple

from alphamf.tools.arrays import Array, namespace


class Diagonal(NamedTuple):
    r"""A diagonal metric, G = diag(g).

    Attributes
    ----------
    g
        The diagonal of G, positive, shape (*chains, D).
    slope
        ``slope[..., k, i]`` is the derivative of g_i by theta_k; None if G is constant.

    Examples
    --------
    >>> metric = Diagonal(np.array([1.0, 4.0]))
    >>> metric.solve(np.array([1.0, 1.0])), metric.log_det().round(3)
    (array([1.  , 0.25]), np.float64(1.386))
    """

    g: Array
    slope: Array | None = None

    def apply(self, v: Array) -> Array:
        """Return G v, of the shape of v: (*chains, D)."""
        return self.g * v

    def solve(self, v: Array) -> Array:
        """Return the solution x of G x = v, of the shape of v."""
        return v / self.g

    def root(self, z: Array) -> Array:
        """Return the root of G times z: a draw from N(0, G) if z is standard normal."""
        return namespace(z).sqrt(self.g) * z

    def inverse_root(self, z: Array) -> Array:
        """Return the inverse root of G times z: a draw from N(0, G^-1) if z is standard normal."""
        return z / namespace(z).sqrt(self.g)

    def log_det(self) -> Array:
        """Return log det G, shape (*chains,)."""
        return namespace(self.g).log(self.g).sum(-1)

    def divergence(self) -> Array | float:
        r"""Return sum_j d(G^-1)_ij / d theta_j per i, shape (*chains, D); 0.0 for constant G."""
        if self.slope is None:
            return 0.0
        xp = namespace(self.g)
        return -xp.diagonal(self.slope, axis1=-2, axis2=-1) / (self.g * self.g)

    def force(self, p: Array) -> Array | float:
        r"""Return the gradient by theta of (p' G^-1 p + log |G|) / 2; 0.0 for constant G."""
        if self.slope is None:
            return 0.0
        v = p / self.g
        excess = 1 / self.g
        excess -= v * v
        return 0.5 * namespace(p).matmul(self.slope, excess[..., None])[..., 0]


class Dense(NamedTuple):
    r"""A dense metric: a symmetric positive definite G, with the methods of `Diagonal`.

    Attributes
    ----------
    g
        G, shape (*chains, D, D).
    slope
        ``slope[..., k, i, j]`` is the derivative of G_ij by theta_k; None if G is constant.

    Examples
    --------
    >>> metric = Dense(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> metric.apply(np.array([1.0, 0.0])), metric.log_det().round(3)
    (array([2., 1.]), np.float64(1.099))
    """

    g: Array
    slope: Array | None = None

    def diagonal(self) -> Diagonal:
        """Return the diagonal part, as a metric."""
        xp = namespace(self.g)
        slope = self.slope
        return Diagonal(
            xp.diagonal(self.g, axis1=-2, axis2=-1),
            None if slope is None else xp.diagonal(slope, axis1=-2, axis2=-1),
        )

    def apply(self, v: Array) -> Array:
        return namespace(v).matmul(self.g, v[..., None])[..., 0]

    def solve(self, v: Array) -> Array:
        return _solve(self.g, v)

    def root(self, z: Array) -> Array:
        xp = namespace(z)
        return xp.matmul(xp.linalg.cholesky(self.g), z[..., None])[..., 0]

    def inverse_root(self, z: Array) -> Array:
        xp = namespace(z)
        upper = xp.swapaxes(xp.linalg.cholesky(self.g), -1, -2)
        return _solve(upper, z)

    def log_det(self) -> Array:
        xp = namespace(self.g)
        roots = xp.diagonal(xp.linalg.cholesky(self.g), axis1=-2, axis2=-1)
        return 2 * xp.log(roots).sum(-1)

    def divergence(self) -> Array | float:
        if self.slope is None:
            return 0.0
        xp = namespace(self.g)
        inverse = xp.linalg.inv(self.g)
        inner = xp.einsum("...kij,...jk->...i", self.slope, inverse)
        return -xp.matmul(inverse, inner[..., None])[..., 0]

    def force(self, p: Array) -> Array | float:
        if self.slope is None:
            return 0.0
        xp = namespace(p)
        v = self.solve(p)
        excess = xp.linalg.inv(self.g)
        excess -= v[..., :, None] * v[..., None, :]
        return 0.5 * xp.einsum("...kij,...ij->...k", self.slope, excess)


def _solve(matrix: Array, v: Array) -> Array:
    """Return x of matrix x = v; shapes: (*chains, D, D) or (D, D), and (*chains, D) for x and v."""
    xp = namespace(v)
    # CuPy's solve does not broadcast a matrix over right-hand sides.
    matrix = xp.broadcast_to(matrix, (*v.shape[:-1], *matrix.shape[-2:]))
    return xp.linalg.solve(matrix, v[..., None])[..., 0]


Metric = Diagonal | Dense
