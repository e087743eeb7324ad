"""Work in parallel processes: order, failures, a killed worker."""

import errno
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from alphamf.errors import AlphaMFError
from alphamf.tools import pool, processes
from alphamf.tools.processes import Worker
from alphamf.tools.stopping import GRACE
from tests.support.commands import leave, until
from tests.support.places import ROOT
from tests.support.tasks import after_its_neighbours, half, killed_once, started


@pytest.mark.parametrize("workers", [1, 2])
def test_a_failure_is_an_outcome_in_its_place(workers):
    outcomes = list(pool.each(half, [4, 5, 6], workers=workers))
    assert [outcome.result for outcome in outcomes] == [2, None, 3]
    assert [(outcome.error, outcome.code) for outcome in outcomes] == [
        (None, 0),
        ("5 is odd", 2),
        (None, 0),
    ]


posix = pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")


@pytest.mark.parametrize("kind", ["it cannot fork", "it cannot be started"])
def test_a_server_of_processes_is_done_without(monkeypatch, kind):
    def fails(*_):
        raise EOFError if kind == "it cannot fork" else BlockingIOError(errno.EAGAIN, "none left")

    monkeypatch.setattr(processes, "_method", "spawn")  # whatever other tests preloaded
    if kind == "it cannot fork":
        monkeypatch.setattr(processes.get_context("spawn").Process, "start", fails)
    else:
        monkeypatch.setattr(processes.resource_tracker, "ensure_running", fails)
        processes.preload("tests.support.tasks")
        assert processes._method == "spawn"
    notes = []
    found = list(pool.each(half, [4, 6], workers=2, report=notes.append))
    assert [outcome.result for outcome in found] == [2, 3]
    assert "no further process can be started" in notes[0]


@pytest.mark.slow
@posix
@pytest.mark.parametrize("in_order", [True, False])
def test_an_item_that_kills_its_worker_twice_is_an_error_and_the_others_are_done(in_order):
    items = [4, 13, *range(6, 22, 2), 13]
    found = list(pool.each(half, items, workers=2, in_order=in_order))
    assert sorted(outcome.item for outcome in found) == sorted(items)
    if in_order:
        assert [outcome.item for outcome in found] == items
    for outcome in found:
        if outcome.item == 13:
            assert outcome.code == 1 and "its process was killed twice" in outcome.error
        else:
            assert outcome.result == outcome.item // 2


@posix
def test_one_process_of_its_own_for_several_items_that_may_crash():
    found = list(pool.each(half, [4, 15, 6], workers=1, isolated=True))
    assert [outcome.result for outcome in found] == [2, None, 3]
    assert (found[1].code, found[1].error) == (1, "its process crashed twice: Segmentation fault")


@pytest.mark.slow
@posix
def test_an_item_whose_worker_was_killed_once_is_done(tmp_path):
    items = [tmp_path / name for name in "abcd"]
    items[2].touch()
    assert list(pool.results(Path.exists, items, workers=2)) == [False, False, True, False]
    found = list(pool.each(killed_once, items, workers=2))
    assert [outcome.value() for outcome in found] == list("abcd")


@pytest.mark.slow
@posix
def test_no_shared_memory_is_needed(monkeypatch):
    def refused(*arguments):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("_multiprocessing.SemLock", refused)
    notes = []
    found = pool.each(half, [4, 6], workers=2, update=print, report=notes.append)
    assert [outcome.result for outcome in found] == [2, 3] and not notes


def start_no_more_than(count, monkeypatch, error):
    """Let no further process be started after some: the system answers with an error number."""
    started = []

    def start(*arguments):
        if len(started) == count:
            raise OSError(error, os.strerror(error))
        started.append(Worker(*arguments))
        return started[-1]

    monkeypatch.setattr(processes, "Worker", start)


@pytest.mark.parametrize("count", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_what_cannot_be_started_is_done_without(monkeypatch, count):
    start_no_more_than(count, monkeypatch, errno.EMFILE)
    notes = []
    found = list(pool.each(half, [4, 5, 6], workers=3, report=notes.append))
    assert [outcome.result for outcome in found] == [2, None, 3]
    assert notes == [
        "Note: no further process can be started (Too many open files), so 1 process does the work"
    ]


@pytest.mark.slow
@posix
def test_a_suspect_is_never_done_in_this_process(monkeypatch):
    start_no_more_than(2, monkeypatch, errno.EAGAIN)
    found = list(pool.each(half, [13, 13, 4], workers=2))
    assert [outcome.code for outcome in found] == [1, 1, 0]
    assert found[2].result == 2 and "no other process could be started" in found[1].error


@pytest.fixture
def start(tmp_path):
    """Start Python code in a session of its own; nothing outlives it."""
    with ExitStack() as stack:

        def run(code: str) -> subprocess.Popen:
            process = subprocess.Popen(
                [sys.executable, "-c", code], cwd=tmp_path, start_new_session=True,
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
                stderr=subprocess.DEVNULL,
            )  # fmt: skip
            stack.callback(process.wait)
            stack.callback(end, process.pid)
            return process

        def end(group: int) -> None:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)

        yield run


STUCK = """
from pathlib import Path
from alphamf.tools import pool, stopping
from tests.support.tasks import stuck
stopping.end_on_signals()
list(pool.each(stuck, [Path("pipe").absolute()] * 2, workers=2))
"""


@pytest.mark.slow
@posix
@pytest.mark.parametrize(
    ("numbers", "code", "seconds"),
    [
        ([signal.SIGTERM], 143, GRACE),
        ([signal.SIGINT], -signal.SIGINT, GRACE),
        ([signal.SIGTERM, signal.SIGTERM], 143, 0.5),
        ([signal.SIGINT, signal.SIGINT], -signal.SIGINT, 0.5),
        ([signal.SIGINT, signal.SIGTERM, signal.SIGTERM], -signal.SIGINT, 0.5),
        ([signal.SIGKILL], -signal.SIGKILL, GRACE),
    ],
)
def test_a_stop_ends_workers_that_are_stuck(tmp_path, start, numbers, code, seconds):
    os.mkfifo(tmp_path / "pipe")
    process = start(STUCK)
    until(lambda: len(list(tmp_path.glob("*.stuck"))) == 2)
    started = time.monotonic()
    for number in numbers:
        os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
        time.sleep(0.3)  # sooner after each other they are one
    assert process.wait(GRACE + 10) == code
    leave(process)
    assert seconds - 0.5 < time.monotonic() - started < seconds + 3


HANGING = """
import ctypes, pathlib
from alphamf.tools import stopping
stopping.end_on_signals()
mutex = ctypes.create_string_buffer(64)
pathlib.Path("started").touch()
for _ in range(2):  # the second waits for ever, in C, where no exception comes
    ctypes.CDLL(None).pthread_mutex_lock(mutex)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the mutex is that of Linux")
@pytest.mark.parametrize(("count", "least", "most"), [(1, 18, 30), (2, 18, 30), (3, 0, 2)])
def test_what_hangs_in_c_ends_for_certain(tmp_path, start, count, least, most):
    """Two signals in a row are one, as ``timeout`` sends them; apart, a third ends it at once."""
    process = start(HANGING)
    until((tmp_path / "started").exists)
    started = time.monotonic()
    for k in range(count):
        time.sleep(0.3 * (count > 2 and k > 0))
        process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 143
    assert least < time.monotonic() - started < most


LOST = """
import pathlib, time, weakref
from alphamf.tools import pool, stopping
stopping.end_on_signals()
def work(item, update):
    class Gone: pass
    gone = Gone()
    def wait(dead):  # an exception that is raised in here is lost
        pathlib.Path("started").touch()
        time.sleep(1)
    kept = weakref.ref(gone, wait)
    del gone
    while True:
        time.sleep(0.01)
        stopping.leave_if_stopped()
list(pool.each(work, [1], workers=1))
"""


@posix
def test_an_exception_that_was_lost_comes_again(tmp_path, start):
    process = start(LOST)
    until((tmp_path / "started").exists)
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 130


@pytest.mark.slow
def test_outcomes_come_as_soon_as_they_are_there(tmp_path):
    items = [tmp_path / name for name in "012"]
    outcomes = pool.each(after_its_neighbours, items, workers=2, in_order=False)
    assert [outcome.result for outcome in outcomes] == ["1", "2", "0"]


def inverse(item: int) -> float:
    """Invert a number; 3 is refused."""
    if item == 3:
        raise AlphaMFError("3 is refused")
    return 1 / item


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_results_come_in_order_and_the_first_error_is_raised(workers):
    assert list(pool.results(inverse, [1, 2, 4], workers=workers)) == [1, 0.5, 0.25]
    with pytest.raises(AlphaMFError, match="3 is refused"):
        list(pool.results(inverse, [1, 3, 4], workers=workers))
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        list(pool.results(inverse, [0, 1], workers=workers))


def test_the_largest_items_are_taken_first_and_outcomes_keep_their_places(tmp_path):
    sizes = [1, 20, 2, 40, 3]
    items = [tmp_path / f"{size}" for size in sizes]
    for item, size in zip(items, sizes, strict=True):
        item.write_bytes(bytes(size))
    found = list(pool.each(started, items, workers=2, size=lambda item: item.stat().st_size))
    assert [outcome.item for outcome in found] == items
    begun = dict(zip(sizes, (outcome.value() for outcome in found), strict=True))
    assert max(begun[40], begun[20]) < min(begun[1], begun[2], begun[3])


SERVED = """
import os
from alphamf.tools import pool, processes
from tests.support.tasks import origin
processes.preload("tests.support.distributed_walks")
found = [outcome.value() for outcome in pool.each(origin, range(4), workers=2)]
assert len({parent for parent, _ in found} | {os.getpid()}) == 2, found
assert all(loaded for _, loaded in found), found
"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only")
def test_workers_are_forked_from_a_server_that_has_imported_what_they_use():
    done = subprocess.run(
        [sys.executable, "-c", SERVED],
        env={**os.environ, "PYTHONPATH": str(ROOT)},  # the server does not look around it
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
