"""Stop processes where it is safe, block signals elsewhere, and measure time limits."""

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

GRACE = 5.0
"""Time for a worker to stop its item, in seconds."""

_HURRY = 0.5
"""Time for workers to stop after a second signal, in seconds."""

_LIMITS = 20.0, 2.0, 0.0
"""Time for this process to end after the first, the second and the third signal, in seconds."""

_ONE = 0.25
"""Time within which several signals count as one, in seconds: the command ``timeout`` sends two."""


@dataclass
class _State:
    """State of this process: which stops were requested, and which are allowed now."""

    exit_code: int | None = None  # Exit code, once the process was asked to stop; None before
    counts_signals: bool = False  # Whether a thread counts the signals
    in_a_hurry: bool = False  # Whether a second signal came
    may_stop_anywhere: bool = False  # Whether a stop ends a worker at once: inside `allow_stop`
    holds: int = 0  # Number of active `block_signals` blocks
    held_signal: int | None = None  # Last signal that these blocks hold back, or None
    may_finish: bool = False  # Whether the first Ctrl-C only asks to finish what was read
    is_to_finish: bool = False  # Whether that Ctrl-C came


_state = _State()

at_work: threading.Lock = threading.Lock()
"""Lock that a worker holds while it processes an item."""


@contextmanager
def allow_stop() -> Iterator[None]:
    """Allow a stop to end this block of a worker immediately, not at its next progress message.

    Use it for computations, not for code that writes files.
    """
    _state.may_stop_anywhere = True
    try:
        leave_if_stopped()
        yield
    finally:
        _state.may_stop_anywhere = False


@contextmanager
def block_signals(*signals: signal.Signals) -> Iterator[None]:
    """Block signals; processes and threads started in the block never receive them.

    The terminal sends Ctrl-C to all processes, and the main process has to end the others. A signal
    that another thread receives takes effect after the block. On Windows, nothing is blocked.
    """
    if sys.platform == "win32":
        yield
        return
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    _state.holds += 1
    try:
        yield
    finally:
        _state.holds -= 1
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)
        if _state.held_signal is not None and not _state.holds:
            number, _state.held_signal = _state.held_signal, None
            _ask(number, None)


@contextmanager
def finish_on_interrupt() -> Iterator[None]:
    """In this block, the first Ctrl-C asks to finish what was read; the second one stops.

    If no thread counts the signals, the first one stops.
    """
    _state.may_finish, _state.is_to_finish = _state.counts_signals, False
    try:
        yield
    finally:
        _state.may_finish = False


def finish_requested() -> bool:
    """Return whether Ctrl-C was pressed inside `finish_on_interrupt`, to finish what was read."""
    return _state.is_to_finish


def end_on_signals() -> None:
    """End this process on Ctrl-C and SIGTERM: first by an exception, later immediately.

    The exception of the first signal may be lost, or the code that it stops may hang; a second
    exception could interrupt the cleaning up after the first. So a thread counts the signals, and
    ends the process some time after each (not on Windows).
    """
    signal.signal(signal.SIGTERM, _ask)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # and not ignored
        signal.signal(signal.SIGINT, _ask)
    if sys.platform != "win32":
        with suppress(OSError, RuntimeError):  # few descriptors, few threads
            read, write = os.pipe()
            os.set_blocking(write, False)
            threading.Thread(target=_count, args=(read,), daemon=True).start()
            signal.set_wakeup_fd(write, warn_on_full_buffer=False)


def _ask(number: int, frame: FrameType | None) -> None:
    """Signal handler: raise an exception to stop, unless signals are held back or `_count` acts."""
    if _state.may_finish or (_state.exit_code is not None and _state.counts_signals):
        return
    if _state.holds:
        _state.held_signal = number
        return
    _state.exit_code = 128 + number
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)


def _count(read: int) -> None:
    """Read the signals that this process receives, and end it if it does not stop in time."""
    _state.counts_signals = True
    count, last, deadline = 0, -_ONE, threading.TIMEOUT_MAX
    while True:
        wait = max(0.0, min(deadline - time.monotonic(), 3600.0))
        if not select.select([read], [], [], wait)[0]:
            if time.monotonic() >= deadline:
                break
            continue
        received = os.read(read, 1)[0]
        now = time.monotonic()
        if received not in (signal.SIGINT, signal.SIGTERM) or now - last < _ONE:
            continue
        number, last = received, now
        if _finishes(number):
            continue
        deadline = now + _LIMITS[min(count, len(_LIMITS) - 1)]
        count += 1
        _state.in_a_hurry = count > 1
        # `_ask` has left it to this thread, or has yet to run.
        if sys.platform != "win32" and _state.exit_code is None:
            signal.pthread_kill(threading.main_thread().ident or 0, number)
    if os.isatty(2):
        os.write(2, b"\x1b[?25h")  # the cursor, which a progress display has hidden
    os._exit(128 + number)


def _finishes(number: int) -> bool:
    """Return whether a signal only asks to finish what was read."""
    if not _state.may_finish:
        return False
    if number == signal.SIGINT and not _state.is_to_finish:
        _state.is_to_finish = True
        with suppress(OSError):
            os.write(2, b"\nFinishing what was read; Ctrl-C again drops it.\n")
        return True
    _state.may_finish = False
    return False


def stop_timeout(usual: float) -> float:
    """Return how long to wait for workers to stop, in seconds: less after a second signal."""
    return min(usual, _HURRY) if _state.in_a_hurry else usual


def leave_if_stopped() -> None:
    """Raise SystemExit if the process was asked to stop; the signal's own exception may be lost."""
    if _state.exit_code is not None:
        raise SystemExit(_state.exit_code)


def prepare_worker() -> None:
    """Make this worker process stop on SIGTERM, and when its parent process has ended."""
    signal.signal(signal.SIGTERM, _terminate)
    if sys.platform != "win32":  # it was started with both blocked
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Wait until the parent process has ended, then for the current item, and end this process.

    If the item does not end within `GRACE`, it is lost.
    """
    import multiprocessing

    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        _state.exit_code = 1
        at_work.acquire(timeout=GRACE)
        os._exit(1)


def _terminate(number: int, frame: FrameType | None) -> None:
    """Signal handler: stop at the next progress message, or immediately inside `allow_stop`.

    Anywhere else, an exception could interrupt code that must not raise, and be lost, or the lines
    that remove incomplete files.
    """
    _state.exit_code = 0
    if _state.may_stop_anywhere:
        raise SystemExit


STEP = 1.0
"""Maximum time that a stopwatch counts between two readings, in seconds."""


def elapsed_seconds() -> float:
    """Return seconds since a fixed moment, unaffected by changes of the system clock.

    On Linux, unlike `time.monotonic`, it also counts while the machine sleeps.
    """
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Stopwatch:
    """Clock of the seconds since its creation, without time in which the process was suspended.

    A time limit for other processes must not expire while this one cannot observe them. Read the
    clock more often than every `STEP` seconds: of a longer interval, only `STEP` counts.
    """

    def __init__(self) -> None:
        self._seconds = 0.0
        self._seen = time.monotonic()

    def seconds(self) -> float:
        """Return the seconds counted so far."""
        now = time.monotonic()
        self._seconds += min(now - self._seen, STEP)
        self._seen = now
        return self._seconds
