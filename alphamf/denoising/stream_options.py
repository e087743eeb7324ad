"""Checks of a stream's options."""

from __future__ import annotations

from typing import Any

from alphamf.denoising.hints import Hints
from alphamf.errors import AlphaMFError
from alphamf.tools.arguments import callback, instance, one_of, shown_value, whole
from alphamf.tools.arrays import DEVICES

LATENCIES = ("segments", "low")
"""What a stream's latency can be."""

MOST_JOBS = 4096
"""Most segments side by side, far beyond any machine's cores: each takes memory of its own."""


def check_channels(channels: Any, most: Any) -> int:
    """Return a number of channels.

    Raises
    ------
    AlphaMFError
        It is no whole number, or out of range.
    """
    number, limit = whole("channels", channels, 1), whole("max_channels", most, 1)
    if number > limit:
        raise AlphaMFError(
            f"a stream can have 1 to {limit} channels, not {shown_value(number)}; raise "
            "max_channels to allow more"
        )
    return number


def check_way(latency: Any, device: Any, jobs: Any, hints: Any) -> int:
    """Check latency, device, jobs and hints together, and return the number of jobs.

    Raises
    ------
    AlphaMFError
        An argument is of the wrong kind or out of range, or two do not go together.
    """
    count = whole("jobs", jobs, 1, MOST_JOBS)
    one_of("latency", latency, LATENCIES)
    one_of("device", device, DEVICES)
    if hints is not None:
        instance("hints", hints, Hints, "Hints or None")
    if latency == "low" and (device == "cuda" or count > 1):
        raise AlphaMFError(
            "latency 'low' works on the CPU with one job only; leave out device and jobs"
        )
    if latency == "low" and hints is not None:
        raise AlphaMFError("latency 'low' does not support hints")
    return count


def check_callers(progress: Any, cancel: Any) -> None:
    """Refuse a `progress` that is not callable and a `cancel` without a method `is_set`."""
    callback("progress", progress)
    if cancel is not None and not callable(getattr(cancel, "is_set", None)):
        raise AlphaMFError(
            "cancel must have a method is_set, as threading.Event has, or be None, not "
            f"{shown_value(cancel)}"
        )
