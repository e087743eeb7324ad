"""Measure time, including or excluding time in which a process or the machine was suspended."""

from __future__ import annotations

import sys
import time

STEP = 1.0
"""Maximum time between two readings of a stopwatch that is counted, in seconds."""


def elapsed_seconds() -> float:
    """Return seconds since a fixed moment, unaffected by changes of the system clock.

    Unlike `time.monotonic`, it also counts while the machine sleeps on Linux.
    """
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Stopwatch:
    """Counts seconds since its creation, excluding time in which the process was suspended.

    A time limit for others must not expire while this process cannot observe them. Read it more
    often than every `STEP` seconds: of a longer time, only `STEP` counts.
    """

    def __init__(self) -> None:
        self._seconds = 0.0
        self._seen = time.monotonic()

    def seconds(self) -> float:
        """Return the seconds so far."""
        now = time.monotonic()
        self._seconds += min(now - self._seen, STEP)
        self._seen = now
        return self._seconds
