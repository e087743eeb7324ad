"""Tasks for pools and clusters, in a module that their workers can import."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from alphamf.errors import AlphaMFError


def half(item: int, update: object) -> int:
    """Halve an even number; 13 kills its worker, 15 crashes it, other odd numbers are refused."""
    if item in (13, 15):
        os.kill(os.getpid(), signal.SIGKILL if item == 13 else signal.SIGSEGV)
    if item % 2:
        raise AlphaMFError(f"{item} is odd")
    return item // 2


def killed_once(item: Path, update: object) -> str:
    """Kill the worker where the item, a file, is not there; make it before."""
    if item.exists():
        return item.name
    item.touch()
    os.kill(os.getpid(), signal.SIGKILL)
    return ""


def stuck(item: Path, update: object) -> None:
    """Note the process in a file beside a named pipe, and wait for a writer, who never comes."""
    (item.parent / f"{os.getpid()}.stuck").touch()
    item.open().close()
