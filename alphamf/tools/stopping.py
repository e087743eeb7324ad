"""How a process is stopped: signals are held back, and a worker leaves where that does no harm."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

GRACE = 5.0
"""How long a worker that is to stop may take to leave its item, in seconds."""

_HURRY = 0.5
"""How long workers may still take after a second signal, in seconds."""

_LAST = 2.0
"""How long this process may still take after a second signal, in seconds."""

_asked = False
_counted = False
_hurried = False
_stopped = False
_stoppable = False
at_work = threading.Lock()
"""Held by a worker while it works on an item."""


@contextmanager
def stoppable() -> Iterator[None]:
    """Let a stop end this block of a worker at once, rather than at its next progress message.

    For computations: not for code that writes files.
    """
    global _stoppable
    _stoppable = True
    try:
        leave_if_stopped()
        yield
    finally:
        _stoppable = False


@contextmanager
def blocked(*signals: signal.Signals) -> Iterator[None]:
    """Block signals; processes and threads that are started meanwhile never receive them.

    The terminal sends Ctrl-C to all processes, and the first one has to end the others.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


def end_on_signals() -> None:
    """Make Ctrl-C and SIGTERM end this process: the first with an exception, a second for certain.

    The exception of the first may be lost, or what it stops may be stuck; a second exception
    could strike the lines that clean up after the first. So a thread counts the signals.
    """
    signal.signal(signal.SIGTERM, _ask)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # and not ignored
        signal.signal(signal.SIGINT, _ask)
    if os.name == "posix":
        with suppress(OSError, RuntimeError):  # few descriptors, few threads
            read, write = os.pipe()
            os.set_blocking(write, False)
            threading.Thread(target=_count, args=(read,), daemon=True).start()
            signal.set_wakeup_fd(write, warn_on_full_buffer=False)


def _ask(number: int, frame: FrameType | None) -> None:
    global _asked
    if _asked and _counted:
        return
    _asked = True
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)


def _count(read: int) -> None:
    """Read the signals that this process receives, and end it some time after the second."""
    global _counted, _hurried
    _counted = True
    count = 0
    while count < 2:
        number = os.read(read, 1)[0]
        count += number in (signal.SIGINT, signal.SIGTERM)
    _hurried = True
    time.sleep(_LAST)
    if os.isatty(2):
        os.write(2, b"\x1b[?25h")  # the cursor, which a progress display has hidden
    os._exit(128 + number)


def patience(usual: float) -> float:
    """Return how long to wait for workers that are to stop: less after a second signal.

    Parameters
    ----------
    usual
        How long otherwise, in seconds.
    """
    return min(usual, _HURRY) if _hurried else usual


def leave_if_stopped() -> None:
    """Raise SystemExit in a worker that is to stop."""
    if _stopped:
        raise SystemExit


def prepare_worker() -> None:
    """Make this process stop on SIGTERM, and when its parent process is gone."""
    signal.signal(signal.SIGTERM, _terminate)
    if hasattr(signal, "pthread_sigmask"):  # it was started with both blocked
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when the parent process has been killed, once it has left its item.

    An item that it does not leave within `GRACE` is lost.
    """
    import multiprocessing

    global _stopped
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        _stopped = True
        at_work.acquire(timeout=GRACE)
        os._exit(1)


def _terminate(number: int, frame: FrameType | None) -> None:
    """Remember to leave at the next progress message, or leave now inside `stoppable`.

    Elsewhere an exception raised here could strike code that may not raise, and be lost, or the
    lines that remove half-written files.
    """
    global _stopped
    _stopped = True
    if _stoppable:
        raise SystemExit
