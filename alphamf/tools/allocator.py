"""Settings of glibc's memory allocator, so that freed memory is reused."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD, MMAP_MAX = -1, -2, -3, -4
"""Parameters of glibc's ``mallopt``, as in ``malloc.h``."""
SETTLED = {TRIM_THRESHOLD: 2**27, MMAP_THRESHOLD: 2**25}
"""Parameters with which arrays of up to 32 MB, the maximum, use memory that is kept."""
KEEP = {MMAP_MAX: 0, TRIM_THRESHOLD: 2**31 - 1, TOP_PAD: 2**28}
RETURN = {MMAP_MAX: 2**16, TOP_PAD: 2**17, **SETTLED}
"""glibc's defaults for what `KEEP` changes, except what is in `SETTLED`."""


@cache
def configure_allocator() -> bool:
    """Let the process keep up to 128 MB of freed memory; return whether it could be set.

    The arrays of a segment of sound are freed and allocated again all the time. If they are
    returned to the system and mapped again page by page, this takes a sixth of the time of a
    denoiser.
    """
    return _told(SETTLED)


@contextmanager
def keep_freed_memory() -> Iterator[bool]:
    """Let the process keep all freed memory for reuse; return the memory to the system at the end.

    Every training step allocates the same gigabyte. If it is returned to the system after each
    step, mapping its pages again takes a quarter of the time.
    """
    configure_allocator()  # or the first sound that is denoised meanwhile would undo it
    kept = _told(KEEP)
    try:
        yield kept
    finally:
        if kept:
            _told(RETURN)
            ctypes.CDLL(None).malloc_trim(0)


def _told(options: dict[int, int]) -> bool:
    library: Any = ctypes.CDLL(None) if sys.platform == "linux" else None
    if not hasattr(library, "mallopt"):
        return False
    return all([library.mallopt(*option) for option in options.items()])
