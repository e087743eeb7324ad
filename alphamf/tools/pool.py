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
from contextlib import contextmanager
from functools import partial
from queue import Empty, SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from alphamf.errors import AlphaMFError

if TYPE_CHECKING:
    from concurrent.futures import Future

Item = TypeVar("Item")

Update = Callable[[str, float, float], None]
"""What a progress display takes: a name, how much of it is done, and how much there is."""

Work = Callable[[Any, Update | None], Any]

_INTERVAL = 0.1
"""Least time between two progress messages of a worker, in seconds."""

_WAKE = 0.3
"""Longest wait before the main thread looks for signals, in seconds."""

_queue: Any = None
_stopped = False
_stoppable = False
_at_work = threading.Lock()


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


def chosen(cluster: str | None, *, quiet: bool) -> Callable[..., Iterator[Outcome]]:
    """Return `each`, or what takes its place for the address of a Dask cluster."""
    if cluster is None:
        return each
    from alphamf.tools import cluster as elsewhere

    return partial(elsewhere.each, address=cluster, quiet=quiet)


def each(
    work: Work,
    items: Sequence[Item],
    *,
    workers: int,
    update: Update | None,
    in_order: bool = True,
) -> Iterator[Outcome]:
    """Yield the outcome of `work` for every item.

    Parameters
    ----------
    work
        Takes an item and an update function; must be importable by name if `workers` > 1.
    workers
        Number of processes; with one, or for one item, this process does the work.
    update
        Told the progress of each item, or None.
    in_order
        Whether outcomes come in the order of the items, or as soon as they are there.
    """
    if workers == 1 or len(items) <= 1:
        for item in items:
            yield attempt(work, item, update)
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
            with held(signal.SIGINT):
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


def _done(futures: Sequence[Future[Outcome]], in_order: bool) -> Iterator[Future[Outcome]]:
    from concurrent.futures import wait

    # A signal may reach another thread; this one sees it when it wakes.
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


@contextmanager
def stoppable() -> Iterator[None]:
    """Let a stop end this block of a worker at once, rather than at the next news of progress.

    For computations: not for code that writes files.
    """
    global _stoppable
    _stoppable = True
    try:
        _leave_if_stopped()
        yield
    finally:
        _stoppable = False


@contextmanager
def held(*signals: signal.Signals) -> Iterator[None]:
    """Hold back signals, and for good in processes and threads that are started meanwhile.

    The terminal sends Ctrl-C to all processes, and it is for the first one to end the others.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


def attempt(work: Work, item: Any, update: Update | None) -> Outcome:
    """Return what becomes of an item, whatever goes wrong; only a reader that left is raised."""
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
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process, once its item has been left, where the first process was killed."""
    global _stopped
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        _stopped = True
        with _at_work:
            os._exit(1)


def _terminate(number: int, frame: FrameType | None) -> None:
    """Remember to leave at the next news of progress, or leave where that does no harm.

    Elsewhere an exception raised here could strike code that may not raise, and be lost, or the
    lines that remove half-written files.
    """
    global _stopped
    _stopped = True
    if _stoppable:
        raise SystemExit


def _attempt_in_worker(work: Work, item: Any) -> Outcome:
    last = 0.0

    def update(name: str, done: float, total: float) -> None:
        nonlocal last
        _leave_if_stopped()
        now = time.monotonic()
        if _queue and (now - last >= _INTERVAL or done >= total):
            last = now
            _queue.put((name, done, total))

    with _at_work:
        # The executor goes on with an item that it had already sent when it was stopped.
        _leave_if_stopped()
        return attempt(work, item, update)


def _leave_if_stopped() -> None:
    if _stopped:
        raise SystemExit


def _listen(queue: Any, update: Update) -> None:
    while (message := queue.get()) is not None:
        update(*message)
