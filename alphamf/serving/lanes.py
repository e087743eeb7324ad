"""Worker processes of the server; each lane runs one task at a time, which can be stopped."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from alphamf.serving.tasks import Task, work
from alphamf.tools.outcomes import Outcome
from alphamf.tools.processes import Worker, end, wait_for_workers
from alphamf.tools.stopwatch import Stopwatch

_WAKE = 0.1
"""Maximum time between a lane's checks whether its task should stop, in seconds."""

KILLED = "its process was killed, perhaps because memory ran out"
TOO_SLOW = "reading it took too long"


@dataclass(eq=False)
class Ticket:
    """A queued or running task."""

    task: Task  # The task to run
    # Called with seconds of sound done and seconds in all, in the lane's thread.
    progress: Callable[[float, float], None]
    # Called with the outcome, in the lane's thread, unless the ticket was stopped.
    done: Callable[[Outcome], None]
    started: Callable[[], None]  # Called when its turn has come, in the lane's thread
    seconds: float | None = None  # Longest time that it may take, or None
    stopped: threading.Event = field(default_factory=threading.Event)  # Set by `Lanes.stop`
    # Set when no process works on it any more.
    left: threading.Event = field(default_factory=threading.Event)


class Lanes:
    """Lanes that take tasks from one queue."""

    def __init__(self, count: int, *, prepared: bool = False) -> None:
        self._prepared = prepared
        self._queue: deque[Ticket] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._busy = 0
        self._threads = [threading.Thread(target=self._lane, daemon=True) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def put(self, ticket: Ticket, *, first: bool = False) -> None:
        """Queue a task; with `first`, at the front."""
        with self._changed:
            (self._queue.appendleft if first else self._queue.append)(ticket)
            self._changed.notify()

    def stop(self, ticket: Ticket) -> None:
        """Stop a task, or remove it from the queue; `Ticket.left` is set when it has ended."""
        with self._changed:
            ticket.stopped.set()
            if ticket in self._queue:
                self._queue.remove(ticket)
                ticket.left.set()

    def close(self) -> None:
        """Stop all tasks and end the processes."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def count_tasks(self) -> int:
        """Return the number of queued and running tasks."""
        with self._changed:
            return self._busy + len(self._queue)

    def _lane(self) -> None:
        worker: Worker | None = None
        try:
            with suppress(OSError):  # `_do` tries again
                worker = Worker(work, True) if self._prepared else None
            while (ticket := self._next()) is not None:
                worker = self._do(ticket, worker)
                ticket.left.set()
                with self._changed:
                    self._busy -= 1
        finally:
            end([worker] if worker else [])

    def _next(self) -> Ticket | None:
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closed)
            if self._closed:
                return None
            self._busy += 1
            return self._queue.popleft()

    def _do(self, ticket: Ticket, worker: Worker | None) -> Worker | None:
        """Run a task, and return its worker, or None if the worker was ended."""
        watch = Stopwatch()
        ticket.started()
        idle = worker is not None  # it may have been killed, and be so before it begins
        worker = _given(ticket, worker)
        while worker:
            late = ticket.seconds is not None and watch.seconds() > ticket.seconds
            if late or self._closed or ticket.stopped.is_set():
                end([worker])
                if late:
                    ticket.done(Outcome(None, error=TOO_SLOW, code=2))
                return None
            try:
                message = worker.receive() if wait_for_workers([worker], _WAKE) else None
            except EOFError:
                end([worker])
                if not idle:
                    ticket.done(Outcome(None, error=KILLED, code=1))
                    return None
                idle, worker = False, _given(ticket, None)
                continue
            idle = idle and message is None
            if isinstance(message, Outcome):
                ticket.done(message)
                return worker
            if message is not None:
                _, done, total = message
                ticket.progress(done, total)
        return None


def _given(ticket: Ticket, worker: Worker | None) -> Worker | None:
    """Send a task to a worker, starting one if needed; on failure, finish with an error."""
    try:
        worker = worker or Worker(work, True)
    except OSError as error:
        ticket.done(Outcome(None, error=f"cannot start a process: {error}", code=1))
        return None
    worker.give(0, ticket.task)
    return worker
