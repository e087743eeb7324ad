"""Tasks for pools and clusters, in a module that their workers can import."""

from __future__ import annotations

import os
import signal

from alphamf.errors import AlphaMFError


def half(item: int, update: object) -> int:
    """Halve an even number; 13 kills its worker, and other odd numbers are refused."""
    if item == 13:
        os.kill(os.getpid(), signal.SIGKILL)
    if item % 2:
        raise AlphaMFError(f"{item} is odd")
    return item // 2
