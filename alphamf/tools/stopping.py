"""How a process is stopped: signals are held back, and a worker leaves where that does no harm."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

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


def leave_if_stopped() -> None:
    """Raise SystemExit in a worker that is to stop."""
    if _stopped:
        raise SystemExit


def prepare_worker() -> None:
    """Make this process stop on SIGTERM, and when its parent process is gone."""
    signal.signal(signal.SIGTERM, _terminate)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process, once it has left its item, when the parent process has been killed."""
    import multiprocessing

    global _stopped
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        _stopped = True
        with at_work:
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
