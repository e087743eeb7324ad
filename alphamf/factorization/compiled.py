"""Compiled implementation of `cells`, for float32 on a CPU.

The loops are in ``_loops.c``. If it could not be compiled when the package was installed,
`AVAILABLE` is False and `cells` is used, with other random draws. Functions that have the names of
those in `cells` have the same arguments.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from alphamf.factorization.cells import CellOutput, Cells
from alphamf.inference.random import word_state
from alphamf.tools.arrays import Array

try:
    import alphamf.factorization._loops as _loops
except ImportError:
    AVAILABLE = False
else:
    AVAILABLE = True


def variant() -> str:
    """Return the compiled variant: v4, v3, unfused or default; numpy if there is none.

    It is the best for the processor, or a lower one if the environment variable ALPHAMF_LOOPS names
    it at import. The variants v4 and v3 give the same bits, as do unfused and default.
    """
    return str(_loops.VARIANT) if AVAILABLE else "numpy"


def supports(array: Array, sources: int) -> bool:
    """Return whether this module supports this number of sources on arrays like `array`."""
    return (
        AVAILABLE
        and isinstance(array, np.ndarray)
        and array.dtype == np.float32
        and sources <= _loops.SOURCES
    )


def states(rng: Any, alphas: Sequence[float]) -> list[Any]:
    """Return the random state of each source for the compiled loops; None where alpha is 2."""
    return [word_state(rng, _loops.LANES) if alpha < 2 else None for alpha in alphas]


def fill_stable(rng: Any, alpha: float, out: Array) -> Array:
    """Fill `out` with draws of Phi from its prior, as `cells.fill_stable` does; return it."""
    _loops.stable(word_state(rng, _loops.LANES), alpha / 2, out)
    return out


def evaluate(
    want: CellOutput,
    power: Array,
    sources: Sequence[Cells],
    *,
    scale: float = 1.0,
    states: Sequence[Any] | None = None,
) -> list[int]:
    """Evaluate cells, and return counts, as `cells.evaluate` does; arrays must be contiguous.

    `power`: |X|^2, shape (*clips, rows, columns).
    """
    tuples = []
    for s, (alpha, v, phi, out) in enumerate(sources):
        first, second = (*(() if out is None else out), None, None)[:2]
        state = states[s] if states else None
        tuples.append((2 / alpha, 2 / alpha * scale, v, phi, state, first, second))
    return _loops.evaluate(int(want), power, tuple(tuples))
