"""Stop `alphamf live` while it records: what was recorded can be read, and no process stays."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import numpy as np
import soundfile

from alphamf.live.take import RecordingPaths
from benchmarks.attacks.kill_processes import leave, start, stopped
from benchmarks.attacks.kill_tasks import SIGNALS, Account, Task, plain

TASK = Task(
    "live --record out/00.wav -q",
    plain,
    "from tests.support import sound_cards; sound_cards.run_alone(1000)",
)
"""Between the devices of a stand-in, which hear noise."""

HEAD = 44
"""Bytes of a WAV file's header."""

LONGEST = 2.0
"""Seconds of the recordings, at most."""


def cycles(folder: Path, count: int, rng: np.random.Generator) -> Account:
    """Stop it at random moments, each time with recordings of their own.

    Of the two files, before and after, all that is on the disk must be read; after SIGTERM and
    SIGINT they must be equally long.

    Parameters
    ----------
    folder
        With an empty ``out``.
    count
        Number of stops.
    rng
        Draws the moments.
    """
    account = Account()
    seconds = _start_of_recording(folder)
    for k in range(1, count + 1):
        number = SIGNALS[k % len(SIGNALS)]
        files = _files(folder, k)
        process = start(_task(k), folder)
        errors = stopped(process, rng.uniform(0.1, seconds + LONGEST), number, rng, account)
        account.tracebacks += b"Traceback" in errors
        account.rounds += process.returncode == 0
        if not leave(process):
            account.problems.append(f"stop {k} ({number.name}): processes were left behind")
        account.problems += [
            f"stop {k} ({number.name}): {sentence}"
            for sentence in _problems(files, whole=number != signal.SIGKILL)
        ]
    return account


def _task(k: int) -> Task:
    return TASK._replace(arguments=TASK.arguments.replace("00", f"{k:02}"))


def _files(folder: Path, k: int) -> RecordingPaths:
    return RecordingPaths(folder / "out" / f"{k:02}.wav", folder / "out" / f"{k:02}.denoised.wav")


def _start_of_recording(folder: Path) -> float:
    """Return the seconds until sound is recorded."""
    began = time.perf_counter()
    process = start(_task(0), folder)
    file = _files(folder, 0).after
    while not (file.exists() and file.stat().st_size > HEAD):
        if process.poll() is not None:
            raise SystemExit(f"alphamf {TASK.arguments} ended by itself")
        time.sleep(0.01)
    seconds = time.perf_counter() - began
    process.terminate()
    process.communicate()
    return seconds


def _problems(files: RecordingPaths, *, whole: bool) -> list[str]:
    there = [file for file in files if file.exists() and file.stat().st_size]
    lengths = [soundfile.info(file).frames for file in there]
    on_disk = [(file.stat().st_size - HEAD) // 2 for file in there]
    problems = [] if lengths == on_disk else [f"{lengths} samples of {on_disk} can be read"]
    if whole and len(set(lengths)) > 1:
        problems.append(f"the recordings have {lengths} samples")
    return problems
