"""Tasks for pools and clusters, in a module that their workers can import."""

import os
import signal
import sys
import time
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


def started(item: Path, update: object) -> float:
    """Return when the work on an item began, and take longer over larger ones."""
    begun = time.monotonic()
    time.sleep(item.stat().st_size / 100)
    return begun


def after_its_neighbours(item: Path, update: object) -> str:
    """Make a file; the first one, 0, waits until there are those of 1 and 2."""
    while item.name == "0" and len(list(item.parent.iterdir())) < 2:
        time.sleep(0.02)
    item.touch()
    return item.name


def origin(item: int, update: object) -> tuple[int, bool]:
    """Return the parent process, and whether the item's preloaded module is there."""
    return os.getppid(), "tests.support.distributed_walks" in sys.modules


def busy(item: float, update: object) -> float:
    """Take so many seconds, whatever happens."""
    time.sleep(item)
    return item
