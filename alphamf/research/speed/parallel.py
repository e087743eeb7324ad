"""How much faster several cores denoise a folder of clips, and one long recording."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import NamedTuple

import numpy as np
import soundfile

from alphamf.audio.inputs import plan
from alphamf.denoising.file import process
from alphamf.denoising.request import Request
from alphamf.denoising.settings import PRESETS
from alphamf.evaluation.observers import Observers
from alphamf.research.speed.measure import synthetic_sound
from alphamf.tools import pool

RATE = 16000
"""Sampling rate of the recordings, in Hz."""


class Cores(NamedTuple):
    """Times of ``fast``, medians of the rounds.

    Attributes
    ----------
    sound
        What is denoised.
    files, seconds
        Number of recordings, and their length together in seconds.
    cores
        Number of cores.
    one, all
        Seconds on one core, and on all.
    faster
        Median of one / all, each of which was taken in one round.
    """

    sound: str
    files: int
    seconds: int
    cores: int
    one: float
    all: float
    faster: float


def cores(rounds: int) -> Iterator[Cores]:
    """Measure a folder of clips and a long recording, on one core and on all, in turn."""
    count = pool.cores()
    for sound, lengths in (("a folder of clips", range(10, 26)), ("one recording", [280])):
        with TemporaryDirectory() as folder:
            for k, seconds in enumerate(lengths):
                audio = synthetic_sound(seconds, RATE)
                soundfile.write(Path(folder, f"{k}.wav"), audio, RATE)
            times = np.array([[_time(folder, k) for k in (1, count)] for _ in range(rounds)])
        one, every = times.T
        yield Cores(
            sound,
            len(lengths),
            sum(lengths),
            count,
            float(np.median(one)),
            float(np.median(every)),
            float(np.median(one / every)),
        )


def _time(folder: str, count: int) -> float:
    """Return the seconds that a number of cores take for the recordings of a folder."""
    jobs = plan([folder], output_dir=str(Path(folder, "out")), overwrite=True).jobs
    request = Request(PRESETS["fast"], Observers, overwrite=True, jobs=max(1, count // len(jobs)))
    start = perf_counter()
    list(pool.each(partial(process, request=request), jobs, workers=count))
    return perf_counter() - start
