"""Mirroring: how samplers stay on the positive orthant, with momenta or without.

Mirroring reverses the momentum of one coordinate, which keeps the kinetic energy only under a
diagonal mass.
"""

from typing import Any

from alphamf.errors import AlphaMFError
from alphamf.inference.metric import Dense, Metric
from alphamf.inference.protocols import Target
from alphamf.tools.arrays import Array, namespace


def reflect(theta: Array, target: Target[Any], momentum: Array | None = None) -> Array:
    """Replace theta, shape (..., D), by its absolute value, in place, if the target is positive.

    A move whose noise does not change its law with the sign of any coordinate, mirrored, is the
    same move on the density extended to negative values as an even function. There the momentum, of
    the same shape, changes sign with the position (Simsekli et al., ICML 2016, section 4.2).
    """
    if not target.positive:
        return theta
    xp = namespace(theta)
    if momentum is not None:
        momentum *= xp.where(theta < 0, -1, 1).astype(theta.dtype)
    xp.abs(theta, out=theta)
    return theta


def refuse_wall(sampler: Any, target: Target[Any]) -> None:
    """Raise an AlphaMFError if the target is positive and moves cannot be mirrored."""
    if target.positive:
        raise AlphaMFError(
            f"{type(sampler).__name__} cannot sample a positive target; wrap the target in "
            "targets.unbounded.UnboundedTarget"
        )


def check_mirror_metric(metric: Metric, target: Target[Any]) -> Metric:
    """Return a mass or metric for which mirroring keeps the kinetic energy, or raise."""
    if target.positive and isinstance(metric, Dense):
        raise AlphaMFError(
            "a positive target needs a diagonal mass or metric for samplers with "
            "persistent momenta, not a dense one"
        )
    return metric


def drift(
    theta: Array, p: Array, h: float, inverse: Metric, target: Target[Any]
) -> tuple[Array, Array]:
    """Move theta by h M^-1 p, shape (*chains, D), and reverse p where theta is mirrored."""
    if target.positive:
        p = p.copy()
    return reflect(theta + h * inverse.apply(p), target, p), p
