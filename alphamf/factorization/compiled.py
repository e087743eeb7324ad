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


def variant() -> str:
    """Return which copy of the loops runs: v4, v3, unfused or default; numpy where there is none.

    That of the processor, or a lower one that the environment variable ALPHAMF_LOOPS names when
    the module is loaded. Copies v4 and v3 give the same bits, as do unfused and default.
    """
    return str(_loops.VARIANT) if AVAILABLE else "numpy"


def suits(array: Array) -> bool:
    """Whether arrays like this one are for the functions of this module."""
    return AVAILABLE and isinstance(array, np.ndarray) and array.dtype == np.float32


def weigh(v: Array, alpha: float, phi: Array, part: Array) -> None:
    """See `alphamf.factorization.cells.weigh`.

    Parameters
    ----------
    v
        W H of the source; raised to `cells.TINY` in place.
    alpha
        Index of the source.
    phi
        Phi of the source, or the number 2 where alpha is 2.
    part
        Receives Phi v^(2/alpha).
    """
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
    """See `alphamf.factorization.cells.move`.

    Parameters
    ----------
    rng
        Generator of the arrays' module.
    alpha
        Index of the source.
    power
        |X|^2, shape (*clips, rows, columns).
    phi
        Phi of the source.
    part
        Phi v^(2/alpha).
    rest
        sigma^2 less `part`.
    sigma2
        sigma^2.
    scratch
        Not used.
    """
    return _loops.move(word_state(rng, _loops.LANES), alpha / 2, power, phi, part, rest, sigma2)


def slope(
    alpha: float, scale: float, power: Array, v: Array, part: Array, sigma2: Array, out: list[Array]
) -> Array:
    """See `alphamf.factorization.cells.slope`.

    Parameters
    ----------
    alpha
        Index of the source.
    scale
        Factor of the slopes.
    power
        |X|^2, shape (*clips, rows, columns).
    v
        W H of the source.
    part
        Phi v^(2/alpha).
    sigma2
        sigma^2.
    out
        Two buffers like `v`.
    """
    _loops.slope(2 / alpha * scale, power, v, part, sigma2, out[0])
    return out[0]


def slopes(
    alpha: float, scale: float, power: Array, v: Array, part: Array, sigma2: Array, out: list[Array]
) -> list[Array]:
    """See `alphamf.factorization.cells.slopes`.

    Parameters
    ----------
    alpha
        Index of the source.
    scale
        Factor of the slopes.
    power
        |X|^2, shape (*clips, rows, columns).
    v
        W H of the source.
    part
        Phi v^(2/alpha).
    sigma2
        sigma^2.
    out
        Two buffers like `v`.
    """
    _loops.slopes(2 / alpha * scale, power, v, part, sigma2, *out)
    return out
