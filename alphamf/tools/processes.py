"""Worker processes: each receives items from its parent through a pipe and sends back outcomes.

There is no queue and no lock between them, so a worker that dies affects only its own item, and no
shared memory is needed.
"""

import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import connection, get_context, resource_tracker
from typing import Any

from alphamf.tools.outcomes import Outcome, Update, Work, attempt
from alphamf.tools.stopping import (
    GRACE,
    Stopwatch,
    allow_stop,
    at_work,
    block_signals,
    leave_if_stopped,
    prepare_worker,
    stop_timeout,
)

_INTERVAL = 0.1
"""Minimum time in seconds between a worker's progress messages, except an item's last message."""

_method = "spawn"
_SAFE_PATH = "PYTHONSAFEPATH"
_lock = threading.Lock()
_users = 0
_before: str | None = None


@contextmanager
def keep_path_safe() -> Iterator[None]:
    """Keep the working directory off the import path of Python processes that start in this block.

    The helpers of `multiprocessing` start as ``python -c``, whose import path starts with the
    working directory. That folder may belong to someone else, and contain a ``socket.py``.
    """
    global _users, _before
    with _lock:
        if not _users:
            _before = os.environ.get(_SAFE_PATH)
        _users += 1
        os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                del os.environ[_SAFE_PATH]
                os.environ.update({_SAFE_PATH: _before} if _before is not None else {})


@contextmanager
def shield_helpers() -> Iterator[None]:
    """Shield processes that start in this block from Ctrl-C, SIGTERM and unsafe import paths."""
    with keep_path_safe():
        if sys.platform != "win32":
            resource_tracker.ensure_running()  # its start would let signals through again
        with block_signals(signal.SIGINT, signal.SIGTERM):
            yield


def preload(module: str) -> None:
    """Start a server process that imports a module and then forks the workers.

    The workers do not need to import it, and share its memory. Outside Linux this does nothing,
    because system libraries must not be used after a fork there.
    """
    global _method
    if sys.platform != "linux":
        return
    from multiprocessing import forkserver

    with suppress(OSError), shield_helpers():
        forkserver.set_forkserver_preload([module])
        forkserver.ensure_running()
        _method = "forkserver"


class Worker:
    """A process that works on one item at a time."""

    connection: Any

    def __init__(self, work: Work, reports: bool) -> None:
        context: Any = get_context(_method)
        self.place: int | None = None
        self.ready: bool = False
        self.connection, theirs = context.Pipe()
        try:
            # A worker that a signal finds half started would belong to nobody.
            with theirs, shield_helpers():
                process = context.Process(target=_serve, args=(theirs, work, reports))
                process.start()
        except EOFError as error:  # the server could not fork, and has ended
            self.connection.close()
            raise ChildProcessError("cannot fork a process") from error
        except BaseException:
            self.connection.close()
            raise
        self.process = process

    def give(self, place: int, item: Any) -> None:
        """Send the worker an item to process; `place` is its index among all items."""
        packed = pickle.dumps(item)
        self.place = place
        with suppress(OSError):  # where it has died, `receive` says so
            self.connection.send_bytes(packed)

    def receive(self) -> Any:
        """Return an Outcome, progress tuple or None (ready); raise EOFError if the worker ended."""
        try:
            message = self.connection.recv()
        except OSError as error:
            raise EOFError from error
        if isinstance(message, Outcome):
            self.place = None
        self.ready = True
        return message

    def crash(self) -> str | None:
        """Return the signal (Windows: exit code) of a crash as text, or None without a crash."""
        self.process.join(10)  # its pipe closes a moment before, on a busy machine a long one
        code = self.process.exitcode or 0
        if sys.platform == "win32":
            return f"exit code {code:#x}" if code > 0 else None
        number = -code
        if number <= 0 or number in (signal.SIGKILL, signal.SIGTERM):
            return None
        return signal.strsignal(number)


def wait_for_workers(workers: Sequence[Worker], timeout: float) -> list[Worker]:
    """Wait until some workers have sent a message or ended, and return them.

    `timeout`: longest wait in seconds; then the list is empty.
    """
    owners: dict[Any, Worker] = {worker.connection: worker for worker in workers}
    return [owners[ready] for ready in connection.wait(list(owners), timeout)]


def end(workers: Sequence[Worker]) -> None:
    """End workers; those that do not stop their item in time, see `stop_timeout`, are killed."""
    try:
        for worker in workers:
            if not worker.ready:  # it holds nothing
                worker.process.kill()
            elif worker.place is not None:
                worker.process.terminate()
            worker.connection.close()
        watch = Stopwatch()
        while left := [w.process.sentinel for w in workers if w.process.is_alive()]:
            if watch.seconds() > stop_timeout(GRACE):
                break
            connection.wait(left, 0.1)
    finally:  # at a second Ctrl-C, too
        for worker in workers:
            worker.process.kill()
        for worker in workers:
            worker.process.join()


def _serve(parent: connection.Connection, work: Work, reports: bool) -> None:
    """Process items until the parent closes the pipe; the main function of a worker process."""
    prepare_worker()
    update = _reporter(parent) if reports else lambda *_: leave_if_stopped()
    with suppress(EOFError, OSError):
        parent.send(None)
        while True:
            with allow_stop():
                packed = parent.recv_bytes()
            with at_work:
                outcome = _done(packed, work, update)
            parent.send_bytes(outcome)


def _done(packed: bytes, work: Work, update: Update) -> bytes:
    """Return the pickled outcome of an item; the item itself is left out."""
    leave_if_stopped()

    def unpacked(item: bytes, update: Update | None) -> Any:
        return work(pickle.loads(item), update)

    def repacked(outcome: Outcome, update: Update | None) -> bytes:
        return pickle.dumps(outcome)

    outcome = attempt(unpacked, packed, update)._replace(item=None)
    packing = attempt(repacked, outcome, None)
    return packing.result or pickle.dumps(packing._replace(item=None))


def _reporter(parent: connection.Connection) -> Update:
    """Return a progress callback that sends its arguments to the parent, at a limited rate."""
    last = 0.0

    def update(name: str, done: float, total: float) -> None:
        nonlocal last
        leave_if_stopped()
        now = time.monotonic()
        if now - last >= _INTERVAL or done >= total:
            last = now
            try:
                parent.send((name, done, total))
            except OSError as error:  # the parent has gone
                raise SystemExit from error

    return update
