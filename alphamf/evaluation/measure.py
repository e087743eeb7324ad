"""Run one method on one clip: measure time and memory, score and write the output."""

import math
import os
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from alphamf.audio.reader import read
from alphamf.audio.speech_level import pause_depth
from alphamf.audio.writer import open_writer
from alphamf.errors import AlphaMFError
from alphamf.evaluation.baselines.base import Clip, fit
from alphamf.evaluation.methods import method
from alphamf.evaluation.runner import EvaluationJob, audio_name
from alphamf.evaluation.summary import Result
from alphamf.scores.score import pesq, sdr, si_sdr, stoi
from alphamf.tools.arrays import Floats
from alphamf.tools.files import make_folder, printable_name

_warm: set[str] = set()


class Cost(NamedTuple):
    """The time and memory that a method needed for one clip."""

    # cpu, wall: seconds of processor time (child processes included), and elapsed seconds.
    cpu: float
    wall: float
    memory: float | None  # Largest resident memory in bytes; None if unknown.


def measure_cost(spec: str, clip: Clip) -> tuple[Floats, Cost]:
    """Run a method, warmed up once; return output and cost; raise AlphaMFError for a bad output."""
    run = method(spec).run
    if spec not in _warm:
        # Imports and preparations do not count as cost; a method that fails here fails again below.
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
    """Reset the system's record of the largest resident memory; return whether this succeeded."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return False
    return True


def _peak(exact: bool = False) -> float | None:
    """Return peak resident memory in bytes, since the last reset if `exact`; None on Windows."""
    if exact:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    if sys.platform == "win32":
        return None
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


MOST_SHORT = 0.1
"""Maximum difference in seconds between the lengths of another system's file and the clip."""

MOST_DB = 100.0
"""Ratios of at least this many dB, positive or negative, count as infinite."""


def measure(
    job: EvaluationJob,
    update: object = None,
    *,
    stoppable: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Result:
    """Run a job: write its sounds, and return its result, with the text of any AlphaMFError.

    Channels are averaged. `update` is unused; `stoppable` wraps work that a stop may interrupt.
    """
    try:
        return _measure(job, stoppable)
    except AlphaMFError as error:
        return replace(job.result, error=str(error))


def scores(
    clean: Floats, noisy: Floats, estimate: Floats, rate: int
) -> tuple[dict[str, float | None], dict[str, str]]:
    """Return the scores of an estimate by name, None if undefined, and the reason for each None.

    `clean`, `noisy`, `estimate`: shape (samples,).
    """
    from alphamf.scores.bss_eval import bss_eval

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
                reasons[name] = "it is infinite, apart from rounding"

    def ratio(value: float) -> float:
        return value if abs(value) < MOST_DB else math.copysign(math.inf, value)

    def gain() -> tuple[float, ...]:
        return (ratio(si_sdr(clean, estimate)) - ratio(si_sdr(clean, noisy)),)

    put(("si_sdr",), lambda: (ratio(si_sdr(clean, estimate)),))
    put(("si_sdr_gain",), gain)
    put(("sdr", "sir", "sar"), lambda: tuple(map(ratio, bss_eval(clean, noisy - clean, estimate))))
    if reasons.pop("sdr", None):  # SDR alone needs no noise
        put(("sdr",), lambda: (ratio(sdr(clean, estimate)),))
    put(("stoi",), lambda: (stoi(clean, estimate, rate),))
    put(("estoi",), lambda: (stoi(clean, estimate, rate, extended=True),))
    put(("pesq",), lambda: (pesq(clean, estimate, rate),))
    return found, reasons


def _measure(job: EvaluationJob, stoppable: Callable[[], AbstractContextManager[None]]) -> Result:
    output = Path(job.output)
    clean, rate = _clean(job)
    # Written before the noisy file is read, which may fail: other jobs need the clean file, too.
    if "clean" in job.originals:
        _write(output, audio_name("clean", job.result.clean), clean, rate)
    noisy = _noisy(job, len(clean), rate)
    if "noisy" in job.originals:
        _write(output, audio_name("noisy", job.result.noisy), noisy, rate)
    clip = Clip(noisy, rate, clean, job.result.seed, job.model)
    cost = None
    with stoppable():
        if job.estimate is None:
            estimate, cost = measure_cost(job.result.method, clip)
        else:
            estimate = _estimate(job.estimate, clip)
        found, reasons = scores(clean, noisy, estimate, rate)
    audio = audio_name(job.result.method, job.result.noisy)
    _write(output, audio, estimate, rate)
    with stoppable():
        for values, problem in job.extra.scores(estimate, clean, rate, job.result.clean):
            found.update(values)
            reasons |= dict.fromkeys(values, problem) if problem else {}
    seconds, depth = len(clean) / rate, pause_depth(clean, rate)
    return replace(
        job.result,
        rate=rate,
        seconds=seconds,
        pause_depth=depth if math.isfinite(depth) else None,
        scores=found,
        reasons=reasons,
        cpu_seconds=cost and cost.cpu,
        real_time_factor=cost and cost.wall / seconds,
        peak_memory_mb=cost.memory / 1e6 if cost and cost.memory is not None else None,
        audio=audio,
    )


def _clean(job: EvaluationJob) -> tuple[Floats, int]:
    """Return the clean file's channel mean and rate; raise an AlphaMFError if it is constant."""
    sound, rate = read(job.pair.clean)
    clean = sound.mean(axis=1)
    if np.ptp(clean) == 0:
        raise AlphaMFError(
            f"{printable_name(job.pair.clean)} is silent, so no scores can be computed"
        )
    return clean, rate


def _noisy(job: EvaluationJob, samples: int, rate: int) -> Floats:
    """Return the noisy file's channel mean; its rate and length must be those of the clean file."""
    sound, own = read(job.pair.noisy)
    names = f"{printable_name(job.pair.noisy)} and {printable_name(job.pair.clean)}"
    if own != rate:
        raise AlphaMFError(f"{names} must have the same sampling rate, not {own} and {rate} Hz")
    if len(sound) != samples:
        raise AlphaMFError(
            f"{names} must have the same length, not {len(sound)} and {samples} samples"
        )
    return sound.mean(axis=1)


def _estimate(path: str, clip: Clip) -> Floats:
    """Return the channel mean of another system's file, cut or padded by at most `MOST_SHORT`."""
    sound, rate = read(path)
    apart = abs(len(sound) - len(clip.noisy))
    if rate != clip.rate or apart > MOST_SHORT * rate:
        raise AlphaMFError(
            f"{printable_name(path)} has {len(sound)} samples at {rate} Hz, but the noisy file has "
            f"{len(clip.noisy)} at {clip.rate} Hz"
        )
    return fit(sound.mean(axis=1), len(clip.noisy))


def _write(output: Path, name: str, audio: Floats, rate: int) -> None:
    path = output / name
    make_folder(path, output)
    with open_writer(path, rate, 1, format="FLAC", subtype="PCM_16", within=output) as writer:
        writer.write(audio[:, None].astype(np.float32))
