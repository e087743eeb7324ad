"""Call a function for many items in parallel processes; an item that fails leaves the others."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from alphamf.tools.stopping import (
    at_work,
    blocked,
    leave_if_stopped,
    prepare_worker,
    stoppable,
)
from alphamf.tools.work import Item, Outcome, Update, Work, attempt

if TYPE_CHECKING:
    from concurrent.futures import Future

Result = TypeVar("Result")

_INTERVAL = 0.1
"""Least time between two progress messages of a worker, in seconds."""

_WAKE = 0.3
"""Longest wait before the main thread checks for signals, in seconds."""

_queue: Any = None


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def each(
    work: Work,
    items: Sequence[Item],
    *,
    workers: int,
    update: Update | None = None,
    in_order: bool = True,
) -> Iterator[Outcome]:
    """Yield the outcome of `work` for every item.

    Parameters
    ----------
    work
        Takes an item and a progress callback; must be importable by name if `workers` > 1.
    items
        Its items.
    workers
        Number of processes; with one, or for one item, this process does the work.
    update
        Progress callback, or None.
    in_order
        Whether outcomes come in the order of the items, or as soon as they are there.
    """
    if workers == 1 or len(items) <= 1:
        for item in items:
            yield attempt(work, item, update)
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue() if update else None
    listener = threading.Thread(target=_listen, args=(queue, update), daemon=True)
    with ProcessPoolExecutor(
        min(workers, len(items)), context, initializer=_start, initargs=(queue,)
    ) as executor:
        if queue:
            listener.start()
        try:
            with blocked(signal.SIGINT):
                futures = {executor.submit(_attempt_in_worker, work, item): item for item in items}
            for future in _done(list(futures), in_order):
                try:
                    yield future.result()
                except BrokenProcessPool:
                    sentence = "its process was killed, perhaps for want of memory"
                    yield Outcome(futures[future], error=sentence, code=1)
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise
        finally:
            if queue:
                queue.put(None)
                listener.join()


def results(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    *,
    workers: int,
    in_order: bool = True,
) -> Iterator[Result]:
    """Yield the result of `function` for every item, and raise the first error.

    Parameters
    ----------
    function
        Takes an item; must be importable by name if `workers` > 1, and may not write files, as a
        stop ends it at once.
    items, workers, in_order
        As in `each`.

    Raises
    ------
    AlphaMFError
        `function` raised one.
    RuntimeError
        `function` raised another exception, or a process was killed.
    """
    work = partial(_compute, function=function)
    for outcome in each(work, items, workers=workers, in_order=in_order):
        yield outcome.value()


def _compute(item: Item, update: Update | None, function: Callable[[Item], Result]) -> Result:
    with stoppable():
        return function(item)


def _done(futures: Sequence[Future[Outcome]], in_order: bool) -> Iterator[Future[Outcome]]:
    """Yield futures that are done, waking often: another thread may have received a signal."""
    from concurrent.futures import wait

    if in_order:
        for future in futures:
            while not future.done():
                wait([future], timeout=_WAKE)
            yield future
        return
    ready: SimpleQueue[Future[Outcome]] = SimpleQueue()
    for future in futures:
        future.add_done_callback(ready.put)
    left = len(futures)
    while left:
        try:
            future = ready.get(timeout=_WAKE)
        except Empty:
            continue
        left -= 1
        yield future


def _start(queue: Any) -> None:
    global _queue
    _queue = queue
    prepare_worker()


def _attempt_in_worker(work: Work, item: Any) -> Outcome:
    last = 0.0

    def update(name: str, done: float, total: float) -> None:
        nonlocal last
        leave_if_stopped()
        now = time.monotonic()
        if _queue and (now - last >= _INTERVAL or done >= total):
            last = now
            _queue.put((name, done, total))

    with at_work:
        # The executor goes on with an item that it had already sent when it was stopped.
        leave_if_stopped()
        return attempt(work, item, update)


def _listen(queue: Any, update: Update) -> None:
    while (message := queue.get()) is not None:
        update(*message)
