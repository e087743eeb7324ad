"""Do a function for many items, side by side in processes, and lose none to another's failure."""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any, NamedTuple, TypeVar

from alphamf.cli.report import Update
from alphamf.errors import AlphaMFError

Item = TypeVar("Item")
Work = Callable[[Any, Update | None], Any]

_INTERVAL = 0.1
"""Least time between two progress messages of a worker, in seconds."""

_queue: Any = None


class Outcome(NamedTuple):
    """What became of an item: a result, or an error in one sentence and its exit code."""

    item: Any
    result: Any = None
    error: str | None = None
    code: int = 0
    details: str | None = None


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def each(
    work: Work, items: Sequence[Item], *, workers: int, update: Update | None
) -> Iterator[Outcome]:
    """Yield the outcome of `work` for every item, in the order of the items.

    Parameters
    ----------
    work
        Takes an item and an update function; must be importable by name if `workers` > 1.
    workers
        Number of processes; with one, or for one item, this process does the work.
    update
        Told the progress of each item, or None.
    """
    if workers == 1 or len(items) <= 1:
        for item in items:
            yield _attempt(work, item, update)
        return
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
            # Workers inherit that Ctrl-C is ignored: the terminal sends it to all processes, and
            # it is for this one to end them.
            previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
            try:
                futures = [executor.submit(_attempt_in_worker, work, item) for item in items]
            finally:
                signal.signal(signal.SIGINT, previous)
            for item, future in zip(items, futures, strict=True):
                try:
                    yield future.result()
                except BrokenProcessPool:
                    sentence = "its process was killed, perhaps for want of memory"
                    yield Outcome(item, error=sentence, code=1)
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise
        finally:
            if queue:
                queue.put(None)
                listener.join()


def _attempt(work: Work, item: Any, update: Update | None) -> Outcome:
    try:
        return Outcome(item, work(item, update))
    except AlphaMFError as error:
        return Outcome(item, error=str(error), code=2)
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.EPIPE:
            raise
        sentence = f"{type(error).__name__}: {error}"
        return Outcome(item, error=sentence, code=1, details=traceback.format_exc())


def _start(queue: Any) -> None:
    global _queue
    _queue = queue
    signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, frame: FrameType | None) -> None:
    """Leave by an exception, so that half-written files are removed; once is enough."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(128 + number)


def _attempt_in_worker(work: Work, item: Any) -> Outcome:
    last = 0.0

    def update(name: str, done: float, total: float) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _INTERVAL or done >= total:
            last = now
            _queue.put((name, done, total))

    return _attempt(work, item, update if _queue else None)


def _listen(queue: Any, update: Update) -> None:
    while (message := queue.get()) is not None:
        update(*message)
