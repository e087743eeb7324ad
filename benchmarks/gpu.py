"""Compare the time of `--device cuda` with that of the CPU, for docs/guide/gpu.md.

``python -m benchmarks.gpu`` needs a CUDA device. The sound is noise at 16 kHz whose level varies
like that of speech; all that is compared is measured in turn, in one process.
"""

from __future__ import annotations

import time
from pathlib import Path

from alphamf.denoising.api import denoise
from alphamf.tools import tables
from alphamf.tools.arrays import module
from benchmarks.report import caption, options_of, run_main, write_section
from benchmarks.speed import synthetic_sound

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "gpu.md"
SECONDS = {"fast": 120, "plain": 20}
"""Presets, and the seconds of sound that are denoised with each to take the time."""

RATE = 16000
RUNS = (("cpu", 1), ("cuda", 1), ("cuda", 8))
"""Devices, and the segments that are denoised together."""


def time_table() -> str:
    """Return the table of elapsed times."""
    lines = []
    for name, seconds in SECONDS.items():
        sound = synthetic_sound(seconds, RATE)
        for device, jobs in RUNS:
            denoise(sound[: 3 * jobs * RATE], RATE, name, device=device, jobs=jobs)  # loads it all
            began = time.perf_counter()
            denoise(sound, RATE, name, device=device, jobs=jobs)
            spent = time.perf_counter() - began
            cells = [f"{seconds}", f"{spent:.1f}", f"{seconds / spent:.0f}"]
            lines.append([name, device, f"{jobs}", *cells])
    heads = ["preset", "device", "jobs", "s of sound", "s elapsed", "times as fast as sound"]
    return tables.markdown(heads, lines)


def main() -> None:
    """Make the table and write it into the page."""
    options_of("benchmarks.gpu", __doc__).parse_args()
    properties = module("cuda").cuda.runtime.getDeviceProperties(0)
    made = caption("benchmarks.gpu", [], ("alphamf", "numpy"))
    text = f"{time_table()}\n\n{properties['name'].decode()}; {made}"
    write_section(PAGE, "gpu", text)
    print(text)


if __name__ == "__main__":
    run_main(main)
