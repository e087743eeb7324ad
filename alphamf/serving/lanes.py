"""Lanes of the server: threads that each run one task at a time in a worker process."""

import threading
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from alphamf.serving.tasks import Task, work
from alphamf.tools.outcomes import Outcome
from alphamf.tools.processes import Worker, end, wait_for_workers
from alphamf.tools.stopping import Stopwatch

_WAKE = 0.1
"""Maximum time between a lane's checks whether its task should stop, in seconds."""

KILLED = "its process was killed, perhaps because memory ran out"
TOO_SLOW = "it took too long, and was stopped"

_REMEMBERED = 1000
"""Maximum number of guests whose last turn is remembered."""


@dataclass(eq=False)
class Ticket:
    """A queued or running task."""

    task: Task  # The task to run
    # Called with seconds of sound done and seconds in all, in the lane's thread.
    progress: Callable[[float, float], None]
    # Called with the outcome, in the lane's thread; not if the task was stopped or lanes closed.
    done: Callable[[Outcome], None]
    started: Callable[[], None]  # Called in the lane's thread, before the task runs
    guest: str  # Visitor that the task is for
    seconds: float  # Maximum time for the task, in seconds
    stopped: threading.Event = field(default_factory=threading.Event)  # Set by `Lanes.stop`
    left: threading.Event = field(default_factory=threading.Event)  # Set when no process runs it


class Lanes:
    """Lanes that run one queue's tasks; guests take turns, each with up to `most` running tasks."""

    def __init__(self, count: int, *, prepared: bool = False, most: int | None = None) -> None:
        # prepared: whether each lane starts its process before its first task.
        self._prepared, self._most = prepared, most or count
        self._queue: deque[Ticket] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._running: Counter[str] = Counter()
        self._served: dict[str, None] = {}  # guests, the one served last at the end
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
            return self._running.total() + len(self._queue)

    def _lane(self) -> None:
        worker: Worker | None = None
        try:
            with suppress(OSError):  # `_do` tries again
                worker = Worker(work, True) if self._prepared else None
            while (ticket := self._next()) is not None:
                worker = self._do(ticket, worker)
                ticket.left.set()
                with self._changed:
                    self._running[ticket.guest] -= 1
                    self._running += Counter()  # drops guests with zero tasks
                    self._changed.notify_all()
        finally:
            end([worker] if worker else [])

    def _next(self) -> Ticket | None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._choose())
            ticket = None if self._closed else self._choose()
            if ticket is None:
                return None
            self._queue.remove(ticket)
            self._running[ticket.guest] += 1
            self._served.pop(ticket.guest, None)
            self._served[ticket.guest] = None
            if len(self._served) > _REMEMBERED:
                del self._served[next(iter(self._served))]
            return ticket

    def _choose(self) -> Ticket | None:
        """Return a ticket of a guest with fewest running tasks (tie: longest unserved) or None."""
        places = {guest: place for place, guest in enumerate(self._served, 1)}
        free = [each for each in self._queue if self._running[each.guest] < self._most]
        turn = [(self._running[each.guest], places.get(each.guest, 0)) for each in free]
        return free[turn.index(min(turn))] if free else None

    def _do(self, ticket: Ticket, worker: Worker | None) -> Worker | None:
        """Run a task, and return its worker, or None if there is no worker any more."""
        watch = Stopwatch()
        ticket.started()
        idle = worker is not None  # it may have been killed since its last task
        worker = _given(ticket, worker)
        while worker:
            late = watch.seconds() > ticket.seconds
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
    """Send a task to `worker` or a new one, and return this worker; None if none can be started."""
    try:
        worker = worker or Worker(work, True)
    except OSError as error:
        ticket.done(Outcome(None, error=f"cannot start a process: {error}", code=1))
        return None
    worker.give(0, ticket.task)
    return worker
