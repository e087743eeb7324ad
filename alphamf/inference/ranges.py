"""Ranges of hyperparameters, and checks that raise an error for values outside."""

from collections.abc import Callable
from math import inf
from typing import Any, NamedTuple

from alphamf.errors import AlphaMFError


class Range(NamedTuple):
    """A range of numbers; no range holds a NaN."""

    words: str  # What a number must be, for error messages
    holds: Callable[[Any], bool]  # Whether the range contains a number


NOT_NEGATIVE = Range("must not be negative", lambda x: x >= 0)
POSITIVE = Range("must be positive", lambda x: x > 0)
FINITE = Range("must be a positive number", lambda x: 0 < x < inf)
SHARE = Range("must be from 0 to below 1", lambda x: 0 <= x < 1)


def at_least(least: int) -> Range:
    """Return the range of numbers from `least` on, `least` included."""
    return Range(f"must be at least {least}", lambda x: x >= least)


def check_range(name: str, value: Any, allowed: Range) -> None:
    """Raise an AlphaMFError unless `value` lies in `allowed`; `name` is for the message."""
    if not allowed.holds(value):
        raise AlphaMFError(f"{name} {allowed.words}, not {value}")


def check_ranges(part: Any, **allowed: Range) -> None:
    """Raise an AlphaMFError unless the fields of `part` lie in their ranges, or are None."""
    for name, each in allowed.items():
        if (value := getattr(part, name)) is not None:
            check_range(name, value, each)
