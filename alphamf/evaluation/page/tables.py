"""Styles of the methods, numbers and sentences of the report page, and its tables."""

import math
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import numpy as np

from alphamf.denoising.settings import PRESETS
from alphamf.evaluation.methods import LOW
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
from alphamf.tools.files import printable_name
from alphamf.tools.tables import mean_and_error

Kind = Literal["alphamf", "baseline", "oracle", "input"]

COLOURS = 8
"""Number of colours for methods, ``--m0`` to ``--m7`` in the style sheet; then they repeat."""

_MARKERS = "osD^vPX"
"""Markers of methods: seven, against eight colours, distinguish 56 methods."""

_OTHERS = {"input": ("input", "o"), "oracle": ("oracle", "*")}


class Style(NamedTuple):
    """Kind, colour and marker of a method."""

    method: str  # Name, as in `Result`
    kind: Kind  # Method of alphamf, another one, oracle (it reads the clean signal), or the input
    colour: str  # Suffix of a colour's name in the style sheet: 0 of ``--m0``
    marker: str  # A key of `alphamf.evaluation.page.charts.SHAPES`

    @property
    def shade(self) -> str:
        """The colour as a value of CSS."""
        return f"var(--m{self.colour})" if self.colour.isdigit() else f"var(--m-{self.colour})"

    @property
    def short_name(self) -> str:
        """The name, shortened to fit beside a chart."""
        name = printable_name(self.method)
        return name if len(name) <= 20 else f"{name[:12]}…{name[-7:]}"

    @property
    def competes(self) -> bool:
        """Whether the method competes for the best score: it is neither the input nor an oracle."""
        return self.kind in ("alphamf", "baseline")


def kind(method: str) -> Kind:
    """Return the kind of a method by its name."""
    name = method.partition("@")[0]
    if name == "noisy":
        return "input"
    if name.startswith("oracle"):
        return "oracle"
    return "alphamf" if name in PRESETS or name == LOW else "baseline"


def styles(results: Iterable[Result], order: Iterable[str] = ()) -> dict[str, Style]:
    """Return a style for each method that has results, those in `order` first."""
    there = dict.fromkeys(result.method for result in results)
    methods = [*(name for name in order if name in there), *there]
    found: dict[str, Style] = {}
    taken = 0
    for method in dict.fromkeys(methods):
        what = kind(method)
        if what in _OTHERS:
            found[method] = Style(method, what, *_OTHERS[what])
        else:
            found[method] = Style(
                method, what, str(taken % COLOURS), _MARKERS[taken % len(_MARKERS)]
            )
            taken += 1
    return found


DEFINITIONS = {
    "SI-SDR": "scale-invariant signal-to-distortion ratio: energy of the optimally scaled clean "
    "signal over the energy of everything else (Le Roux et al., 2019)",
    "SI-SDR gain": "SI-SDR of the output minus SI-SDR of the input",
    "SDR": "signal-to-distortion ratio of BSS Eval 3: like SI-SDR, but a filter of up to 512 "
    "taps does not count as an error (Vincent et al., 2006)",
    "SIR": "signal-to-interference ratio of BSS Eval 3: how much of the noise is left",
    "SAR": "signal-to-artefacts ratio of BSS Eval 3: how much was added that is neither speech "
    "nor noise",
    "STOI": "short-time objective intelligibility, about 0 to 1 (Taal et al., 2011)",
    "ESTOI": "the extended form of STOI, which also handles modulated noise (Jensen and Taal, "
    "2016)",
    "PESQ": "listening quality from 1 to 4.6: ITU-T P.862.1 (narrow band) at 8 kHz, P.862.2 "
    "(wide band) at 16 kHz; not comparable with each other",
    "WER": "word error rate: minimum number of substitutions, insertions and deletions per "
    "reference word, in a recogniser's transcript",
    "DNSMOS": "opinion scores from 1 to 5 predicted without the clean signal: speech, "
    "background, overall (ITU-T P.835; Reddy et al., 2022)",
    "better on": "percentage of clips with a positive SI-SDR gain",
    "real-time factor": "wall-clock seconds per second of sound, over all clips; below 1 the "
    "method is faster than real time",
    "peak memory": "peak resident memory of the method's process, over all clips",
    "±": "standard error of the mean: standard deviation over the clips, divided by the square "
    "root of their number",
    "interval of 95 %": "bootstrap: the clips are drawn 2000 times with replacement, and the "
    "interval goes from the 2.5th to the 97.5th percentile of the mean differences (seed 0); not "
    "computed for fewer than 10 clips",
}
"""Meaning of the columns and signs in the tables, by name."""

NONE = "\N{EN DASH}"
"""Text of a number that does not exist."""

MINUS = "\N{MINUS SIGN}"


def number(value: float, decimals: int, *, signed: bool = False) -> str:
    """Format a number with a true minus sign (if `signed`, also a plus), and NaN as a dash."""
    if math.isnan(value):
        return NONE
    text = "inf" if math.isinf(value) else f"{abs(value):.{decimals}f}"
    sign = MINUS if value < 0 and float(text) else "+" if signed else ""
    return sign + text.replace("inf", "∞")


def count(many: int, noun: str) -> str:
    """Return a number and its noun, such as "1 clip" or "2 clips"."""
    return f"{many} {noun}{'' if many == 1 else 's'}"


def clip_count(results: list[Result]) -> int:
    """Return the number of clips; a clip counts again for each seed."""
    return len(clips(results))


def mean(results: list[Result], method: str, score: str) -> float:
    """Return the mean of a score of a method, NaN if it has none."""
    return mean_and_error(values((r for r in results if r.method == method), score))[0]


def best_method(results: list[Result], methods: list[str]) -> str | None:
    """Return the method with the highest mean SI-SDR; None if none has a score.

    A method without some of the clips is the best only if every method lacks some.
    """
    found = {m: clips((r for r in results if r.method == m), "si_sdr") for m in methods}
    everything = frozenset().union(*found.values())
    known = [method for method in methods if found[method]]
    whole = [method for method in known if found[method] == everything]
    return max(whole or known, key=lambda method: mean(results, method, "si_sdr"), default=None)


class Protagonists(NamedTuple):
    """Names of the methods that the report compares; None where there is no such method."""

    main: str | None  # Best method of alphamf, or else the best method
    rival: str | None  # Best baseline, or else the input
    best: str | None  # Best of all methods except the input and oracles


def protagonists(results: list[Result], styles: dict[str, Style]) -> Protagonists:
    """Choose the methods to compare by mean SI-SDR."""
    top = best_method(results, [name for name, style in styles.items() if style.competes])
    rivals = [name for name, style in styles.items() if style.kind == "baseline"]
    inputs = [name for name, style in styles.items() if style.kind == "input"]
    ours = [name for name, style in styles.items() if style.kind == "alphamf"]
    return Protagonists(
        best_method(results, ours) or top,
        best_method(results, rivals) or best_method(results, inputs),
        top,
    )


def verdict(results: list[Result], styles: dict[str, Style]) -> str:
    """Return the main result of the evaluation in one sentence."""
    main, rival, top = protagonists(results, styles)
    if not results:
        return "There are no results."
    if main is None:
        scored = best_method(results, list(styles))
        if scored is None:
            return f"None of the {count(len(results), 'run')} has a score."
        return (
            f"No method was run, or none has a score; {scored} has an SI-SDR of "
            f"{number(mean(results, scored, 'si_sdr'), 2)} dB on average."
        )
    gains = values((r for r in results if r.method == main), "si_sdr_gain")
    gain = float(np.mean(gains)) if gains else math.nan
    if math.isnan(gain):
        result = f"{main} has an SI-SDR of {number(mean(results, main, 'si_sdr'), 2)} dB on average"
    else:
        verb = "raises" if gain >= 0 else "lowers"
        result = f"{main} {verb} SI-SDR by {number(abs(gain), 2)} dB"
        result += " on one clip" if len(gains) == 1 else f" on average over {len(gains)} clips"
    if top != main and top is not None:
        ahead, interval = _ahead(results, top, main)
        return f"{result}; best method: {top}, {ahead}{interval}."
    if rival is not None and rival != main and styles[rival].kind == "baseline":
        ahead, interval = _ahead(results, main, rival)
        return f"{result}, {ahead} than the best baseline, {rival}{interval}."
    return f"{result}."


def _ahead(results: list[Result], method: str, other: str) -> tuple[str, str]:
    """Return, as texts, how far a method's SI-SDR is above or below another's, and the interval."""
    mean, low, high, _ = paired_difference(results, method, other, "si_sdr")
    ahead = f"{number(abs(mean), 2)} dB {'less' if mean < 0 else 'more'}"
    interval = f" (95 % interval {number(low, 2)} to {number(high, 2)} dB)"
    return ahead, interval if math.isfinite(low) else " (not significant with so few clips)"


class Heading(NamedTuple):
    """The heading of a column of numbers, and how a click on it sorts."""

    # label, unit: text.
    label: str
    unit: str = ""
    descending: bool = True  # Whether the first click sorts from high to low


class Cell(NamedTuple):
    """A number in a table, with its error or interval, sort key and mark."""

    # text, beside: the number, and its error or interval in small print.
    text: str
    beside: str = ""
    value: float | None = None  # Sort key
    mark: str = ""  # "best", "better", "worse" or empty
    # Clips over which a mean is taken, as from `alphamf.evaluation.summary.clips`.
    clips: frozenset[tuple[Any, ...]] = frozenset()


class Row(NamedTuple):
    """A row of a table: the style of a method, and its cells."""

    style: Style
    cells: list[Cell]


class Table(NamedTuple):
    """A table whose first column is the method."""

    caption: str  # Sentence or title beside the table
    headings: list[Heading]  # Headings of the other columns
    rows: list[Row]  # One for each method


def _mean(results: list[Result], name: str, total: int) -> Cell:
    """Return a score's mean, standard error and, if not `total`, the number of clips with it."""
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
    """Return the table of means and costs, with a row per method; the best values are marked."""
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
    """Mark the best cells of a column among the competing methods, unless all are equal.

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
    """Return the table of a score's means by method and by ``noise``, ``snr`` or ``reference``."""
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
"""Difference of each method to the rival, by style and name of the score."""


def differences(results: list[Result], styles: dict[str, Style], rival: str) -> Differences:
    """Return the differences of all other methods to `rival`, in all scores but SI-SDR gain."""
    # Differences in gain equal those in SI-SDR.
    names = [name for name in SCORES if name != "si_sdr_gain" and values(results, name)]
    return {
        style: {name: paired_difference(results, method, rival, name) for name in names}
        for method, style in styles.items()
        if method != rival
    }


def difference_table(found: Differences, rival: str) -> Table:
    """Return the table of differences to `rival`, a row per method, with intervals of 95 %."""
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
