"""Measure how time and memory of `alphamf denoise` grow with length and channels.

For example, for the table of BENCHMARKS.md (ten hours take half an hour)::

    python -m benchmarks.growth --rate 8000 --minutes 1,60,600 --channels 1,2,8 --write

The sound is noise with the level of speech, in other noise in each channel. Each run is one process
on one core, by its processor time and largest memory.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from alphamf.audio.writer import open_writer
from alphamf.tools import tables
from benchmarks.report import caption, publish

PAGE = Path(__file__).parents[1] / "BENCHMARKS.md"
COMMAND = [sys.executable, "-c", "from alphamf.cli.start import main; main()", "denoise"]
HEADINGS = ["what", "minutes", "channels", "CPU s per s", "MB", "against the first"]
Row = list[str]


def write(path: Path, seconds: float, channels: int, rate: int, *, same: bool = False) -> None:
    """Write noise whose level varies as that of speech, a second at a time.

    Parameters
    ----------
    path, seconds, channels, rate
        What is written, and where.
    same
        Whether all channels hold one noise, 20 dB above their own: they are linked then, as those
        that share a voice.
    """
    rng = np.random.default_rng(channels)
    envelope = np.sin(2 * np.pi * 2 * np.arange(rate) / rate)[:, None] ** 2 + 0.05
    with open_writer(path, rate, channels) as writer:
        for start in range(0, round(seconds * rate), rate):
            count = min(rate, round(seconds * rate) - start)
            sound = rng.standard_normal((rate, channels), dtype=np.float32)
            if same:
                sound = 0.1 * sound + rng.standard_normal((rate, 1), dtype=np.float32)
            writer.write((0.1 * envelope * sound).astype(np.float32)[:count])


def run(folder: Path, preset: str) -> tuple[float, float]:
    """Denoise the file of a folder, and return processor time and megabytes.

    Parameters
    ----------
    folder
        Where the file is.
    preset
        Of the run.
    """
    options = ["in.wav", "-o", "out.wav", "--overwrite", "-q", "--preset", preset, "--jobs", "1"]
    process = subprocess.Popen([*COMMAND, *options], cwd=folder)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"alphamf denoise failed with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e3


def measured(what: str, cases: list[tuple[float, int]], asked: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for every length in minutes and number of channels."""
    first = None
    for length, count in cases:
        with tempfile.TemporaryDirectory(prefix="growth-") as name:
            folder = Path(name)
            write(folder / "in.wav", 60 * length, count, asked.rate)
            cpu, megabytes = run(folder, asked.preset)
        per_second = cpu / (60 * length)
        each = per_second / count
        first = first or each
        cells = [f"{per_second:.4f}", f"{megabytes:.0f}"]
        yield [what, f"{length:g}", str(count), *cells, f"{each / first:.2f}"]


def main() -> None:
    """Measure, and print or write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", default="1,10", help="lengths with commas between")
    parser.add_argument("--channels", default="1,2,8", help="numbers with commas between")
    parser.add_argument("--rate", type=int, default=16000)
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--write", action="store_true", help="into BENCHMARKS.md")
    asked = parser.parse_args()
    lengths = [(float(part), 1) for part in asked.minutes.split(",")]
    channels = [(lengths[0][0], int(part)) for part in asked.channels.split(",")]
    rows = [*measured("length", lengths, asked), *measured("channels", channels, asked)]
    arguments = ["--rate", str(asked.rate), "--minutes", asked.minutes]
    arguments += ["--channels", asked.channels, "--write"]
    made = caption("benchmarks.growth", arguments, ("alphamf", "numpy"))
    text = f"{tables.markdown(HEADINGS, rows)}\n\n{made}"
    publish(PAGE, "speed:growth", text, write=asked.write)


if __name__ == "__main__":
    main()
