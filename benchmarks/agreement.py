r"""Do chains say how far they are off? The table of ``docs/guide/chains.md``.

Clips of development (`benchmarks.front_clips`) are denoised by two chains, and by two others with
the next seed. Either pair states its Monte Carlo standard error (`alphamf.Agreement`); "stated" is
the difference between the two outputs that follows from both, "found" is the difference, in dB as
there. For example::

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.agreement --clips 20 --write
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from alphamf.denoising.api import PRESETS, Denoised, denoise
from alphamf.tools import tables
from benchmarks.front_clips import Clip, clips
from benchmarks.report import caption, options_of, publish

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "chains.md"
HEADINGS = (
    "preset",
    "draws",
    "R-hat",
    "R-hat, 95 %",
    "ESS of two",
    "two chains differ, dB",
    "stated, dB",
    "found, dB",
)


def decibels(ratio: float) -> float:
    """Return the change in level that an error makes, given its amplitude."""
    return 20 * math.log10(1 + ratio)


def stated(one: Denoised, other: Denoised) -> float:
    """Return the difference that two results state, in dB."""
    both = [each.agreement.mcse_db for each in (one, other) if each.agreement]
    return decibels(math.hypot(*(10 ** (each / 20) - 1 for each in both)))


def found(one: Denoised, other: Denoised) -> float:
    """Return the difference between two results, in dB."""
    mean = (one.audio + other.audio) / 2
    return decibels(float(np.linalg.norm(one.audio - other.audio) / np.linalg.norm(mean)))


def measured(clip: Clip, preset: str) -> list[float]:
    """Return the columns of `HEADINGS` but the first, of one clip."""
    settings = replace(PRESETS[preset], chains=2)
    pair = [denoise(clip.noisy, clip.rate, settings, seed=seed) for seed in (0, 1)]
    own = pair[0].agreement
    if own is None or own.rhat is None or own.rhat_95 is None:
        raise ValueError(f"{preset} keeps too few draws")
    values = own.draws, own.rhat, own.rhat_95, own.ess, own.difference_db
    return [*values, stated(*pair), found(*pair)]


def main() -> None:
    """Run the command line, and print the table."""
    parser = options_of("benchmarks.agreement", __doc__)
    parser.add_argument("--clips", type=int, default=20, metavar="N")
    parser.add_argument("--rate", type=int, choices=(8000, 16000), default=16000)
    parser.add_argument("--presets", default="fast,balanced,plain", metavar="NAMES")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    asked = parser.parse_args()
    chosen, lines = clips(asked.rate, asked.clips), []
    for preset in asked.presets.split(","):
        rows = []
        for clip in chosen:
            rows.append(measured(clip, preset))
            print(f"\r{preset}: {len(rows)} of {len(chosen)} clips", end="", file=sys.stderr)
        draws, *columns = np.array(rows).T
        pairs = [tables.mean_and_error(column) for column in columns]
        cells = [tables.with_error(mean, error, 2) for mean, error in pairs]
        lines.append([preset, f"{draws[0]:.0f}", *cells])
    print(file=sys.stderr)
    options = ["--clips", str(asked.clips), "--rate", str(asked.rate), "--presets", asked.presets]
    note = caption("benchmarks.agreement", options, ("alphamf", "numpy"))
    text = f"{tables.markdown(HEADINGS, lines)}\n\n{note}"
    publish(PAGE, f"agreement-{asked.rate}", text, write=asked.write)


if __name__ == "__main__":
    main()
