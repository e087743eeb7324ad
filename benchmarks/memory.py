"""Measure the memory of many files denoised at once, and of files of different lengths.

For example::

    python -m benchmarks.memory --jobs 1,2,8,24 --files 24

The files are noise at 16 kHz; memory is what all processes of a run hold together (PSS, in which
shared pages count once), sampled every 50 ms. With ``--clips 1000`` so many clips of a second are
denoised one after the other, by one process beside the command's. With ``--write`` the table goes
to docs/reliability.md.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

from alphamf.audio.writer import open_writer
from alphamf.tools import tables
from benchmarks.report import caption, options_of, publish

PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"
COMMAND = [sys.executable, "-c", "from alphamf.cli.start import main; main()", "denoise", "in"]
RATE = 16000


def write(folder: Path, files: int, seconds: int) -> None:
    """Write files of noise.

    Parameters
    ----------
    folder
        Where they go.
    files
        How many.
    seconds
        Length of each.
    """
    folder.mkdir()
    for k in range(files):
        rng = np.random.default_rng(k)
        with open_writer(folder / f"{k}.wav", RATE, 1) as writer:
            for _ in range(seconds):
                writer.write(0.1 * rng.standard_normal((RATE, 1), dtype=np.float32))


def peak(folder: Path, jobs: int) -> tuple[float, float]:
    """Return seconds and the most bytes of a run."""
    options = ["--output-dir", "out", "--overwrite", "--preset", "fast", "-q", "--jobs", str(jobs)]
    started = time.perf_counter()
    process = subprocess.Popen([*COMMAND, *options], cwd=folder, start_new_session=True)
    most = 0.0
    while process.poll() is None:
        most = max(most, held(process.pid))
        time.sleep(0.05)
    if process.returncode:
        raise SystemExit(f"it ended with {process.returncode}")
    return time.perf_counter() - started, most


def growth(folder: Path, clips: int, every: int) -> list[tuple[int, float, float]]:
    """Denoise clips in one process; return clips done, seconds and bytes at regular intervals."""
    options = ["--output-dir", "out", "--preset", "fast", "--steps", "10", "-q", "--jobs", "1"]
    started = time.perf_counter()
    process = subprocess.Popen([*COMMAND, *options], cwd=folder, start_new_session=True)
    found: list[tuple[int, float, float]] = []
    while process.poll() is None:
        done = len(list((folder / "out").glob("*.wav")))
        if done >= (len(found) + 1) * every and done < clips:
            found.append((done, time.perf_counter() - started, held(process.pid)))
        time.sleep(0.02)
    if process.returncode:
        raise SystemExit(f"it ended with {process.returncode}")
    return found


def held(session: int) -> float:
    """Return the memory of the processes of a session in bytes."""
    total = 0
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            if place.joinpath("stat").read_text().rpartition(")")[2].split()[3] == str(session):
                lines = place.joinpath("smaps_rollup").read_text().splitlines()
                total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total * 1024


def grow(clips: int, *, write_page: bool) -> None:
    """Print the table of clips that are denoised one after the other.

    Parameters
    ----------
    clips
        How many, of a second.
    write_page
        Whether to put it into the page.
    """
    with tempfile.TemporaryDirectory(prefix="memory-") as name:
        write(Path(name, "in"), clips, 1)
        found = growth(Path(name), clips, max(1, clips // 10))
    rows = [[str(done), f"{most / 1e6:.1f}", f"{took:.0f}"] for done, took, most in found]
    made = caption("benchmarks.memory", ["--clips", str(clips)], ("alphamf", "numpy"))
    text = f"{tables.markdown(['clips done', 'MB', 'after s'], rows)}\n\n{made}"
    publish(PAGE, "memory_growth", text, write=write_page)


def main() -> None:
    """Run the command line, and print the table."""
    parser = options_of("benchmarks.memory", __doc__)
    parser.add_argument("--jobs", default="1,2,8,24", help="numbers with commas between")
    parser.add_argument("--files", type=int, default=24)
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    parser.add_argument("--clips", type=int, help="so many clips in one process instead")
    asked = parser.parse_args()
    if asked.clips:
        grow(asked.clips, write_page=asked.write)
        return
    rows = []
    runs = [(asked.files, 12, int(jobs)) for jobs in asked.jobs.split(",")]
    for files, seconds, jobs in [*runs, (1, 12, 1), (1, 120, 1), (1, 600, 1)]:
        with tempfile.TemporaryDirectory(prefix="memory-") as name:
            write(Path(name, "in"), files, seconds)
            took, most = peak(Path(name), jobs)
        row = [str(files), str(seconds), str(jobs), f"{most / 1e6:.0f}", f"{took:.1f}"]
        rows.append([*row[:4], f"{most / 1e6 / min(jobs, files):.0f}", row[4]])
    headings = ["files", "seconds each", "--jobs", "most MB", "MB a job", "took s"]
    arguments = ["--jobs", asked.jobs, "--files", str(asked.files)]
    made = caption("benchmarks.memory", arguments, ("alphamf", "numpy"))
    text = f"{tables.markdown(headings, rows)}\n\n{made}"
    publish(PAGE, "memory", text, write=asked.write)


if __name__ == "__main__":
    main()
