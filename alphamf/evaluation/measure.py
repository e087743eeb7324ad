"""One clip and one method: run it, take its time and memory, score and keep what it gives."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from alphamf.audio.reader import read
from alphamf.audio.writer import open_writer
from alphamf.errors import AlphaMFError
from alphamf.evaluation.baselines import Clip
from alphamf.evaluation.methods import method
from alphamf.evaluation.runner import Job, Result, audio_name
from alphamf.evaluation.score import pesq, si_sdr, stoi
from alphamf.tools.arrays import Floats
from alphamf.tools.files import reason, shown

MOST_DB = 100.0
"""A ratio above this is infinite but for rounding."""

_warm: set[str] = set()


class Cost(NamedTuple):
    """Seconds of processor time, seconds of a clock, and largest resident memory in bytes."""

    cpu: float
    wall: float
    memory: float | None


def measure(
    job: Job,
    update: object = None,
    *,
    stoppable: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Result:
    """Do a job; what is wrong with its files or its method is told in the result.

    Sound of several channels counts as their mean, for the method and for the scores.

    Parameters
    ----------
    job
        As `alphamf.evaluation.runner.plan` lists it.
    update
        Not used: what a pool of workers gives.
    stoppable
        Gives a context in which the method runs: one that may be left at any time.
    """
    try:
        return _measure(job, stoppable)
    except AlphaMFError as error:
        return replace(job.result, error=str(error))


def scores(
    clean: Floats, noisy: Floats, estimate: Floats, rate: int
) -> tuple[dict[str, float | None], dict[str, str]]:
    """Return the scores of an estimate, None for such as cannot be had, and the reasons for these.

    Parameters
    ----------
    clean, noisy, estimate
        Shape (samples,).
    rate
        Sampling rate in Hz.
    """
    from alphamf.evaluation.bss_eval import bss_eval

    found: dict[str, float | None] = {}
    reasons: dict[str, str] = {}

    def put(names: tuple[str, ...], score: Callable[[], tuple[float, ...]]) -> None:
        try:
            values = score()
        except AlphaMFError as error:
            found.update(dict.fromkeys(names))
            reasons.update(dict.fromkeys(names, str(error)))
            return
        for name, value in zip(names, values, strict=True):
            found[name] = value if math.isfinite(value) else None
            if not math.isfinite(value):
                reasons[name] = "it is infinite, but for rounding"

    def ratio(value: float) -> float:
        return value if abs(value) < MOST_DB else math.copysign(math.inf, value)

    def gain() -> tuple[float, ...]:
        return (ratio(si_sdr(clean, estimate)) - ratio(si_sdr(clean, noisy)),)

    put(("si_sdr",), lambda: (ratio(si_sdr(clean, estimate)),))
    put(("si_sdr_gain",), gain)
    put(("sdr", "sir", "sar"), lambda: tuple(map(ratio, bss_eval(clean, noisy - clean, estimate))))
    put(("stoi",), lambda: (stoi(clean, estimate, rate),))
    put(("estoi",), lambda: (stoi(clean, estimate, rate, extended=True),))
    put(("pesq",), lambda: (pesq(clean, estimate, rate),))
    return found, reasons


def memory_source() -> str:
    """Return what `Cost.memory` is on this machine."""
    if _reset_peak():
        return "VmHWM: largest resident memory of the process while the method ran"
    if _peak() is not None:
        return "ru_maxrss: largest resident memory of the process since it began"
    return "not known on this system"


def _measure(job: Job, stoppable: Callable[[], AbstractContextManager[None]]) -> Result:
    noisy, clean, rate = _load(job)
    output = Path(job.output)
    if job.originals:
        _write(output, audio_name("noisy", job.result.noisy), noisy, rate)
        _write(output, audio_name("clean", job.result.clean), clean, rate)
    clip = Clip(noisy, rate, clean, job.result.seed, job.model)
    with stoppable():
        estimate, cost = _timed(job.result.method, clip)
        found, reasons = scores(clean, noisy, estimate, rate)
    audio = audio_name(job.result.method, job.result.noisy)
    _write(output, audio, estimate, rate)
    seconds = len(noisy) / rate
    return replace(
        job.result,
        rate=rate,
        seconds=seconds,
        scores=found,
        reasons=reasons,
        cpu_seconds=cost.cpu,
        real_time_factor=cost.wall / seconds,
        peak_memory_mb=None if cost.memory is None else cost.memory / 1e6,
        audio=audio,
    )


def _load(job: Job) -> tuple[Floats, Floats, int]:
    """Read both files and check that they belong together."""
    (noisy, rate), (clean, other) = read(job.pair.noisy), read(job.pair.clean)
    names = f"{shown(job.pair.noisy)} and {shown(job.pair.clean)}"
    if rate != other:
        raise AlphaMFError(f"{names} must have one sampling rate, not {rate} and {other} Hz")
    if len(noisy) != len(clean):
        raise AlphaMFError(
            f"{names} must be equally long, not {len(noisy)} and {len(clean)} samples"
        )
    sounds = noisy.mean(axis=1), clean.mean(axis=1)
    if np.ptp(sounds[1]) == 0:
        raise AlphaMFError(f"{shown(job.pair.clean)} is silent, so that nothing can be scored")
    return *sounds, rate


def _timed(spec: str, clip: Clip) -> tuple[Floats, Cost]:
    """Run a method and check what it returns."""
    run = method(spec).run
    if spec not in _warm:
        # What is imported and prepared once is no cost of a clip; what fails, fails again below.
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
        raise AlphaMFError(f"{spec} gave a sound of the shape {shapes}")
    if not np.isfinite(estimate).all():
        raise AlphaMFError(f"{spec} gave values that are not finite")
    return estimate, Cost(cpu + children, wall, None if children else _peak(exact))


def _write(output: Path, name: str, audio: Floats, rate: int) -> None:
    path = output / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AlphaMFError(f"{shown(path.parent)} cannot be made: {reason(error)}") from error
    with open_writer(path, rate, 1, format="FLAC", subtype="PCM_16") as writer:
        writer.write(audio[:, None].astype(np.float32))


def _reset_peak() -> bool:
    """Make this the moment from which the system tells the largest resident memory."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return False
    return True


def _peak(exact: bool = False) -> float | None:
    """Return the largest resident memory in bytes: since the last reset where it is exact."""
    if exact:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    try:
        import resource
    except ImportError:
        return None
    unit: Any = 1 if os.uname().sysname == "Darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)
