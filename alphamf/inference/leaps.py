r"""Leaps on minibatches of a regression in one compiled call, for `SGLD`, `SGHMC` and `SGNHT`.

.. math:: p' = \mathit{keep}\, p - h \nabla \tilde U(\theta) + \mathit{spread}\, \mathcal{N}(0, I),
   \qquad \theta' = \theta + \mathit{drift}\, p'.

p is the momentum, and `Leap` has the constants. Minibatches of many leaps are drawn together, then
their noise. If the loop (``_leaps.c``) could not be compiled when the package was installed,
`COMPILED` is False and the samplers' NumPy code runs, with the same draws if there is one leap.
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
    r"""Data of a linear or logistic regression with its normal prior, for a gradient on rows Omega.

    .. math:: \nabla \tilde U = \frac{\mathit{weight}}{|\Omega|} \sum_{n \in \Omega}
       (\mu_n - y_n)\, a_n + \mathit{prior}\, \theta, \qquad \mu_n = a_n^\top \theta
       \text{ or } \frac{1}{1 + e^{-a_n^\top \theta}}.
    """

    # features, values: a and y, shapes (N, D) and (N,).
    features: Array
    values: Array
    # weight, prior: factors of the two terms, as above.
    weight: float
    prior: float
    logistic: bool  # Whether mu_n has the second form above


class Leap(NamedTuple):
    """Constants of a leap in this module's formula; a thermostat xi replaces `keep` by 1 - h xi."""

    step_size: float  # h
    # keep, spread, drift: as in the module's formula.
    keep: float
    spread: float
    drift: float


class Moved(NamedTuple):
    """Theta, momentum and thermostat after the leaps: new arrays, or None for what is not used."""

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
    """Make `count` leaps in compiled code; return None, without a draw, if it cannot do them.

    `theta`: position, shape (*chains, D). `momentum`: p, shape as theta; None: p is 0 at the start
    of a leap; `drift` counts as 1. `thermostat`: xi, (*chains, 1), follows p's kinetic energy.
    """
    # Only the target's own: a wrapper that forwards attributes draws in another way.
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
    """Return the data in the form that `leap_many` reads, or None if their types do not fit."""
    arrays = (features, values)
    if not all(isinstance(each, np.ndarray) and each.dtype.name in KINDS for each in arrays):
        return None
    if features.dtype != values.dtype:
        return None
    features, values = map(np.ascontiguousarray, arrays)
    return Regression(features, values, weight, prior, logistic)


KINDS = ("float32", "float64")
"""Names of the dtypes that the compiled loop supports."""

BLOCK = 1 << 18
"""Maximum number of random numbers drawn at once for several leaps, to limit the memory."""
