"""Measure how time and memory of `alphamf denoise` grow with length, channels and cores.

For example, for the tables of BENCHMARKS.md (an hour takes minutes, ten hours ten times that)::

    python -m benchmarks.growth --minutes 1,10,60 --channels 1,2,8 --cores 1,2 --out growth.csv

The sound is noise with the level of speech, in other noise in each channel. Of length and channels,
each run is one process on one core, by its processor time, elapsed time and largest memory; rows
of cores are a folder of clips of 5 to 25 s by its elapsed time, for which the machine must be idle,
and by the memory of all its processes together (PSS).
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

from alphamf.audio.writer import open_writer
from alphamf.tools import tables
from benchmarks.memory import held

COMMAND = [sys.executable, "-c", "from alphamf.cli.start import main; main()", "denoise"]
HEADINGS = ["what", "files", "minutes", "channels", "jobs", "CPU s per s", "real time", "MB"]
HEADINGS += ["against the first"]
Row = list[str]


def write(path: Path, seconds: float, channels: int, rate: int) -> None:
    """Write noise whose level varies as that of speech, a second at a time."""
    rng = np.random.default_rng(channels)
    envelope = np.sin(2 * np.pi * 2 * np.arange(rate) / rate)[:, None] ** 2 + 0.05
    with open_writer(path, rate, channels) as writer:
        for start in range(0, round(seconds * rate), rate):
            count = min(rate, round(seconds * rate) - start)
            sound = rng.standard_normal((rate, channels), dtype=np.float32)
            writer.write((0.1 * envelope * sound).astype(np.float32)[:count])


def run(folder: Path, preset: str, jobs: int) -> tuple[float, float, float]:
    """Denoise all files of a folder, and return processor time, elapsed time and megabytes.

    Parameters
    ----------
    folder
        Where the files are.
    preset
        Of the run.
    jobs
        Processes; with one, processor time and memory are exact.
    """
    options = ["in", "--output-dir", "out", "--overwrite", "-q", "--preset", preset]
    started = time.perf_counter()
    process = subprocess.Popen(
        [*COMMAND, *options, "--jobs", str(jobs)], cwd=folder, start_new_session=True
    )
    most, looks, done, status, usage = 0.0, 0, 0, 0, None
    while not done:
        if jobs > 1 and looks % 40 == 0:  # a look takes time from the cores
            most = max(most, held(process.pid) / 1e6)
        done, status, usage = os.wait4(process.pid, os.WNOHANG if jobs > 1 else 0)
        time.sleep(0.0 if done else 0.05)
        looks += 1
    elapsed = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"alphamf denoise failed with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, elapsed, most or usage.ru_maxrss / 1e3


def alone(what: str, minutes: list[float], channels: list[int], asked: argparse.Namespace):
    """Yield a row for every length and number of channels."""
    first = None
    for length in minutes:
        for count in channels:
            with tempfile.TemporaryDirectory(prefix="growth-") as name:
                folder = Path(name)
                (folder / "in").mkdir()
                write(folder / "in" / "0.wav", 60 * length, count, asked.rate)
                cpu, elapsed, megabytes = run(folder, asked.preset, 1)
            per_second = cpu / (60 * length * count)
            first = first or per_second
            cells = [f"{per_second * count:.4f}", f"{elapsed / (60 * length):.4f}"]
            ratio = f"{per_second / first:.2f}, per channel" if what == "channels" else ""
            ratio = ratio or f"{per_second / first:.2f}, per second"
            yield [what, "1", f"{length:g}", str(count), "1", *cells, f"{megabytes:.0f}", ratio]


def folders(cores: list[int], asked: argparse.Namespace):
    """Yield a row for every number of processes, which take turns on one folder of clips."""
    lengths = np.random.default_rng(0).uniform(5, 25, asked.files)
    with tempfile.TemporaryDirectory(prefix="growth-") as name:
        folder = Path(name)
        (folder / "in").mkdir()
        for k, seconds in enumerate(lengths):
            write(folder / "in" / f"{k}.wav", seconds, 1, asked.rate)
        rounds = [[run(folder, asked.preset, jobs) for jobs in cores] for _ in range(asked.rounds)]
    for k, jobs in enumerate(cores):
        elapsed = [each[k][1] for each in rounds]
        faster = median(each[0][1] / each[k][1] for each in rounds)
        megabytes = f"{max(each[k][2] for each in rounds):.0f}"
        head = ["cores", str(asked.files), f"{lengths.sum() / 60:.1f}", "1", str(jobs), ""]
        yield [*head, f"{median(elapsed) / lengths.sum():.4f}", megabytes, f"{faster:.2f} as fast"]


def main() -> None:
    """Measure, print the table, and write the CSV."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", default="1,10", help="lengths with commas between")
    parser.add_argument("--channels", default="1,2,8", help="numbers with commas between")
    parser.add_argument("--cores", default="1,2", help="numbers with commas between")
    parser.add_argument("--files", type=int, default=40, help="clips of the folder")
    parser.add_argument("--rounds", type=int, default=1, help="of the folder; medians are shown")
    parser.add_argument("--rate", type=int, default=16000)
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--out", type=Path, help="CSV file")
    asked = parser.parse_args()
    minutes = [float(part) for part in asked.minutes.split(",") if part]
    channels = [int(part) for part in asked.channels.split(",") if part]
    cores = [int(part) for part in asked.cores.split(",") if part]
    rows: list[Row] = [
        *alone("length", minutes, [1], asked),
        *alone("channels", minutes[:1], channels, asked),
        *(folders(cores, asked) if cores else ()),
    ]
    print(tables.markdown(HEADINGS, rows))
    if asked.out:
        with asked.out.open("w", newline="") as file:
            csv.writer(file).writerows([HEADINGS, *rows])


if __name__ == "__main__":
    main()
