"""Scores of clips by method, and the one form in which docs/benchmarks/ keeps them.

A table has a line for each group of clips and method: the mean of each score, with its standard
error in the column after it. ``fast less dtln`` is the mean of the differences, clip by clip.
"""

import csv
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.scores.score import pesq, si_sdr, stoi
from alphamf.tools import tables
from alphamf.tools.arrays import Floats
from benchmarks.report import ROOT, caption

TABLES = ROOT / "docs" / "benchmarks"
SCORES = {"SI-SDR dB": 2, "PESQ": 3, "ESTOI": 3}  # Headings, and decimals


class Row(NamedTuple):
    """A clip's name, the groups that it is of, and its scores by method."""

    clip: str
    groups: tuple[str, ...]
    scores: dict[str, list[float]]


def scores(clean: Floats, found: Floats, rate: int) -> list[float]:
    """Return `SCORES` of a sound, shape (samples,); PESQ is NaN where it is not defined."""
    try:
        quality = pesq(clean, found, rate)
    except AlphaMFError:
        quality = float("nan")
    return [si_sdr(clean, found), quality, stoi(clean, found, rate, extended=True)]


def with_differences(rows: list[Row], pairs: Iterable[tuple[str, str]]) -> list[Row]:
    """Return rows with the score differences of pairs of methods added as methods."""
    return [
        row._replace(
            scores=row.scores
            | {
                f"{own} less {other}": list(np.subtract(row.scores[own], row.scores[other]))
                for own, other in pairs
                if own != other and {own, other} <= set(row.scores)
            }
        )
        for row in rows
    ]


# Returns mean or median of values and its error as text, with a number of decimals
Middle = Callable[[Iterable[float], int], tuple[str, str]]


def mean(values: Iterable[float], places: int) -> tuple[str, str]:
    """Return mean and standard error as text, without NaN; "inf" if a value is infinite."""
    known = np.array([value for value in values if not np.isnan(value)])
    if not len(known):
        return "", ""
    if np.isinf(known).any():
        return "inf", ""
    if len(known) == 1:
        return f"{known[0]:.{places}f}", ""
    centre, error = tables.mean_and_error(known)
    return f"{centre:.{places}f}", f"{error:.{places}f}"


def median(values: Iterable[float], places: int) -> tuple[str, str]:
    """Return the median of the values that are not NaN as text, and an empty error."""
    known = [value for value in values if not np.isnan(value)]
    return f"{np.median(known):.{places}f}" if known else "", ""


def summary(
    rows: list[Row], decimals: Mapping[str, int] = SCORES, middle: Middle = mean
) -> list[list[str]]:
    """Return the lines of the table, headings first; the group ``all`` has every clip."""
    headings = [text for score in decimals for text in (score, f"error of {score}")]
    lines = [["group", "clips", "method", *headings]]
    for group in ("all", *dict.fromkeys(name for row in rows for name in row.groups)):
        some = [row for row in rows if group == "all" or group in row.groups]
        for method in dict.fromkeys(name for row in some for name in row.scores):
            values = zip(*(row.scores[method] for row in some if method in row.scores), strict=True)
            cells = (
                middle(each, places) for each, places in zip(values, decimals.values(), strict=True)
            )
            lines.append(
                [group, f"{len(some)}", method, *(text for cell in cells for text in cell)]
            )
    return lines


def read(name: str) -> dict[tuple[str, str], dict[str, str]]:
    """Return the lines of a table of docs/benchmarks/ by group and method."""
    with (TABLES / name).open(newline="", encoding="utf-8") as file:
        return {(row.get("group", "all"), row["method"]): row for row in csv.DictReader(file)}


def publish(name: str, lines: list[list[str]]) -> None:
    """Write a table to docs/benchmarks/ and print it with the command that made it."""
    with (TABLES / name).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)
    print(tables.markdown(lines[0], lines[1:]))
    print(f"\n{name}: {caption()}")
