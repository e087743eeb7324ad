"""Memory of this machine, glibc's allocator, and the threads of NumPy's matrix products."""

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Lock, Thread
from typing import Any

VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Environment variables with the initial number of threads of BLAS libraries."""

_lock = Lock()
_inside = 0
_limit: Any = None


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit NumPy's matrix products to the calling thread; a context manager or decorator.

    The chain's products are small: sharing one among threads takes longer than computing it, and
    the order of its additions, and so the last bit, would depend on the number of cores. The limit
    holds for the process until the last of several threads has left; then the previous number is
    restored. If all `VARIABLES` are 1, nothing is changed.
    """
    if all(os.environ.get(name) == "1" for name in VARIABLES):
        yield
        return
    global _inside
    with _lock:
        if not _inside:
            _briefly(_set)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                _briefly(_limit.restore_original_limits)


def _set() -> None:
    global _limit
    from threadpoolctl import threadpool_limits

    _limit = threadpool_limits(limits=1, user_api="blas")


def _briefly(function: Callable[[], None]) -> None:
    """Call a function in a short-lived thread.

    Some BLAS libraries keep the number per thread, and the thread that set it may leave first. Such
    a setting ends with a short-lived thread; settings of the whole process remain.
    """
    thread = Thread(target=function)
    thread.start()
    thread.join()


TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD, MMAP_MAX = -1, -2, -3, -4
"""Parameters of glibc's ``mallopt``, as in ``malloc.h``."""
SETTLED = {TRIM_THRESHOLD: 2**27, MMAP_THRESHOLD: 2**25}
"""Parameters with which glibc keeps the memory of freed arrays of up to 32 MB, its maximum."""
KEEP = {MMAP_MAX: 0, TRIM_THRESHOLD: 2**31 - 1, TOP_PAD: 2**28}
RETURN = {MMAP_MAX: 2**16, TOP_PAD: 2**17, **SETTLED}
"""glibc's defaults for what `KEEP` changes, and the parameters of `SETTLED`."""


@cache
def configure_allocator() -> bool:
    """Let the process keep up to 128 MB of freed memory; return whether this worked.

    The arrays of a segment of sound are freed and allocated again all the time. If they are
    returned to the system and mapped again page by page, this takes a sixth of the time of a
    denoiser.
    """
    return _told(SETTLED)


@contextmanager
def keep_freed_memory() -> Iterator[bool]:
    """Let the process keep up to 2 GB of freed memory during the block; yield whether it does.

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


_LIMITS = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Files in which Linux stores the memory limit of a container."""


def total_memory() -> int | None:
    """Return the maximum memory of this process in bytes, or None if it is unknown."""
    found = []
    if sys.platform != "win32":
        import resource

        with suppress(OSError, ValueError):
            found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        with suppress(OSError):
            limit, _ = resource.getrlimit(resource.RLIMIT_AS)
            if limit != resource.RLIM_INFINITY:
                found.append(limit)
    for path in _LIMITS:
        with suppress(OSError, ValueError):  # a file that says "max" sets no limit
            found.append(int(path.read_text()))
    return min(found, default=None)


def format_gigabytes(count: float) -> str:
    """Return a number of bytes as text in GB."""
    return f"{count / 1e9:.3g} GB" if count < 1e12 else f"{count / 1e9:,.0f} GB"
