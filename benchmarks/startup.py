"""Measure what a command takes before and beside its work: a second of sound, and the help.

For example, for the table of BENCHMARKS.md::

    python -m benchmarks.startup --rounds 20 --write

The commands take turns; medians of processor time and of elapsed time. ``--imports`` lists the
modules that take longest to import by `denoise`, in milliseconds, those that they import not
counted.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

from alphamf.audio.writer import open_writer
from alphamf.tools import tables
from benchmarks.report import caption, publish

PAGE = Path(__file__).parents[1] / "BENCHMARKS.md"
COMMAND = ["-c", "from alphamf.cli.start import main; main()"]
DENOISE = ["denoise", "in.wav", "-o", "out.wav", "--overwrite", "-q", "--preset"]
CASES = {
    "python -c 'import numpy'": ["-c", "import numpy"],
    "alphamf --help": [*COMMAND, "--help"],
    "denoise --preset fast": [*COMMAND, *DENOISE, "fast"],
    "denoise --preset balanced": [*COMMAND, *DENOISE, "balanced"],
}


def run(arguments: list[str], folder: Path) -> tuple[float, float]:
    """Return processor time and elapsed time of a Python process in seconds."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *arguments], cwd=folder, stdout=subprocess.DEVNULL, env=environment()
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed")
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - started


def environment() -> dict[str, str]:
    """Return an environment in which Python keeps what it compiles, as it does for users."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def imports(folder: Path, most: int) -> list[list[str]]:
    """Return rows of module and milliseconds."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *CASES["denoise --preset fast"]],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )
    found = re.findall(r"import time: +(\d+) \| +\d+ \| +(\S+)", done.stderr)
    longest = sorted(((int(time), name) for time, name in found), reverse=True)[:most]
    return [[name, f"{microseconds / 1000:.1f}"] for microseconds, name in longest]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--rate", type=int, default=16000, help="of the second of sound, in Hz")
    parser.add_argument("--write", action="store_true", help="into BENCHMARKS.md")
    parser.add_argument("--imports", type=int, metavar="N", help="list the N slowest imports")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rng = np.random.default_rng(0)
        with open_writer(folder / "in.wav", options.rate, 1) as writer:
            writer.write(0.1 * rng.standard_normal((options.rate, 1), dtype=np.float32))
        for arguments in CASES.values():  # compiled, and read from the disk
            run(arguments, folder)
        times = {case: [] for case in CASES}
        for _ in range(options.rounds):
            for case, arguments in CASES.items():
                times[case].append(run(arguments, folder))
        rows = [
            [case, *(f"{median(each):.3f}" for each in zip(*found, strict=True))]
            for case, found in times.items()
        ]
        table = tables.markdown(["command", "CPU s", "elapsed s"], rows)
        arguments = ["--rounds", str(options.rounds), "--write"]
        made = caption("benchmarks.startup", arguments, ("alphamf", "numpy"))
        publish(PAGE, "speed:startup", f"{table}\n\n{made}", write=options.write)
        if options.imports:
            print(tables.markdown(["module", "ms"], imports(folder, options.imports)))


if __name__ == "__main__":
    main()
