r"""The Nose-Poincare Hamiltonian and its leapfrog, for a constant mass or a Riemannian metric.

With :math:`E(\theta) = U + \frac12 \log |G|` and D dimensions, the Hamiltonian is

.. math:: H = s \left[ E(\theta) + \tfrac12 r^\top G^{-1} r + \frac{q^2}{2 Q} + D \log s - H_0
   \right], \qquad r = p / s.

Only on the surface H = 0 is its flow, in the physical momentum r, the one of Nose and Hoover,

.. math:: \dot\theta = G^{-1} r, \qquad
   \dot r = -\nabla (E + \tfrac12 r^\top G^{-1} r) - \tfrac qQ r, \qquad
   \dot q = r^\top G^{-1} r - D,

which leaves the posterior times N(0, G) for r times N(0, Q) for q invariant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from alphamf.inference.metric import Metric
from alphamf.inference.protocols import Target
from alphamf.inference.samplers.reflect import reflect
from alphamf.tools.arrays import Array, dot, namespace


class Constant(NamedTuple):
    """A constant metric M, given by its inverse."""

    inverse: Metric

    def solve(self, p: Array) -> Array:
        """Solve M x = p."""
        return self.inverse.apply(p)

    def root(self, z: Array) -> Array:
        """Return a draw from N(0, M) where z is standard normal."""
        return self.inverse.inverse_root(z)

    def log_det(self) -> float:
        """Return 0, because a constant term of the energy cancels."""
        return 0.0

    def force(self, p: Array) -> float:
        """Return 0, the gradient in theta of the kinetic energy."""
        return 0.0


class Point(NamedTuple):
    """A point of the extended phase space: theta and p of shape (*chains, D), s and q (*chains, 1).

    p is the momentum conjugate to theta, p / s the physical one.
    """

    # theta, p: shape (*chains, D).
    theta: Array
    p: Array
    # s, q: shape (*chains, 1).
    s: Array
    q: Array


class NosePoincare(NamedTuple):
    """The Hamiltonian H of the module, for one potential, and its generalised leapfrog."""

    target: Target[Any]  # Its ``positive`` is used
    potential: Any  # U
    metric: Callable[[Array], Metric | Constant]  # From theta to G
    inertia: float  # Q
    fixed_points: int  # Iterations for each implicit equation

    def energy(self, theta: Array, metric: Metric | Constant) -> Array:
        """Return E, shape (*chains, 1)."""
        energy: Array = (self.potential.value(theta) + 0.5 * metric.log_det())[..., None]
        return energy

    def leap(
        self, h: float, point: Point, level: Array | None = None
    ) -> tuple[Point, Metric | Constant]:
        """Make one leap.

        The half steps of p and theta are implicit where G depends on theta, and solved by
        fixed-point iterations; that of q is a quadratic equation, with the root that tends to q
        with h. Where q requires a factor of s beyond [1/3, 3], that is for |q| > Q / h, the factor
        is clipped.
        """
        theta, p, s, q = point
        xp = namespace(theta)
        metric = self.metric(theta)
        energy = self.energy(theta, metric)
        bath = theta.shape[-1] * (1 + xp.log(s))
        if level is None:
            level = _kinetic(metric, p / s) + q * q / (2 * self.inertia) + bath - theta.shape[-1]
        push = 0.5 * h
        gradient = self.potential.grad(theta)
        middle = p
        for _ in range(self.fixed_points):
            middle = p - push * s * (gradient + metric.force(middle / s))
        # With x = h q_half / (2 Q): x^2 + 2 x = u and s' / s = (1 + x) / (1 - x).
        u = q + push * (_kinetic(metric, middle / s) + level - bath)
        u *= h / self.inertia
        x = xp.clip(u, -0.75, 1.25)
        x /= 1 + xp.sqrt(1 + x)
        scale = s * (1 + x) / (1 - x)
        half = x * (2 * self.inertia / h)
        velocity = metric.solve(middle) / s
        for _ in range(self.fixed_points):
            new = theta + push * (velocity + metric.solve(middle) / scale)
            turned = middle.copy()
            reflect(new, self.target, turned)
            metric = self.metric(new)
        middle = turned
        bath = theta.shape[-1] * (1 + xp.log(scale))
        level = level - (self.energy(new, metric) - energy)
        last = half + push * (
            _kinetic(metric, middle / scale) + level - bath - half * half / (2 * self.inertia)
        )
        gradient = self.potential.grad(new)
        p = middle - push * scale * (gradient + metric.force(middle / scale))
        return Point(new, p, scale, last), metric


def _kinetic(metric: Metric | Constant, r: Array) -> Array:
    """Return r'G^-1 r / 2, shape (*chains, 1)."""
    return 0.5 * dot(r, metric.solve(r))
