"""Words by vote: what a recogniser gains from several sounds of a clip.

Whisper tiny.en reads several sounds of each English clip of ``benchmarks.quality unheard``; the
sentence that is nearest to all others is the vote. *Seeds* are posterior means of several chains of
`transcription`, *draws* single draws of them, and *delays* one sound that begins some milliseconds
later: the control. Words are compared with those of the clean sound, at most 100 % a clip.
"""

from dataclasses import replace
from functools import partial

import numpy as np

from alphamf import PRESETS, denoise
from alphamf.scores.recognisers import error_rate, recognise_words, words
from alphamf.tools import pool, tables
from alphamf.tools.arrays import Floats
from benchmarks.clips import Clip, clips
from benchmarks.report import run_main

SOUNDS, DELAY = 5, 0.0023  # Number of sounds of a clip; delay of each to the one before, in seconds


def sound(clip: Clip, kind: str, number: int) -> Floats:
    """Return one of the sounds of a clip."""
    settings = PRESETS["transcription"]
    if kind == "draws":
        settings = replace(settings, keep=1)
    late, seed = (round(number * DELAY * clip.rate), 0) if kind == "delays" else (0, number)
    return np.pad(denoise(clip.noisy, clip.rate, settings, seed=seed).audio, (late, 0))


def errors(clip: Clip, kind: str) -> tuple[float, float]:
    """Return the word error rate in percent, of each sound on average and of the vote."""
    sounds = [clip.clean, *(sound(clip, kind, number) for number in range(SOUNDS))]
    said = [words(recognise_words("whisper", each, clip.rate)) for each in sounds]
    apart = np.array([[min(1, error_rate(a or ["-"], b)) for b in said[1:]] for a in said])
    return 100 * apart[0].mean(), 100 * apart[0, apart[1:].sum(axis=0).argmin()]


def main(*, count: int = 80, jobs: int = 2) -> list[list[str]]:
    """Measure the word error rates."""
    spoken = [clip for clip in clips(16000, count) if clip.name.startswith("en")]
    lines = [["sounds", "clips", "each, % of words", "vote", "vote less each"]]
    for kind in ("seeds", "draws", "delays"):
        found = np.array(list(pool.results(partial(errors, kind=kind), spoken, workers=jobs)))
        change = tables.format_mean(*tables.mean_and_error(found[:, 1] - found[:, 0]), 2)
        lines.append([kind, str(len(spoken)), *(f"{n:.1f}" for n in found.mean(axis=0)), change])
    return lines


if __name__ == "__main__":
    run_main(main)
