r"""Do threads scale? Two recordings one after the other, in two threads, and in two processes.

Each is `alphamf.denoise` of 20 s. The three ways take turns in every round, so that what else the
machine does meets them alike; two processes are what two threads can reach at best. For example::

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.threads --rounds 5 --write
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np

from alphamf import denoise
from alphamf.audio.reader import read
from alphamf.tools import tables
from alphamf.tools.arrays import Floats
from benchmarks.report import caption, publish

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "log" / "in-and-out.md"
SECONDS = 20
WAYS = ("one after the other", "two threads", "two processes")


def recordings() -> tuple[list[Floats], int]:
    """Return two recordings, shape (samples,), and their rate."""
    sound, rate = read(ROOT / "data" / "sample-noisy.wav")
    whole = np.resize(sound[:, 0], SECONDS * rate)
    return [whole, np.roll(whole, len(whole) // 3)], rate


def work(sound: Floats, rate: int, preset: str) -> float:
    """Denoise a recording, and return the processor time of this thread in seconds."""
    started = time.thread_time()
    denoise(sound, rate, preset)
    return time.thread_time() - started


def timed(run: Callable[[], list[float]]) -> tuple[float, float]:
    """Return the seconds that something took, and its processor time."""
    started = time.perf_counter()
    spent = sum(run())
    return time.perf_counter() - started, spent


def rounds(preset: str, count: int) -> dict[str, list[tuple[float, float]]]:
    """Return wall and processor time in seconds of every round, by way."""
    sounds, rate = recordings()
    found: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    spawn = multiprocessing.get_context("spawn")
    with ThreadPoolExecutor(2) as threads, ProcessPoolExecutor(2, mp_context=spawn) as processes:

        def side_by_side(pool: Executor) -> list[float]:
            return [task.result() for task in [pool.submit(work, x, rate, preset) for x in sounds]]

        ways: list[Callable[[], list[float]]] = [
            lambda: [work(sound, rate, preset) for sound in sounds],
            lambda: side_by_side(threads),
            lambda: side_by_side(processes),
        ]
        for way in ways:  # loads what is loaded once
            way()
        for number in range(count):
            for k in np.roll(range(len(ways)), number):
                found[WAYS[k]].append(timed(ways[k]))
    return found


def table(preset: str, found: dict[str, list[tuple[float, float]]]) -> list[list[str]]:
    """Return a line for each way: means with standard errors, and the ratio to the first."""
    first = np.array(found[WAYS[0]])[:, 0]
    lines = []
    for way, pairs in found.items():
        wall, spent = np.array(pairs).T
        cells = (tables.mean_and_error(each) for each in (wall, wall / first, spent, spent / wall))
        lines.append([preset, way, *(tables.with_error(mean, error, 2) for mean, error in cells)])
    return lines


def main() -> None:
    """Run the command line, and print the table."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.threads",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=5, help="of all three ways")
    parser.add_argument("--presets", default="fast,balanced", help="with commas between")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    asked = parser.parse_args()
    lines = []
    for preset in asked.presets.split(","):
        lines += table(preset, rounds(preset, asked.rounds))
    headings = ["preset", "two recordings", "wall s", "ratio to the first", "CPU s", "CPU / wall"]
    options = ["--rounds", str(asked.rounds), "--presets", asked.presets]
    note = caption("benchmarks.threads", options, ("alphamf", "numpy"))
    publish(PAGE, "threads", f"{tables.markdown(headings, lines)}\n\n{note}", write=asked.write)


if __name__ == "__main__":
    main()
