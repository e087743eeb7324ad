r"""What denoising does to recordings that hardly need it: with noise 30 or 40 dB down, or none.

For example, to choose, and once per configuration to test::

    python -m benchmarks.nearly_clean --split dev -o nearly-clean-dev.csv
    python -m benchmarks.nearly_clean --split test -o nearly-clean-test.csv --write

Voices and noises are those of ``benchmarks.front_clips``, at 16 kHz: nothing was trained on them.
OUTPUT.csv has a line per clip, level and method. With ``--write`` the table goes to BENCHMARKS.md.
"""

from __future__ import annotations

import csv
import sys
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.evaluation.methods import known
from alphamf.evaluation.mixing import mixture
from alphamf.tools import pool, tables
from benchmarks.clip_scores import SCORES, scores
from benchmarks.front_clips import Clip, manifest, mono
from benchmarks.low_latency import run
from benchmarks.report import caption, options_of, publish

RATE = 16000
LEVELS = (30, 40, None)
"""SNRs in dB; None: the clean recording itself."""
METHODS = "noisy,logmmse,rnnoise,plain,fast,balanced"
GOOD = 4.3
"""PESQ of what is to sound as it was."""
PAGE = Path(__file__).parents[1] / "BENCHMARKS.md"


class Row(NamedTuple):
    """Scores of a recording at a level by method."""

    clip: str
    level: str
    scores: dict[str, list[float]]


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
        found = {name: scores(clean, run(name, clip), RATE) for name in methods}
        rows.append(Row(path.stem, named(snr), found))
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
        changed = "{:.1f} ± {:.1f}".format(*tables.mean_and_error(decibels))
    return [f"{mean:.2f} ± {error:.2f}", changed, f"{intelligibility.mean():.3f}"]


def main() -> None:
    """Denoise, write the scores, and print the table."""
    parser = options_of("benchmarks.nearly_clean", __doc__)
    parser.add_argument("--split", choices=("dev", "test"), default="dev")
    parser.add_argument("--clips", type=int, default=40, metavar="N", help="voices (default 40)")
    parser.add_argument("--methods", default=METHODS, metavar="A,B,...", help=f"({METHODS})")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="(default 2)")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.csv")
    parser.add_argument("--write", action="store_true", help="put the table into BENCHMARKS.md")
    asked = parser.parse_args()
    methods = asked.methods.split(",")
    try:
        if unknown := [name for name in methods if name not in known()]:
            raise AlphaMFError(f"there is no method {unknown[0]!r}")
        voices = [path for path, _, _ in manifest("speech-16k", asked.split)]
        noises = [path for path, _, _ in manifest("noise-48k", asked.split)]
    except AlphaMFError as error:
        parser.error(str(error))
    order = np.random.default_rng(1).permutation(len(voices))[: asked.clips]
    work = partial(measured, noises=noises, methods=methods)
    chosen = [(k, voices[j]) for k, j in enumerate(order)]
    rows = [row for rows in pool.results(work, chosen, workers=asked.jobs) for row in rows]
    with asked.output.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["clip", "noise", "method", *SCORES])
        for row in rows:
            for name, values in row.scores.items():
                writer.writerow([*row[:2], name, *(f"{value:.4f}" for value in values)])
    note = caption("benchmarks.nearly_clean", sys.argv[1:], ("alphamf", "numpy"))
    text = f"{table(rows)}\n\nPESQ reaches 4.64 at most. {note}"
    publish(PAGE, f"nearly-clean:{asked.split}", text, write=asked.write)


if __name__ == "__main__":
    main()
