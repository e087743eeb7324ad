"""Tables of speed and memory for BENCHMARKS.md: ``python -m benchmarks.speed [PART ...]``.

PART is ``steps``, ``denoisers``, ``peers``, ``cores`` (what ``alphamf benchmark`` measures) or
``long``: how memory and time grow with the length of a recording, up to three hours of 48 kHz
stereo. All parts together take half an hour, and the machine should have nothing else to do.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import soundfile

from alphamf.research.speed import measure as speed
from alphamf.research.speed import parallel, peers
from alphamf.research.speed.rows import core_rows, denoiser_rows, peer_rows, step_rows
from alphamf.tools import tables
from alphamf.tools.blas import one_thread
from benchmarks.report import caption, write_section

REPOSITORY = Path(__file__).parents[1]
ROUNDS = 25
LONG = ((1, 1), (10, 1), (60, 1), (60, 2), (180, 2))
"""Minutes of sound, and jobs."""
RATE = 48000
COLUMNS = (
    "sampler",
    "cells",
    "ms a step",
    "plain NumPy ms",
    "times as fast as plain",
    "times the floor",
    "method",
    *(f"rnnoise = 1, {rate // 1000} kHz" for rate in peers.RATES),
    "CPU s per s, 16 kHz",
)
"""Headings that stay on the page of the two tables that are wider."""

Rows = Iterator[dict[str, str | float]]


def long() -> Rows:
    """Denoise ever longer recordings with chains of two steps, and read time and memory.

    The steps are those of ``fast``; how many there are makes no difference to memory.
    """
    rng = np.random.default_rng(0)
    with TemporaryDirectory() as folder:
        source, output = Path(folder, "in.wav"), Path(folder, "out.wav")
        for minutes, jobs in LONG:
            with soundfile.SoundFile(source, "w", RATE, 2, "PCM_16") as file:
                for _ in range(minutes * 6):
                    file.write(0.1 * rng.standard_normal((10 * RATE, 2), np.float32))
            options = f"--overwrite --quiet --preset fast --steps 2 --keep 1 --jobs {jobs}"
            seconds, memory = _measured(
                ["denoise", str(source), "-o", str(output), *options.split()]
            )
            yield {
                "minutes of 48 kHz stereo": minutes,
                "jobs": jobs,
                "seconds": round(seconds, 1),
                "seconds a minute": round(seconds / minutes, 2),
                "MB": round(memory / 1e6),
            }


def _measured(arguments: list[str]) -> tuple[float, float]:
    """Return the seconds and the most bytes of memory that a run of alphamf takes."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", "from alphamf.cli.start import main; main()", *arguments]
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"alphamf {arguments[0]} ended with {process.returncode}")
    return time.perf_counter() - start, usage.ru_maxrss * 1024


PARTS: dict[str, Callable[[], Rows]] = {
    "steps": lambda: step_rows(speed.steps(ROUNDS)),
    "denoisers": lambda: denoiser_rows(speed.denoisers(3)),
    "peers": lambda: peer_rows(peers.peers(3)),
    "cores": lambda: core_rows(parallel.cores(3)),
    "long": long,
}


@one_thread()
def main() -> None:
    """Make the tables that the command line names, and write them."""
    names = sys.argv[1:] or list(PARTS)
    for name in names:
        rows = list(PARTS[name]())
        table = tables.markdown(list(rows[0]), [[str(v) for v in row.values()] for row in rows])
        made = caption("benchmarks.speed", [name], ("alphamf", "numpy"))
        page, text = REPOSITORY / "BENCHMARKS.md", f"{table}\n\n{made}"
        write_section(page, f"speed:{name}", text, columns=COLUMNS)


if __name__ == "__main__":
    main()
