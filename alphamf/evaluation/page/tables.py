"""Tables of the report page: text and sort key of each cell."""

import math
from typing import Any, NamedTuple

from alphamf.evaluation.page.text import NONE, Style, clip_count, number
from alphamf.evaluation.summary import (
    SCORES,
    Difference,
    Result,
    clips,
    costs,
    groups,
    paired_difference,
    values,
)
from alphamf.tools.tables import mean_and_error


class Heading(NamedTuple):
    """The heading of a column."""

    # label, unit: text.
    label: str
    unit: str = ""
    descending: bool = True  # Order of the first click that sorts by it


class Cell(NamedTuple):
    """A cell of a table."""

    # text, beside: number, and error or interval in small print.
    text: str
    beside: str = ""
    value: float | None = None  # Sort key
    mark: str = ""  # "best", "better", "worse" or empty
    # Those that a mean is over, as from `alphamf.evaluation.summary.clips`.
    clips: frozenset[tuple[Any, ...]] = frozenset()


class Row(NamedTuple):
    """A method and its cells."""

    style: Style
    cells: list[Cell]


class Table(NamedTuple):
    """A table whose first column is the method."""

    caption: str  # Sentence above it
    headings: list[Heading]  # Headings of the other columns
    rows: list[Row]  # One for each method


def _mean(results: list[Result], name: str, total: int) -> Cell:
    """Return the mean and standard error of a score, and how many of `total` clips have it."""
    found = values(results, name)
    if not found:
        return Cell(NONE)
    (mean, error), decimals = mean_and_error(found), SCORES[name].decimals
    beside = [f"± {number(error, decimals)}"] if math.isfinite(error) else []
    if len(found) < total:
        beside.append(f"{len(found)} of {total}")
    text = number(mean, decimals, signed=name == "si_sdr_gain")
    return Cell(text, ", ".join(beside), mean, clips=clips(results, name))


def _share(results: list[Result]) -> Cell:
    gains = values(results, "si_sdr_gain")
    if not gains:
        return Cell(NONE)
    share = sum(gain > 0 for gain in gains) / len(gains)
    return Cell(f"{100 * share:.0f} %", "", share, clips=clips(results, "si_sdr_gain"))


def _speed(results: list[Result]) -> Cell:
    _, factor = costs(results)
    if math.isnan(factor):
        return Cell(NONE)
    return Cell(number(factor, 2 if factor >= 0.1 else 3), "", factor)


def _memory(results: list[Result]) -> Cell:
    peaks = [r.peak_memory_mb for r in results if r.peak_memory_mb is not None]
    return Cell(f"{max(peaks):.0f}", "", max(peaks)) if peaks else Cell(NONE)


def summary(results: list[Result], styles: dict[str, Style]) -> Table:
    """Return a row of means per method; the best of each column is marked."""
    names = [name for name in SCORES if values(results, name)]
    total = clip_count(results)
    headings = [Heading("clips")]
    headings += [heading(name) for name in names]
    headings += [Heading("better on"), Heading("real-time factor", "", False)]
    headings += [Heading("peak memory", "MB", False)]
    rows = []
    for method, style in styles.items():
        mine = [r for r in results if r.method == method]
        done = sum(r.error is None for r in mine)
        cells = [Cell(str(done), f"of {total}" if done < total else "", done)]
        means = {name: _mean(mine, name, done) for name in names}
        cost = [_share(mine), _speed(mine), _memory(mine)]
        if style.kind == "input":
            # Its gain and cost are zero by definition.
            means = {n: Cell(NONE) if n == "si_sdr_gain" else cell for n, cell in means.items()}
            cost = [Cell(NONE)] * 3
        cells += [*means.values(), *cost]
        rows.append(Row(style, cells))
    for column in range(1, len(headings)):
        _mark_best(rows, column, highest=headings[column].descending)
    caption = "Mean ± standard error over the clips for which the method has a score."
    return Table(caption, headings, rows)


def heading(score: str) -> Heading:
    """Return the heading of a score's column."""
    return Heading(SCORES[score].label, SCORES[score].unit, SCORES[score].higher_is_better)


def _mark_best(rows: list[Row], column: int, *, highest: bool) -> None:
    """Mark the best cell among the competing methods, unless all are equal.

    A mean that lacks clips which another has is not marked.
    """
    cells = [row.cells for row in rows if row.style.competes]
    everything = frozenset().union(*(each[column].clips for each in cells))
    cells = [each for each in cells if each[column].clips == everything]
    # Values that print the same count as equal.
    known = {c[column].text: v for c in cells if (v := c[column].value) is not None}
    if len(known) < 2:
        return
    first = (max if highest else min)(known, key=known.__getitem__)
    for row in cells:
        if row[column].text == first:
            row[column] = row[column]._replace(mark="best")


def breakdown(results: list[Result], styles: dict[str, Style], field: str, score: str) -> Table:
    """Return the means of a score for each value of ``noise``, ``snr`` or ``reference``."""
    found = {getattr(r, field) for r in results} - {None}
    ordered = sorted(found)
    unit = "dB" if field == "snr" else ""
    headings = [
        Heading(f"{value:g}" if unit else value, unit, SCORES[score].higher_is_better)
        for value in ordered
    ]
    cells = groups(results, ("method", field))
    total = [clip_count([r for r in results if getattr(r, field) == value]) for value in ordered]
    rows = [
        Row(
            style,
            [
                _mean(cells.get((method, value), []), score, many)
                for value, many in zip(ordered, total, strict=True)
            ],
        )
        for method, style in styles.items()
    ]
    for column in range(len(headings)):
        _mark_best(rows, column, highest=SCORES[score].higher_is_better)
    return Table(SCORES[score].heading, headings, rows)


Differences = dict[Style, dict[str, Difference]]
"""Difference of each method to the rival, for every score."""


def differences(results: list[Result], styles: dict[str, Style], rival: str) -> Differences:
    """Compare each other method with `rival`, in all scores that exist."""
    # Differences in gain equal those in SI-SDR.
    names = [name for name in SCORES if name != "si_sdr_gain" and values(results, name)]
    return {
        style: {name: paired_difference(results, method, rival, name) for name in names}
        for method, style in styles.items()
        if method != rival
    }


def difference_table(found: Differences, rival: str) -> Table:
    """Return how much each method is above `rival`, with 95% intervals."""
    names = list(next(iter(found.values())))
    headings = [Heading("clips")]
    headings += [heading(name) for name in names]
    rows = []
    for style, scores in found.items():
        clips = max(each.clips for each in scores.values())
        cells = [Cell(str(clips), "", clips)]
        for name, each in scores.items():
            if math.isnan(each.mean):
                cells.append(Cell(NONE))
                continue
            decimals = SCORES[name].decimals
            ends = [number(end, decimals, signed=True) for end in (each.low, each.high)]
            beside = f"[{ends[0]}, {ends[1]}]" if math.isfinite(each.low) else ""
            sign = (each.low > 0) - (each.high < 0)
            mark = ("", "better", "worse")[sign if SCORES[name].higher_is_better else -sign]
            cells.append(Cell(number(each.mean, decimals, signed=True), beside, each.mean, mark))
        rows.append(Row(style, cells))
    caption = f"Mean difference to {rival} over the clips for which both methods have a score."
    return Table(caption, headings, rows)
