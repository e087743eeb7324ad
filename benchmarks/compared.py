"""What the commands share that compare methods of `alphamf evaluate` on clips made here."""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.evaluation.methods import known
from alphamf.tools import tables
from benchmarks.clip_scores import SCORES, scores
from benchmarks.front_clips import Clip, clips
from benchmarks.low_latency import run
from benchmarks.report import caption, options_of, publish

PAGE = Path(__file__).parents[1] / "BENCHMARKS.md"

Scored = dict[str, list[float]]
"""`SCORES` by method."""


def options(module: str, text: str | None, *, clips: int, methods: str) -> argparse.ArgumentParser:
    """Return the parser of a command, with what it has by default."""
    parser = options_of(module, text)
    parser.add_argument("--split", choices=("dev", "test"), default="dev")
    parser.add_argument("--clips", type=int, default=clips, metavar="N", help=f"(default {clips})")
    parser.add_argument("--methods", default=methods, metavar="A,B,...", help=f"({methods})")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="(default 2)")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.csv")
    parser.add_argument("--write", action="store_true", help="put the table into BENCHMARKS.md")
    return parser


def chosen(methods: str) -> list[str]:
    """Return the methods that a command line names.

    Raises
    ------
    AlphaMFError
        There is no such method.
    """
    names = methods.split(",")
    if unknown := [name for name in names if name not in known()]:
        raise AlphaMFError(f"there is no method {unknown[0]!r}")
    return names


def numbered(
    parser: argparse.ArgumentParser, rate: int
) -> tuple[argparse.Namespace, list[str], list[tuple[int, Clip]]]:
    """Return a command line, its methods, and its clips with their numbers; or end with usage."""
    asked = parser.parse_args()
    try:
        return asked, chosen(asked.methods), list(enumerate(clips(rate, asked.clips, asked.split)))
    except AlphaMFError as error:
        parser.error(str(error))


def scored(clip: Clip, methods: Sequence[str]) -> Scored:
    """Denoise a clip by several methods, and score what they make of it."""
    return {name: scores(clip.clean, run(name, clip), clip.rate) for name in methods}


def cell(found: list[list[float]]) -> str:
    """Return the means of `SCORES`, the first one with its standard error."""
    decibels, quality, intelligibility = np.array(found).T
    mean, error = tables.mean_and_error(decibels)
    known_quality, _ = tables.mean_and_error(quality[np.isfinite(quality)])
    return f"{mean:.2f} ± {error:.2f} / {known_quality:.2f} / {intelligibility.mean():.3f}"


def write(path: Path, about: Sequence[str], rows: Iterable[tuple[Sequence[Any], Scored]]) -> None:
    """Write a line per clip and method: what is said about the clip, and its scores.

    Parameters
    ----------
    path
        The CSV.
    about
        Headings of what is said.
    rows
        That, and the scores, of each clip.
    """
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*about, "method", *SCORES])
        for said, found in rows:
            for name, values in found.items():
                writer.writerow([*said, name, *(f"{value:.4f}" for value in values)])


def finish(
    module: str, section: str, text: str, *, write: bool, columns: Collection[str] | None = None
) -> None:
    """Print a table with the command that made it, and put it into BENCHMARKS.md if asked to.

    Of a table that is too wide, `columns` stay there.
    """
    note = caption(module, sys.argv[1:], ("alphamf", "numpy"))
    publish(PAGE, section, f"{text} {note}", write=write, columns=columns)
