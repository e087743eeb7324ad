"""What the C library does with the memory that a step of training frees."""

from __future__ import annotations

import ctypes
import sys

TRIM_THRESHOLD, TOP_PAD, MMAP_MAX = -1, -2, -4
"""Parameters of glibc's ``mallopt``, as in ``malloc.h``."""


def keep_freed() -> bool:
    """Let the process keep what it frees, where the C library is glibc.

    A step asks for the same gigabyte as the one before. Given back to the system after each, a
    quarter of its time goes into pages that are handed out anew.

    Returns
    -------
    bool
        Whether it does.
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    options = (MMAP_MAX, 0), (TRIM_THRESHOLD, 2**31 - 1), (TOP_PAD, 2**28)
    return all([mallopt(*option) for option in options])
