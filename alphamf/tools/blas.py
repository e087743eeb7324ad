"""Run NumPy's matrix products on one thread."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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

    The chain's products are small: threads that share one cost more than it does, many times more
    where the other cores are busy, and the order of its additions, so the last bit, would depend on
    the number of cores. The setting is the process's, so it stays until the last of several threads
    has left. Where the program has set a number itself (threadpoolctl), that holds.
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

    threadpoolctl must restore the number in the thread that set it, and another thread may be the
    last to leave.
    """
    thread = Thread(target=function)
    thread.start()
    thread.join()
