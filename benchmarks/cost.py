r"""Measure what a command costs: its start, and its time and memory by length, channels and files.

For example::

    python -m benchmarks.cost start
    python -m benchmarks.cost length --rate 8000 --minutes 1,60,600 --channels 1,2,8
    python -m benchmarks.cost length --rate 48000 --minutes 0.5,15,180 --channels 2 --same
    python -m benchmarks.cost files --jobs 1,2,24 --files 24

start
    A second of sound, and the help, beside ``import numpy``: medians of rounds in turn.
length
    Noise with the level of speech, of several lengths and numbers of channels, on one core; with
    ``--same`` the channels share a sound, and are linked.
files
    Files of noise at 16 kHz denoised together: the memory that all processes of the run hold
    together (PSS, in which shared pages count once), sampled every 50 ms.

The tables are printed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from alphamf.audio.writer import open_writer
from alphamf.tools import tables
from benchmarks.report import caption, options_of, run_main

COMMAND = ["-c", "from alphamf.cli.start import main; main()"]
DENOISE = [*COMMAND, "denoise", "in", "--output-dir", "out", "--preset", "fast", "-q"]
STARTS = {
    "python -c 'import numpy'": ["-c", "import numpy"],
    "alphamf --help": [*COMMAND, "--help"],
    "alphamf denoise": [*DENOISE, "--overwrite"],
}


class Use(NamedTuple):
    """Processor time and elapsed time of a process in seconds, and its most memory in MB."""

    cpu: float
    elapsed: float
    megabytes: float


def run(arguments: list[str], folder: Path) -> Use:
    """Run Python in a folder, in an environment in which it keeps what it compiles."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    started = time.perf_counter()
    command = [sys.executable, *arguments]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, env=kept)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed")
    cpu = usage.ru_utime + usage.ru_stime
    return Use(cpu, time.perf_counter() - started, usage.ru_maxrss / 1e3)


def write(path: Path, seconds: float, channels: int, rate: int, *, same: bool = False) -> None:
    """Write noise with the level of speech; with `same` its channels hold one, and their own."""
    path.parent.mkdir(exist_ok=True)
    rng = np.random.default_rng(channels)
    envelope = np.sin(2 * np.pi * 2 * np.arange(rate) / rate)[:, None] ** 2 + 0.05
    with open_writer(path, rate, channels) as writer:
        for start in range(0, round(seconds * rate), rate):
            count = min(rate, round(seconds * rate) - start)
            sound = rng.standard_normal((rate, channels), dtype=np.float32)
            if same:
                sound = 0.1 * sound + rng.standard_normal((rate, 1), dtype=np.float32)
            writer.write((0.1 * envelope * sound).astype(np.float32)[:count])


def start(asked: argparse.Namespace, folder: Path) -> str:
    """Return the table of what commands take before and beside their work."""
    write(folder / "in/a.wav", 1, 1, 16000)
    for arguments in STARTS.values():  # compiled, and read from the disk
        run(arguments, folder)
    rounds = [{k: run(v, folder) for k, v in STARTS.items()} for _ in range(asked.rounds)]
    lines = [
        [case, *(f"{median(each[case][k] for each in rounds):.3f}" for k in (0, 1))]
        for case in STARTS
    ]
    return tables.markdown(["command", "CPU s", "elapsed s"], lines)


def length(asked: argparse.Namespace, folder: Path) -> str:
    """Return the table of time and memory by length and by number of channels."""
    minutes = [float(part) for part in asked.minutes.split(",")]
    channels = [int(part) for part in asked.channels.split(",")]
    lines = []
    for each, count in dict.fromkeys(
        [(each, channels[0]) for each in minutes] + [(minutes[0], count) for count in channels]
    ):
        write(folder / "in/a.wav", 60 * each, count, asked.rate, same=asked.same)
        found = run([*DENOISE, "--overwrite", "--jobs", "1"], folder)
        cells = [f"{found.cpu / (60 * each):.4f}", f"{found.megabytes:.0f}"]
        lines.append([f"{each:g}", f"{count}", *cells])
    return tables.markdown(["minutes", "channels", "CPU s per s", "MB"], lines)


def held(session: int) -> float:
    """Return the memory of the processes of a session in MB."""
    total = 0
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            if place.joinpath("stat").read_text().rpartition(")")[2].split()[3] == str(session):
                found = place.joinpath("smaps_rollup").read_text().splitlines()
                total += sum(int(line.split()[1]) for line in found if line.startswith("Pss:"))
    return total / 1e3


def watched(folder: Path, options: list[str]) -> Iterator[tuple[float, float]]:
    """Denoise the files of a folder; yield seconds and MB as they are, every 50 ms."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *DENOISE, *options], cwd=folder, start_new_session=True
    )
    while process.poll() is None:
        yield time.perf_counter() - started, held(process.pid)
        time.sleep(0.05)
    if process.returncode:
        raise SystemExit(f"it ended with {process.returncode}")


def files(asked: argparse.Namespace, folder: Path) -> str:
    """Return the table of files that are denoised together, and of one that is long."""
    runs = [(asked.files, 12, int(jobs)) for jobs in asked.jobs.split(",")]
    lines = []
    for number, (count, seconds, jobs) in enumerate([*runs, *((1, s, 1) for s in (12, 120, 600))]):
        here = folder / f"{number}"
        here.mkdir()
        for k in range(count):
            write(here / f"in/{k}.wav", seconds, 1, 16000)
        found = list(watched(here, ["--jobs", str(jobs)]))
        most = max(megabytes for _, megabytes in found)
        cells = [f"{most:.0f}", f"{most / min(jobs, count):.0f}", f"{found[-1][0]:.1f}"]
        lines.append([f"{count}", f"{seconds}", f"{jobs}", *cells])
    headings = ["files", "seconds each", "--jobs", "most MB", "MB per job", "took s"]
    return tables.markdown(headings, lines)


PARTS: dict[str, Callable[[argparse.Namespace, Path], str]] = {
    "start": start,
    "length": length,
    "files": files,
}


def main() -> None:
    """Measure, and print the table."""
    parser = options_of("benchmarks.cost", __doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--rounds", type=int, default=15, help="of start")
    parser.add_argument("--minutes", default="1,10", help="lengths with commas between")
    parser.add_argument("--channels", default="1,2,8", help="numbers with commas between")
    parser.add_argument("--rate", type=int, default=16000, help="of length, in Hz")
    parser.add_argument("--same", action="store_true", help="channels that share a sound")
    parser.add_argument("--jobs", default="1,2,8,24", help="numbers with commas between")
    parser.add_argument("--files", type=int, default=24)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cost-") as name:
        text = PARTS[asked.part](asked, Path(name))
    print(f"{text}\n\n{caption('benchmarks.cost', sys.argv[1:], ('alphamf', 'numpy'))}")


if __name__ == "__main__":
    run_main(main)
