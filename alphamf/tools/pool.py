"""Call a function for many items in parallel processes; a failure affects one item."""

from __future__ import annotations

import atexit
import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from alphamf.tools.files import reason
from alphamf.tools.outcomes import Item, Outcome, Report, Update, Work, attempt, sort_by_place
from alphamf.tools.stopping import allow_stop

if TYPE_CHECKING:
    from alphamf.tools.processes import Worker

Result = TypeVar("Result")

_WAKE = 0.3
"""Longest wait in seconds before the main thread checks for signals that another thread got."""


def cores() -> int:
    """Return the number of CPU cores available to this process."""
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
    report: Report | None = None,
    isolated: bool = False,
    size: Callable[[Item], float] | None = None,
) -> Iterator[Outcome]:
    """Yield the outcome of `work` for every item.

    An item whose process dies is tried once more, on its own, after the others. Processes take the
    items of largest `size` first. With `isolated`, even one worker for several items is a process.
    """
    count = min(workers, len(items))
    if count <= 1 and not (isolated and len(items) > 1):
        for item in items:
            yield attempt(work, item, update)
        return
    order = sorted(range(len(items)), key=lambda place: -size(items[place]) if size else 0)
    crew = _Crew(work, items, order, count, update, report)
    with closing(crew.outcomes()) as found:
        for _, outcome in sort_by_place(found) if in_order else found:
            yield outcome


def results(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    *,
    workers: int,
    in_order: bool = True,
    report: Report | None = None,
) -> Iterator[Result]:
    """Yield the result of `function` for every item, and raise the first error."""
    work = partial(_compute, function=function)
    for outcome in each(work, items, workers=workers, in_order=in_order, report=report):
        yield outcome.value()


def _compute(item: Item, update: Update | None, function: Callable[[Item], Result]) -> Result:
    with allow_stop():
        return function(item)


class _Crew:
    """The worker processes of a run, and the items still to be processed."""

    def __init__(
        self,
        work: Work,
        items: Sequence[Any],
        order: Sequence[int],
        count: int,
        update: Update | None,
        report: Report | None,
    ) -> None:
        self._work, self._items, self._count = work, items, count
        self._update, self._report = update, report
        self._workers: list[Worker] = []
        self._todo = deque(order)
        self._suspects: list[int] = []
        self._crash: str | None = None

    def outcomes(self) -> Generator[tuple[int, Outcome], None, None]:
        """Yield place and outcome of all items, as soon as each is ready."""
        atexit.register(self._end)  # or the exit of Python would wait for them
        try:
            yield from self._finish()
            while self._todo:  # no process can be started
                place = self._todo.popleft()
                yield place, attempt(self._work, self._items[place], self._update)
            for suspect in list(self._suspects):
                yield from self._again(suspect)
        finally:
            atexit.unregister(self._end)
            self._end()

    def _end(self) -> None:
        from alphamf.tools.processes import end

        end(self._workers)

    def _again(self, suspect: int) -> Iterator[tuple[int, Outcome]]:
        """Retry an item alone after its process died, and yield its place and outcome."""
        self._count = min(self._count, 1)
        self._todo.append(suspect)
        known = len(self._suspects)
        yield from self._finish()
        died = len(self._suspects) > known
        if died or self._todo:
            self._todo.clear()
            times = "twice" if died else "and no other process could be started"
            sentence = f"its process was killed {times}, perhaps because memory ran out"
            if self._crash:
                sentence = f"its process crashed {times}: {self._crash}"
            yield suspect, Outcome(self._items[suspect], error=sentence, code=1)

    def _finish(self) -> Iterator[tuple[int, Outcome]]:
        """Yield places and outcomes of the remaining items; collect the items of dead workers."""
        from alphamf.tools.processes import wait_for_workers

        self._assign()
        while self._workers and (self._todo or self._free() < len(self._workers)):
            done = [self._receive(worker) for worker in wait_for_workers(self._workers, _WAKE)]
            self._assign()
            yield from filter(None, done)

    def _assign(self) -> None:
        """Start workers if needed, and send items to those that are idle."""
        self._hire()
        for worker in self._workers:
            if worker.ready and worker.place is None and self._todo:
                place = self._todo.popleft()
                worker.give(place, self._items[place])

    def _receive(self, worker: Worker) -> tuple[int, Outcome] | None:
        """Receive a message from a worker; return an outcome with its place, otherwise None."""
        place = worker.place
        try:
            message = worker.receive()
        except EOFError:
            self._lose(worker)
            return None
        if isinstance(message, Outcome) and place is not None:
            return place, message._replace(item=self._items[place])
        if message is not None and self._update:
            self._update(*message)
        return None

    def _hire(self) -> None:
        """Start workers for the remaining items, up to the number of processes."""
        from alphamf.tools.processes import Worker

        while len(self._workers) < self._count and self._free() < len(self._todo):
            try:
                self._workers.append(Worker(self._work, self._update is not None))
            except OSError as error:
                self._shrink(reason(error))

    def _free(self) -> int:
        return sum(worker.place is None for worker in self._workers)

    def _lose(self, worker: Worker) -> None:
        """Remove a worker that has died, and note its item, if any, for a second attempt."""
        from alphamf.tools.processes import end

        self._workers.remove(worker)
        if worker.place is not None:
            self._suspects.append(worker.place)
            self._crash = worker.crash()
        elif not worker.ready:
            self._shrink("it ended while it was starting")
        end([worker])

    def _shrink(self, why: str) -> None:
        """Continue with the existing workers, and report why no more can be started."""
        self._count = len(self._workers)
        if self._report:
            rest = max(1, self._count)
            processes = "1 process does" if rest == 1 else f"{rest} processes do"
            self._report(
                f"Note: no further process can be started ({why}), so {processes} the work"
            )
