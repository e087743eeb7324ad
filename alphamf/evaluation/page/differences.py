"""Differences of all methods to one, as a table."""

from __future__ import annotations

import math

from alphamf.evaluation.page.styles import Style
from alphamf.evaluation.page.tables import Cell, Heading, Row, Table, heading, higher_is_better
from alphamf.evaluation.page.text import NONE, number
from alphamf.evaluation.results import Result
from alphamf.evaluation.summary import SCORES, Difference, paired_difference, values

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


def table(found: Differences, rival: str) -> Table:
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
            mark = ("", "better", "worse")[sign if higher_is_better(name) else -sign]
            cells.append(Cell(number(each.mean, decimals, signed=True), beside, each.mean, mark))
        rows.append(Row(style, cells))
    caption = f"Mean difference to {rival} over the clips for which both methods have a score."
    return Table(caption, headings, rows)
