r"""How much methods leave of sounds that are alone, such as a knock between two sentences.

For example, to choose, and once per configuration to test::

    python -m benchmarks.lone_sounds --split dev -o lone-dev.csv
    python -m benchmarks.lone_sounds --split test -o lone-test.csv

Each sound of the split begins after `BEFORE` seconds of faint hiss. OUTPUT.csv has a line per sound
and method: the level of what comes out, in dB of the sound, over the first 100 ms, the first 300 ms
and all of it. The table has their medians by kind of sound.

Other denoisers come with ``pip install 'alphamf[peers]'``.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np

from alphamf.tools import tables
from alphamf.tools.arrays import Floats
from benchmarks.front_clips import Clip, manifest, mono
from benchmarks.low_latency import method_names, run
from benchmarks.report import caption, options_of, run_main

RATE = 16000
KINDS = ("impulsive", "nonstationary")
BEFORE, AFTER, LONGEST = 0.7, 0.5, 2.0
"""Seconds before a sound and after it, and the most that is used of one."""

LEVEL, HISS = 0.05, 1e-4
"""Root mean squares of a sound's first 300 ms and of the hiss, with full scale 1."""

PARTS = {"first 100 ms": 0.1, "first 300 ms": 0.3, "all": LONGEST}
"""Name and length in seconds of the parts of a sound."""

METHODS = "gtcrn,dtln,rnnoise,deepfilternet,low,fast"


def lone(number: int, path: Path) -> tuple[Clip, int]:
    """Return a clip with a sound and hiss alone, and the length of the sound in samples."""
    sound = mono(path, RATE)
    power = np.convolve(sound**2, np.ones(RATE // 100), "same")
    start = int(np.argmax(power > 0.05 * power.max()))
    sound = sound[max(start - RATE // 200, 0) :][: int(LONGEST * RATE)]
    sound = sound * (LEVEL / np.sqrt((sound[: int(0.3 * RATE)] ** 2).mean()))
    sound *= min(1.0, 0.9 / np.abs(sound).max())
    first = int(BEFORE * RATE)
    noise = np.random.default_rng(number).standard_normal(first + len(sound) + int(AFTER * RATE))
    heard: Floats = (HISS * noise).astype(np.float32)
    heard[first : first + len(sound)] += sound
    return Clip(path.stem, RATE, 0 * heard, heard), len(sound)


def left(clip: Clip, samples: int, out: Floats) -> list[float]:
    """Return the levels of `PARTS` in an output, in dB of those in the input."""
    first = int(BEFORE * RATE)
    found = []
    for seconds in PARTS.values():
        part = slice(first, first + min(samples, int(seconds * RATE)))
        before, after = ((each[part] ** 2).sum() for each in (clip.noisy, out))
        found.append(float(10 * np.log10((after + 1e-12) / before)))
    return found


def main() -> None:
    """Measure, and print the table."""
    parser = options_of("benchmarks.lone_sounds", __doc__)
    parser.add_argument("--split", choices=("dev", "test"), default="dev")
    parser.add_argument("--methods", default=METHODS, metavar="A,B,...")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.csv")
    asked = parser.parse_args()
    methods = method_names(asked.methods)
    sounds = {kind: _sounds(kind, asked.split) for kind in KINDS}
    rows = []
    with asked.output.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["sound", "kind", "method", *PARTS])
        for kind, paths in sounds.items():
            clips = [lone(number, path) for number, path in enumerate(paths)]
            for method in methods:
                found = [left(clip, samples, run(method, clip)) for clip, samples in clips]
                for (clip, _), values in zip(clips, found, strict=True):
                    writer.writerow([clip.name, kind, method, *(f"{each:.2f}" for each in values)])
                medians = (f"{value:.1f}" for value in np.median(found, axis=0))
                rows.append([f"{kind} ({len(clips)})", method, *medians])
    note = caption("benchmarks.lone_sounds", sys.argv[1:], ("alphamf", "numpy"))
    print(f"{tables.markdown(['sound', 'method', *PARTS], rows)}\n\n{note}")


def _sounds(kind: str, split: str) -> list[Path]:
    return [path for path, each, _ in manifest("noise-48k", split) if each == kind]


if __name__ == "__main__":
    run_main(main)
