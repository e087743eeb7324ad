"""Parse times such as 1:15."""

from __future__ import annotations

import math
import re

from alphamf.errors import AlphaMFError

_TIME = re.compile(r"(?:(?:(\d+):)?(\d+):)?(\d+(?:\.\d*)?|\.\d+)s?")


def seconds(argument: str, text: str) -> float:
    """Parse a time such as ``75``, ``1:15`` or ``0:01:15.5``; return seconds."""
    found = _TIME.fullmatch(text.strip())
    if found:
        hours, minutes, rest = (float(part or 0) for part in found.groups())
        time = 3600 * hours + 60 * minutes + rest
        if math.isfinite(time):
            return time
    raise AlphaMFError(f"`{argument}` must be a time such as 75, 1:15 or 0:01:15.5, not {text!r}")


def parse_range(argument: str, text: str) -> tuple[float, float]:
    """Parse a time range such as ``0:00-0:03``; return start and end in seconds."""
    times = text.split("-")
    if len(times) != 2:
        raise AlphaMFError(f"`{argument}` must be a time range such as 0:00-0:03, not {text!r}")
    start, end = (seconds(argument, time) for time in times)
    return start, end
