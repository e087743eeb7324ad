r"""Leaps on minibatches of a regression in one compiled call, for `SGLD`, `SGHMC` and `SGNHT`.

.. math:: p' = \mathit{keep}\, p - h \nabla \tilde U(\theta) + \mathit{spread}\, \mathcal{N}(0, I),
   \qquad \theta' = \theta + \mathit{drift}\, p'.

Minibatches and noise of many leaps are drawn in two blocks. The compiled loop (``_leaps.c``) reads
the chosen rows where they are. If it could not be compiled when the package was installed,
`COMPILED` is False and the samplers' own lines do the work, on the same draws if there is one leap.
"""

from typing import Any, NamedTuple

import numpy as np

from alphamf.inference.random import noise
from alphamf.tools.arrays import Array

try:
    from alphamf.inference import _leaps
except ImportError:
    COMPILED = False
else:
    COMPILED = True


class Regression(NamedTuple):
    r"""Minibatches of a linear or logistic regression with normal weights.

    .. math:: \nabla \tilde U = \frac{\mathit{weight}}{|\Omega|} \sum_{n \in \Omega}
       (\mu_n - y_n)\, a_n + \mathit{prior}\, \theta, \qquad \mu_n = a_n^\top \theta
       \text{ or } \frac{1}{1 + e^{-a_n^\top \theta}}.
    """

    # features, values: a and y, shapes (N, D) and (N,).
    features: Array
    values: Array
    # weight, prior: as above.
    weight: float
    prior: float
    logistic: bool  # Whether mu is the logistic function


class Leap(NamedTuple):
    """Numbers of a leap, as above; a thermostat xi takes the place of `keep` by 1 - h xi."""

    step_size: float  # h
    # keep, spread, drift: as above.
    keep: float
    spread: float
    drift: float


class Moved(NamedTuple):
    """Theta, the momentum and the thermostat after the leaps, as new arrays."""

    theta: Array
    momentum: Any
    thermostat: Any


def leap_many(
    rng: Any,
    target: Any,
    theta: Array,
    rule: Leap,
    count: int = 1,
    momentum: Array | None = None,
    thermostat: Array | None = None,
) -> Moved | None:
    """Make leaps in compiled code.

    `theta`: position, shape (*chains, D). `momentum`: p, of the shape of theta. `thermostat`: xi,
    shape (*chains, 1), which follows the kinetic energy of p.
    """
    # A wrapper that passes attributes on has draws of its own.
    data: Regression | None = getattr(target, "__dict__", {}).get("regression")
    if not (
        COMPILED and data is not None and target.batch and isinstance(rng, np.random.Generator)
    ):
        return None
    if not (theta.dtype == data.features.dtype and theta.shape[-1] == data.features.shape[-1]):
        return None
    arrays = Moved(
        theta.copy(),
        None if momentum is None else momentum.copy(),
        None if thermostat is None else thermostat.copy(),
    )
    chains = theta.shape[:-1]
    block = max(1, BLOCK // (theta.size // theta.shape[-1] * max(target.batch, theta.shape[-1])))
    for done in range(0, count, block):
        leaps = min(block, count - done)
        chosen = rng.random((leaps, *chains, target.batch))
        draws = noise(rng, np.empty((leaps, *theta.shape), theta.dtype))
        _leaps.leap(data, chosen, draws, *arrays, rule)
    return arrays


def regression_of(
    features: Array, values: Array, *, weight: float, prior: float, logistic: bool
) -> Regression | None:
    """Return what `leap_many` reads of a target, or None if the compiled loop cannot read it."""
    arrays = (features, values)
    if not all(isinstance(each, np.ndarray) and each.dtype.name in KINDS for each in arrays):
        return None
    if features.dtype != values.dtype:
        return None
    features, values = map(np.ascontiguousarray, arrays)
    return Regression(features, values, weight, prior, logistic)


KINDS = ("float32", "float64")
"""Types of numbers that the compiled loop knows."""

BLOCK = 1 << 18
"""Most numbers that are drawn at once for several leaps, so that many chains need little memory."""
