"""Measure the time and memory of a method."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.evaluation.baselines.base import Clip
from alphamf.evaluation.methods import method
from alphamf.tools.arrays import Floats

_warm: set[str] = set()


class Cost(NamedTuple):
    """The time and memory of a method."""

    # cpu, wall: seconds of processor time, and elapsed seconds.
    cpu: float
    wall: float
    memory: float | None  # Largest resident memory in bytes; None if unknown.


def measure_cost(spec: str, clip: Clip) -> tuple[Floats, Cost]:
    """Run a method on a clip, and return its output and cost."""
    run = method(spec).run
    if spec not in _warm:
        # Imports and preparations are no cost of a clip; a method that fails does so again below.
        with suppress(Exception):
            run(clip._replace(noisy=clip.noisy[: clip.rate], clean=clip.clean[: clip.rate]))
        _warm.add(spec)
    exact = _reset_peak()
    before, wall = os.times(), time.perf_counter()
    cpu = time.process_time()
    estimate = run(clip)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    after = os.times()
    children = sum(after[2:4]) - sum(before[2:4])
    if estimate.shape != clip.noisy.shape:
        shapes = f"{estimate.shape} for {clip.noisy.shape}"
        raise AlphaMFError(f"{spec} returned a sound of the shape {shapes}")
    if not np.isfinite(estimate).all():
        raise AlphaMFError(f"{spec} returned values that are not finite")
    return estimate, Cost(cpu + children, wall, None if children else _peak(exact))


def memory_source() -> str:
    """Return which measure of memory is used for `Cost.memory` on this machine."""
    if _reset_peak():
        return "VmHWM: peak resident memory of the process while the method ran"
    if _peak() is not None:
        return "ru_maxrss: peak resident memory of the process since its start"
    return "unknown on this system"


def _reset_peak() -> bool:
    """Reset the system's record of the largest resident memory."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return False
    return True


def _peak(exact: bool = False) -> float | None:
    """Return the peak resident memory in bytes; since the last reset if `exact`."""
    if exact:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    if sys.platform == "win32":
        return None
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)
