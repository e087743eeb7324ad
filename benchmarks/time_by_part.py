"""Where the processor time of a denoiser goes, by part of the work.

For example, for the table of BENCHMARKS.md::

    python -m benchmarks.time_by_part --write

A recording of half a minute, on one thread, by the time that each function takes itself.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import re
import time
from collections import Counter
from pathlib import Path

from alphamf.denoising.api import denoise
from alphamf.research.speed.measure import synthetic_sound
from alphamf.tools import tables
from benchmarks.report import caption, publish

PAGE = Path(__file__).parents[1] / "BENCHMARKS.md"
SECONDS = 30
CASES = (("fast", 8000), ("balanced", 8000), ("fast", 16000), ("balanced", 16000))
PARTS = {
    "networks": r"alphamf/learnt|learnt\._network",
    "Φ's moves, slopes and weights of the cells": r"_loops\.evaluate|factorization/compiled",
    "products W H": r"potential\.py:_tiles",
    "products of slopes with W and H": r"potential\.py:_push",
    "steps of EM and SGRLD, random numbers": r"inference/|_random\.",
    "the rest of the factorization": r"alphamf/factorization|_loops\.",
    "spectra": r"audio/|denoising/grids|fft",
}
"""Part, and what the names of its functions match, as file:function; the first that does counts."""


def parts(preset: str, rate: int) -> Counter[str]:
    """Return the processor time of each part in seconds for a second of sound.

    Parameters
    ----------
    preset
        Of the run.
    rate
        Sampling rate in Hz.
    """
    sound = synthetic_sound(SECONDS, rate)
    denoise(sound[: 2 * rate], rate, preset)
    profile = cProfile.Profile(time.process_time)
    profile.runcall(denoise, sound, rate, preset)
    found: Counter[str] = Counter()
    # (file, line, function): (calls, calls that were not recursive, own time, ...)
    for (file, _, function), entry in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        name = f"{file}:{function}"
        part = next((part for part, own in PARTS.items() if re.search(own, name)), "all else")
        found[part] += entry[2] / SECONDS
    return found


def main() -> None:
    """Measure, and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="into BENCHMARKS.md")
    asked = parser.parse_args()
    found = [parts(*case) for case in CASES]
    headings = ["part", *(f"{preset}, {rate // 1000} kHz" for preset, rate in CASES)]
    rows = [
        [part, *(f"{each[part] / each.total():.0%}" for each in found)]
        for part in (*PARTS, "all else")
    ]
    rows += [["CPU s per s, as profiled", *(f"{each.total():.3f}" for each in found)]]
    made = caption("benchmarks.time_by_part", ["--write"], ("alphamf", "numpy"))
    text = f"{tables.markdown(headings, rows)}\n\n{made}"
    publish(PAGE, "speed:parts", text, write=asked.write)


if __name__ == "__main__":
    main()
