r"""What denoising does to recordings that hardly need it: with noise 30 or 40 dB down, or none.

For example, to choose, and once per configuration to test::

    python -m benchmarks.nearly_clean --split dev -o nearly-clean-dev.csv
    python -m benchmarks.nearly_clean --split test -o nearly-clean-test.csv --write

Voices and noises are those of ``benchmarks.front_clips``, at 16 kHz: nothing was trained on them.
OUTPUT.csv has a line per clip, level and method. With ``--write`` the table goes to BENCHMARKS.md.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.evaluation.mixing import mixture
from alphamf.tools import pool, tables
from benchmarks import compared
from benchmarks.front_clips import Clip, manifest, mono, shuffled

RATE = 16000
LEVELS = (30, 40, None)
"""SNRs in dB; None: the clean recording itself."""
METHODS = "noisy,logmmse,rnnoise,plain,fast,balanced"
GOOD = 4.3
"""PESQ of what is to sound as it was."""


class Row(NamedTuple):
    """Scores of a recording at a level by method."""

    clip: str
    level: str
    scores: compared.Scored


def named(snr: int | None) -> str:
    """Return a level in words."""
    return "clean" if snr is None else f"{snr} dB"


def measured(job: tuple[int, Path], noises: list[Path], methods: list[str]) -> list[Row]:
    """Denoise a voice at every level by several methods, and score what they make of it."""
    number, path = job
    clean, rows = mono(path, RATE), []
    for snr in LEVELS:
        noisy = clean
        if snr is not None:
            rng = np.random.default_rng((9, number))
            noise = mixture.noise(mono(noises[rng.integers(len(noises))], RATE), RATE)
            noisy, _ = mixture.mix(clean, mixture.power(clean, RATE, "plain"), noise, snr, rng)
        clip = Clip(path.stem, RATE, clean, noisy)
        rows.append(Row(path.stem, named(snr), compared.scored(clip, methods)))
    return rows


def table(rows: list[Row]) -> str:
    """Return a line for each level and method, as Markdown."""
    lines = []
    for level in map(named, LEVELS):
        group = [row for row in rows if row.level == level]
        for name in group[0].scores:
            decibels, quality, intelligibility = np.array([row.scores[name] for row in group]).T
            good = f"{np.mean(quality >= GOOD):.0%}"
            lines.append([f"{level}: {name}", *means(quality, decibels, intelligibility), good])
    return tables.markdown(
        ["noise: method", "PESQ", "SI-SDR dB", "ESTOI", f"PESQ of {GOOD} or more"], lines
    )


def means(quality: Any, decibels: Any, intelligibility: Any) -> list[str]:
    """Return means with standard errors; the SI-SDR of what was not changed is infinite."""
    mean, error = tables.mean_and_error(quality)
    changed = "∞"
    if np.isfinite(decibels).all():
        changed = tables.with_error(*tables.mean_and_error(decibels), 1)
    return [tables.with_error(mean, error, 2), changed, f"{intelligibility.mean():.3f}"]


def main() -> None:
    """Denoise, write the scores, and print the table."""
    module = "benchmarks.nearly_clean"
    parser = compared.options(module, __doc__, clips=40, methods=METHODS)
    asked = parser.parse_args()
    try:
        methods = compared.chosen(asked.methods)
        voices = [path for path, _, _ in shuffled("speech-16k", asked.split)][: asked.clips]
        noises = [path for path, _, _ in manifest("noise-48k", asked.split)]
    except AlphaMFError as error:
        parser.error(str(error))
    work = partial(measured, noises=noises, methods=methods)
    jobs = list(enumerate(voices))
    rows = [row for rows in pool.results(work, jobs, workers=asked.jobs) for row in rows]
    compared.write(asked.output, ["clip", "noise"], ((row[:2], row.scores) for row in rows))
    text = f"{table(rows)}\n\nPESQ reaches 4.64 at most."
    compared.finish(module, f"nearly-clean:{asked.split}", text, write=asked.write)


if __name__ == "__main__":
    main()
