"""Time for which a process was suspended counts for no limit."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from alphamf.audio.live_input import Spool
from alphamf.serving.lanes import Lanes, Ticket
from alphamf.tools import stopping
from alphamf.tools.processes import Worker, end
from tests.support.tasks import busy

SLEEP = 0.8
"""Seconds that a worker takes for an item."""


@pytest.mark.parametrize(
    ("gaps", "seconds"),
    [([], 0), ([0.25, 0.5], 0.75), ([1000], stopping.STEP), ([0.5, 1000, 0.5], 1 + stopping.STEP)],
)
def test_a_long_time_between_two_looks_counts_as_one_step(monkeypatch, gaps, seconds):
    times = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: times[-1])
    watch = stopping.Stopwatch()
    for gap in gaps:
        times.append(times[-1] + gap)
        watch.seconds()
    assert watch.seconds() == pytest.approx(seconds)


def ends_a_worker(suspend: Callable[[], None]) -> bool:
    """Whether a worker that is to stop may end its item."""
    worker = Worker(busy, False)
    assert worker.receive() is None
    worker.give(0, SLEEP)
    time.sleep(SLEEP / 4)  # it would leave before it begins
    suspend()
    end([worker])
    return worker.process.exitcode == 0


def reads_an_upload(suspend: Callable[[], None]) -> bool:
    """Whether a task of the server may go on."""
    lanes, outcomes = Lanes(1), []
    ticket = Ticket(SLEEP, print, outcomes.append, int, guest="", seconds=60.0)
    lanes.put(ticket)
    suspend()
    assert ticket.left.wait(60)
    lanes.close()
    return outcomes[0].error is None


def reads_a_pipe(suspend: Callable[[], None]) -> bool:
    """Whether what writes to a pipe may end after a Ctrl-C."""
    spool = Spool(Path("none"), "-")
    suspend()
    for _ in range(5):
        if spool._given_up():
            return False
        time.sleep(SLEEP / 5)
    return True


@pytest.mark.parametrize("goes_on", [ends_a_worker, reads_an_upload, reads_a_pipe])
def test_a_limit_does_not_pass_while_the_process_is_suspended(monkeypatch, goes_on):
    real, gone = time.monotonic, [0.0]
    monkeypatch.setattr("time.monotonic", lambda: real() + gone[0])
    monkeypatch.setattr("alphamf.serving.lanes.work", busy)
    monkeypatch.setattr("alphamf.audio.live_input.finish_requested", lambda: True)
    monkeypatch.setattr("alphamf.audio.live_input._LAST", 2.0)
    timer = threading.Timer(SLEEP / 4, lambda: gone.append(gone.pop() + 1000))
    assert goes_on(timer.start)
    timer.join()
