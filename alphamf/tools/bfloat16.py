"""Numbers in bfloat16: float32 with 8 bits of mantissa, which are the upper half of its bits."""

from __future__ import annotations

import numpy as np

from alphamf.tools.arrays import Floats


def round_to_bfloat16(values: Floats) -> Floats:
    """Return the nearest numbers in bfloat16, ties to even, in one piece.

    What is read again and again is read faster in 16 bits, and one instruction turns such a number
    into a float.

    Returns: float32.
    """
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)).view(np.float32)
