"""The steps of `cells` by compiled loops: for float32 on a CPU.

The loops are in ``_loops.c``. Where that could not be compiled when the package was installed,
`AVAILABLE` is False and `cells` does the same, with other draws. The functions have the arguments
of those in `cells`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from alphamf.factorization import cells
from alphamf.inference.random import word_state
from alphamf.tools.arrays import Array

try:
    from alphamf.factorization import _loops
except ImportError:
    AVAILABLE = False
else:
    AVAILABLE = True

SCRATCH = 2
"""As `cells.SCRATCH`: buffers for the slopes."""


def suits(array: Array) -> bool:
    """Whether arrays like this one are for the functions of this module."""
    return AVAILABLE and isinstance(array, np.ndarray) and array.dtype == np.float32


def weigh(v: Array, alpha: float, phi: Array, part: Array) -> None:
    """See `alphamf.factorization.cells.weigh`."""
    if alpha == 2.0:  # where phi is a number
        cells.weigh(v, alpha, phi, part)
    else:
        _loops.weigh(2 / alpha, v, phi, part)


def move(
    rng: Any,
    alpha: float,
    power: Array,
    phi: Array,
    part: Array,
    rest: Array,
    sigma2: Array,
    scratch: list[Array],
) -> int:
    """See `alphamf.factorization.cells.move`."""
    return _loops.move(word_state(rng, _loops.LANES), alpha / 2, power, phi, part, rest, sigma2)


def slope(
    alpha: float, scale: float, power: Array, v: Array, part: Array, sigma2: Array, out: list[Array]
) -> Array:
    """See `alphamf.factorization.cells.slope`."""
    _loops.slope(2 / alpha * scale, power, v, part, sigma2, out[0])
    return out[0]


def slopes(
    alpha: float, scale: float, power: Array, v: Array, part: Array, sigma2: Array, out: list[Array]
) -> list[Array]:
    """See `alphamf.factorization.cells.slopes`."""
    _loops.slopes(2 / alpha * scale, power, v, part, sigma2, *out)
    return out
