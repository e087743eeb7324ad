r"""How much methods leave of sounds that are alone, such as a knock between two sentences.

For example, to choose, and once per configuration to test::

    python -m benchmarks.lone_sounds --split dev
    python -m benchmarks.lone_sounds --split test

Each sound of the split begins after `BEFORE` seconds of faint hiss. The table has the level of what
comes out, in dB of the sound, over its first 100 ms, first 300 ms and all of it: medians by kind.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from alphamf.tools.arrays import Floats
from benchmarks.clips import Clip, manifest, mono
from benchmarks.methods import names_of, run
from benchmarks.report import options_of, run_main
from benchmarks.scored import publish

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
    """Measure, and write the table."""
    parser = options_of("benchmarks.lone_sounds", __doc__)
    parser.add_argument("--split", choices=("dev", "test"), default="dev")
    parser.add_argument("--methods", default=METHODS, metavar="A,B,...")
    asked = parser.parse_args()
    lines = [["group", "sounds", "method", *PARTS]]
    for kind in KINDS:
        paths = [path for path, each, _ in manifest("noise-48k", asked.split) if each == kind]
        clips = [lone(number, path) for number, path in enumerate(paths)]
        for method in names_of(asked.methods):
            found = [left(clip, samples, run(method, clip)) for clip, samples in clips]
            medians = (f"{value:.1f}" for value in np.median(found, axis=0))
            lines.append([kind, f"{len(clips)}", method, *medians])
    publish(f"lone-sounds-{asked.split}.csv", lines)


if __name__ == "__main__":
    run_main(main)
