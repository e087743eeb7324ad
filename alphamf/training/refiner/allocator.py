"""What the C library does with the memory that a step of training frees."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD, MMAP_MAX = -1, -2, -3, -4
"""Parameters of glibc's ``mallopt``, as in ``malloc.h``."""
KEEP = {MMAP_MAX: 0, TRIM_THRESHOLD: 2**31 - 1, TOP_PAD: 2**28}
RETURN = {MMAP_MAX: 2**16, TRIM_THRESHOLD: 2**26, TOP_PAD: 2**17, MMAP_THRESHOLD: 2**25}
"""glibc's own; the thresholds are where it moves them itself once arrays of 32 MB were freed."""


@contextmanager
def freed_kept() -> Iterator[bool]:
    """Let the process keep what it frees, where the C library is glibc; then give it back.

    A step asks for the same gigabyte as the one before. Given back to the system after each, a
    quarter of its time goes into pages that are handed out anew.

    Yields
    ------
    bool
        Whether it does.
    """
    library: Any = ctypes.CDLL(None) if sys.platform == "linux" else None
    if not hasattr(library, "mallopt"):
        yield False
        return
    try:
        yield _told(library, KEEP)
    finally:
        _told(library, RETURN)
        library.malloc_trim(0)


def _told(library: Any, options: dict[int, int]) -> bool:
    return all([library.mallopt(*option) for option in options.items()])
