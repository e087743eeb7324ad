"""Mirroring: how samplers stay on the positive orthant, with momenta or without.

Mirroring a coordinate reverses its momentum, which keeps the kinetic energy only if the mass is
diagonal.
"""

from typing import Any

from alphamf.errors import AlphaMFError
from alphamf.inference.metric import Dense, Metric
from alphamf.inference.protocols import Target
from alphamf.tools.arrays import Array, namespace


def reflect(theta: Array, target: Target[Any], momentum: Array | None = None) -> Array:
    """Replace theta, shape (..., D), by its absolute value, in place, if the target is positive.

    Returns theta. The momentum, of the same shape, changes sign in place where theta does (Simsekli
    et al., ICML 2016, section 4.2). If the noise of a move has one law for all signs of theta, then
    mirroring is the same move on the density extended to negative theta as an even function.
    """
    if not target.positive:
        return theta
    xp = namespace(theta)
    if momentum is not None:
        momentum *= xp.where(theta < 0, -1, 1).astype(theta.dtype)
    xp.abs(theta, out=theta)
    return theta


def refuse_wall(sampler: Any, target: Target[Any]) -> None:
    """Raise an AlphaMFError if the target is positive; the sampler cannot mirror its moves."""
    if target.positive:
        raise AlphaMFError(
            f"{type(sampler).__name__} cannot sample a positive target; wrap the target in "
            "targets.unbounded.UnboundedTarget"
        )


def check_mirror_metric(metric: Metric, target: Target[Any]) -> Metric:
    """Return the metric; raise an AlphaMFError if it is dense and the target is positive."""
    if target.positive and isinstance(metric, Dense):
        raise AlphaMFError(
            "a positive target needs a diagonal mass or metric for samplers with "
            "persistent momenta, not a dense one"
        )
    return metric


def drift(
    theta: Array, p: Array, h: float, inverse: Metric, target: Target[Any]
) -> tuple[Array, Array]:
    """Return theta + h M^-1 p and p, mirrored if the target is positive; shape (*chains, D)."""
    if target.positive:
        p = p.copy()
    return reflect(theta + h * inverse.apply(p), target, p), p
