"""Shared parts of SGHMC, SGNHT and the Nose-Poincare samplers: moves that also mirror the momentum.

They carry momenta of mass M from step to step, and draw a minibatch for every leap. On a positive
target M must be diagonal: mirroring reverses the momentum of one coordinate, which preserves the
kinetic energy only in that case.
"""

from __future__ import annotations

from typing import Any

from alphamf.errors import AlphaMFError
from alphamf.inference.metric import Dense, Metric
from alphamf.inference.protocols import Target
from alphamf.inference.samplers.reflect import reflect
from alphamf.tools.arrays import Array


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
    """Move theta by h M^-1 p, and reverse the momentum where theta is mirrored.

    `theta`, `p`: position and momentum, shape (*chains, D).
    """
    if target.positive:
        p = p.copy()
    return reflect(theta + h * inverse.apply(p), target, p), p
