"""Size of this machine's memory."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

_LIMITS = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Files in which Linux stores the memory limit of a container."""


def total() -> int | None:
    """Return the maximum number of bytes for this process, or None if it is unknown."""
    found = []
    if sys.platform != "win32":
        import resource

        with suppress(OSError, ValueError):
            found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        with suppress(OSError):
            limit, _ = resource.getrlimit(resource.RLIMIT_AS)
            if limit != resource.RLIM_INFINITY:
                found.append(limit)
    for path in _LIMITS:
        with suppress(OSError, ValueError):  # a file that says "max" sets no limit
            found.append(int(path.read_text()))
    return min(found, default=None)


def format_gigabytes(count: float) -> str:
    """Format a number of bytes in GB."""
    return f"{count / 1e9:.3g} GB" if count < 1e12 else f"{count / 1e9:,.0f} GB"
