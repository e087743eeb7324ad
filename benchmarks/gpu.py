r"""Compare `--device cuda` with the CPU: scores on the same clips, and elapsed time.

For example, for the tables of docs/guide/gpu.md, on a machine with a CUDA device::

    ALPHAMF_DATA=/path/to/data python -m benchmarks.gpu

The scores are of dev clips (benchmarks.clips); the time is of noise at 16 kHz whose level
varies like that of speech. All that is compared is measured in turn, in one process.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from alphamf.denoising.api import denoise
from alphamf.tools import tables
from alphamf.tools.arrays import module
from benchmarks.clips import Clip, clips
from benchmarks.report import caption, options_of, run_main, write_section
from benchmarks.scored import SCORES, scores
from benchmarks.speed import synthetic_sound

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "gpu.md"
SECONDS = {"fast": 120, "plain": 20}
"""Presets, and the seconds of sound that are denoised with each to take the time."""

CLIPS, RATE = 12, 16000
RUNS = (("cpu", 1), ("cuda", 1), ("cuda", 8))
"""Devices, and the segments that are denoised together."""


def score_table(count: int) -> str:
    """Return the table of mean scores, and of the mean differences with their standard errors."""
    chosen = clips(RATE, count)
    lines = []
    for name in SECONDS:
        found = {device: _scores(chosen, name, device) for device in ("cpu", "cuda")}
        for device, rows in found.items():
            means = (
                f"{x:.{digits}f}" for x, digits in zip(rows.mean(0), SCORES.values(), strict=True)
            )
            lines.append([name, device, *means])
        apart = found["cuda"] - found["cpu"]
        each = zip(apart.mean(0), apart.std(0, ddof=1) / count**0.5, SCORES.values(), strict=True)
        lines.append([name, "cuda - cpu", *(f"{x:+.{n}f} ± {e:.{n}f}" for x, e, n in each)])
    return tables.markdown(["preset", "device", *SCORES], lines)


def _scores(chosen: list[Clip], name: str, device: str) -> np.ndarray:
    rows = [
        scores(each.clean, denoise(each.noisy, each.rate, name, device=device).audio, each.rate)
        for each in chosen
    ]
    return np.array(rows)


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
    """Make both tables and write them into the page."""
    parser = options_of("benchmarks.gpu", __doc__)
    parser.add_argument("--clips", type=int, default=CLIPS, help="default: %(default)s")
    asked = parser.parse_args()
    properties = module("cuda").cuda.runtime.getDeviceProperties(0)
    made = time_table()
    print(made)
    text = "\n\n".join(
        [
            made,
            score_table(asked.clips),
            f"{properties['name'].decode()}; {caption('benchmarks.gpu', [], ('alphamf', 'numpy'))}",
        ]
    )
    write_section(PAGE, "gpu", text)
    print(text)


if __name__ == "__main__":
    run_main(main)
