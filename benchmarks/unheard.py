r"""Compare methods on voices and noises of the corpora that nothing was trained on, at 16 kHz.

For example, to choose, and once per configuration to test::

    python -m benchmarks.unheard --split dev -o unheard-dev.csv
    python -m benchmarks.unheard --split test -o unheard-test.csv --write

Clips are those of ``benchmarks.front_clips``. OUTPUT.csv has a line per clip and method. The table
has them all, and by kind of noise, by level and by language: SI-SDR in dB with its standard error,
PESQ and ESTOI. With ``--write`` it goes to BENCHMARKS.md.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.evaluation.methods import known
from alphamf.tools import pool, tables
from benchmarks.clip_scores import SCORES, scores
from benchmarks.front_clips import KINDS, SNRS, Clip, clips
from benchmarks.low_latency import run
from benchmarks.report import caption, options_of, publish

RATE = 16000
METHODS = "noisy,logmmse,rnnoise,low,fast"
PAGE = Path(__file__).parents[1] / "BENCHMARKS.md"


class Row(NamedTuple):
    """Scores of a clip by method, and what clip it is."""

    clip: str
    kind: str
    snr: int
    language: str
    scores: dict[str, list[float]]


def measured(job: tuple[int, Clip], methods: list[str]) -> Row:
    """Denoise a clip by several methods, and score what they make of it."""
    number, clip = job
    found = {name: scores(clip.clean, run(name, clip), RATE) for name in methods}
    kind, snr = KINDS[number % len(KINDS)], SNRS[number // len(KINDS) % len(SNRS)]
    return Row(clip.name, kind, snr, clip.name.partition("_")[0], found)


def groups(rows: list[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Yield all rows, and those of each kind of noise, level and language, with their names."""
    yield "all", rows
    sorts: tuple[tuple[str, Callable[[Row], Any]], ...] = (
        ("{}", lambda row: row.kind),
        ("{} dB", lambda row: row.snr),
        ("language {}", lambda row: row.language),
    )
    for name, key in sorts:
        for value in sorted({key(row) for row in rows}):
            yield name.format(value), [row for row in rows if key(row) == value]


def table(rows: list[Row]) -> str:
    """Return the scores of all methods by group, as Markdown."""
    methods = list(rows[0].scores)
    lines = [
        [f"{name} ({len(group)})", *(cell([row.scores[each] for row in group]) for each in methods)]
        for name, group in groups(rows)
    ]
    return tables.markdown(["clips", *methods], lines)


def cell(found: list[list[float]]) -> str:
    """Return the means of `SCORES`, the first one with its standard error."""
    decibels, quality, intelligibility = np.array(found).T
    mean, error = tables.mean_and_error(decibels)
    known_quality, _ = tables.mean_and_error(quality[np.isfinite(quality)])
    return f"{mean:.2f} ± {error:.2f} / {known_quality:.2f} / {intelligibility.mean():.3f}"


def main() -> None:
    """Denoise, write the scores, and print the table."""
    parser = options_of("benchmarks.unheard", __doc__)
    parser.add_argument("--split", choices=("dev", "test"), default="dev")
    parser.add_argument("--clips", type=int, default=100, metavar="N", help="(default 100)")
    parser.add_argument("--methods", default=METHODS, metavar="A,B,...", help=f"({METHODS})")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="(default 2)")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.csv")
    parser.add_argument("--write", action="store_true", help="put the table into BENCHMARKS.md")
    asked = parser.parse_args()
    methods = asked.methods.split(",")
    try:
        if unknown := [name for name in methods if name not in known()]:
            raise AlphaMFError(f"there is no method {unknown[0]!r}")
        noisy = list(enumerate(clips(RATE, asked.clips, asked.split)))
    except AlphaMFError as error:
        parser.error(str(error))
    work = partial(measured, methods=methods)
    rows = list(pool.results(work, noisy, workers=asked.jobs))
    with asked.output.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["clip", "kind", "snr", "language", "method", *SCORES])
        for row in rows:
            for name, values in row.scores.items():
                writer.writerow([*row[:4], name, *(f"{value:.4f}" for value in values)])
    note = caption("benchmarks.unheard", sys.argv[1:], ("alphamf", "numpy"))
    text = f"{table(rows)}\n\nSI-SDR dB / PESQ / ESTOI. {note}"
    publish(PAGE, f"unheard:{asked.split}", text, write=asked.write)


if __name__ == "__main__":
    main()
