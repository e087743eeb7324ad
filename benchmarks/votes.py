"""Words by vote: what a recogniser gains from several sounds of a clip, and from the sampler's own.

Each English clip of ``benchmarks.quality unheard`` is denoised for transcription in several ways,
and Whisper tiny.en reads each; of its sentences, the one nearest to all others is the vote. *Seeds*
are posterior means of several chains, *draws* single draws of them; *delays* are one sound that
begins some milliseconds later: what the recogniser's own chance is worth. Words are compared with
those of the clean sound; a clip counts at most 100 %.
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

SOUNDS = 5
DELAY = 0.0023  # In seconds
KINDS = ("seeds", "draws", "delays")
PRESET = PRESETS["transcription"]


def sound(clip: Clip, kind: str, number: int) -> Floats:
    """Return one of the sounds of a clip."""
    if kind == "delays":
        return np.pad(sound(clip, "seeds", 0), (round(number * DELAY * clip.rate), 0))
    settings = replace(PRESET, keep=1) if kind == "draws" else PRESET
    return denoise(clip.noisy, clip.rate, settings, seed=number).audio


def errors(clip: Clip, kind: str) -> tuple[float, float]:
    """Return the word error rate in percent, of each sound on average and of the vote."""
    said = [words(recognise_words("whisper", clip.clean, clip.rate))]
    said += [
        words(recognise_words("whisper", sound(clip, kind, k), clip.rate)) for k in range(SOUNDS)
    ]
    apart = np.array([[error_rate(a or ["-"], b) for b in said[1:]] for a in said])
    rates = 100 * np.minimum(apart[0], 1)
    return float(rates.mean()), float(rates[apart[1:].sum(axis=0).argmin()])


def main(*, count: int = 80, jobs: int = 2) -> list[list[str]]:
    """Measure the word error rates."""
    spoken = [clip for clip in clips(16000, count) if clip.name.startswith("en")]
    lines = [["sounds", "clips", "each, % of words", "vote", "vote less each"]]
    for kind in KINDS:
        found = np.array(list(pool.results(partial(errors, kind=kind), spoken, workers=jobs)))
        change = tables.format_mean(*tables.mean_and_error(found[:, 1] - found[:, 0]), 2)
        means = (f"{each:.1f}" for each in found.mean(axis=0))
        lines.append([kind, str(len(spoken)), *means, change])
    return lines


if __name__ == "__main__":
    run_main(main)
