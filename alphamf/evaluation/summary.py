"""Means over clips with errors and intervals, and the tables of an evaluation."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from alphamf.evaluation.runner import Result
from alphamf.tools import tables
from alphamf.tools.files import shown
from alphamf.tools.tables import mean_and_error


class Score(NamedTuple):
    """How a score is printed.

    Attributes
    ----------
    label, unit
        For headings.
    decimals
        Digits after the point.
    higher_is_better
        Which way is better.
    """

    label: str
    unit: str
    decimals: int
    higher_is_better: bool

    @property
    def heading(self) -> str:
        """Label and unit, for the head of a column."""
        return f"{self.label} {self.unit}".rstrip()


SCORES = {
    "si_sdr": Score("SI-SDR", "dB", 2, True),
    "si_sdr_gain": Score("SI-SDR gain", "dB", 2, True),
    "sdr": Score("SDR", "dB", 2, True),
    "sir": Score("SIR", "dB", 2, True),
    "sar": Score("SAR", "dB", 2, True),
    "stoi": Score("STOI", "", 3, True),
    "estoi": Score("ESTOI", "", 3, True),
    "pesq": Score("PESQ", "", 3, True),
}
"""Every score, by its name in `Result.scores`."""

BREAKDOWN = ("si_sdr", "pesq", "estoi")
"""Scores that have tables by noise and by level."""

LEGEND = (
    "- Mean ± standard error over the clips. Better on: clips whose SI-SDR rises. MB: the most "
    "that a process held, interpreter and libraries included."
)

MOST_FAILURES = 10


class Difference(NamedTuple):
    """A mean of differences and its interval.

    Attributes
    ----------
    mean
        NaN without clips.
    low, high
        Ends of the interval; NaN with less than two clips.
    clips
        How many there are.
    """

    mean: float
    low: float
    high: float
    clips: int


def groups(
    results: Iterable[Result], by: Sequence[str] = ("method",)
) -> dict[tuple[Any, ...], list[Result]]:
    """Group results by some of their fields, in order of first appearance."""
    found: dict[tuple[Any, ...], list[Result]] = {}
    for result in results:
        found.setdefault(tuple(getattr(result, name) for name in by), []).append(result)
    return found


def values(results: Iterable[Result], score: str) -> list[float]:
    """Return the values of a score, without those that are undefined."""
    found = (result.scores.get(score) for result in results)
    return [value for value in found if value is not None]


def paired_difference(
    results: Iterable[Result],
    method: str,
    other: str,
    score: str,
    *,
    draws: int = 2000,
    seed: int = 0,
) -> Difference:
    """Return the mean difference of two methods in a score, over the clips that both have it for.

    The interval of 95 per cent is a bootstrap over the clips.

    Parameters
    ----------
    results
        Of any methods.
    method, other
        The difference is the first one's score minus the second one's.
    score
        A name in `SCORES`.
    draws
        Bootstrap samples.
    seed
        Of the bootstrap.

    Returns
    -------
    Difference
    """
    found: dict[tuple[str, str, int], dict[str, float]] = {}
    for result in results:
        value = result.scores.get(score)
        if value is not None and result.method in (method, other):
            found.setdefault((result.noisy, result.clean, result.seed), {})[result.method] = value
    both = [pair[method] - pair[other] for pair in found.values() if {method, other} <= set(pair)]
    differences = np.array(both)
    count = len(differences)
    mean, _ = mean_and_error(differences)
    if count < 2:
        return Difference(mean, math.nan, math.nan, count)
    rng = np.random.default_rng(seed)
    means = [differences[rng.integers(count, size=count)].mean() for _ in range(draws)]
    low, high = np.percentile(means, [2.5, 97.5])
    return Difference(mean, float(low), float(high), count)


def overview(results: Sequence[Result]) -> tuple[list[str], list[list[str]]]:
    """Return the headings and the rows of the table of methods: means ± standard errors."""
    headings = ["method", "clips", *(score.heading for score in SCORES.values())]
    headings += ["better on", "CPU s per s", "real time", "MB"]
    return headings, [[name, *_row(group)] for (name,), group in groups(results).items()]


def markdown(results: Sequence[Result]) -> str:
    """Return the tables of methods, of noises and of levels, and the failures."""
    parts = [tables.markdown(*overview(results))]
    for field, text in (("noise", shown), ("snr", "{:g} dB".format)):
        # Unknown ones come last.
        conditions = sorted(
            {getattr(result, field) for result in results}, key=lambda each: (each is None, each)
        )
        if len(conditions) > 1:
            labels = ["not known" if each is None else text(each) for each in conditions]
            kinds = dict(zip(conditions, labels, strict=True))
            parts += [_breakdown(results, field, kinds, name) for name in BREAKDOWN]
    notes = [LEGEND, *_failures(results), *_missing(results)]
    return "\n\n".join([*parts, "\n".join(notes)])


def _row(group: Sequence[Result]) -> list[str]:
    done = [result for result in group if result.error is None]
    gains = values(done, "si_sdr_gain")
    cpu = [r.cpu_seconds / r.seconds for r in done if r.cpu_seconds is not None and r.seconds]
    clock = [r.real_time_factor for r in done if r.real_time_factor is not None]
    memory = [r.peak_memory_mb for r in done if r.peak_memory_mb is not None]
    return [
        str(len(done)),
        *(_cell(values(done, name), name) for name in SCORES),
        f"{np.mean(np.array(gains) > 0):.0%}" if gains else "-",
        f"{np.mean(cpu):.3f}" if cpu else "-",
        f"{np.mean(clock):.3f}" if clock else "-",
        f"{max(memory):.0f}" if memory else "-",
    ]


def _breakdown(results: Sequence[Result], field: str, labels: dict[Any, str], score: str) -> str:
    methods = list(dict.fromkeys(result.method for result in results))
    cells = groups(results, (field, "method"))
    label = {"noise": "noise", "snr": "SNR"}[field]
    return tables.markdown(
        [f"{SCORES[score].heading} by {label}", *methods],
        [
            [text, *(_cell(values(cells.get((each, m), []), score), score) for m in methods)]
            for each, text in labels.items()
        ],
    )


def _cell(found: Sequence[float], score: str) -> str:
    mean, error = mean_and_error(found)
    decimals = SCORES[score].decimals
    if math.isnan(mean):
        return "-"
    return f"{mean:.{decimals}f}" + ("" if math.isnan(error) else f" ± {error:.{decimals}f}")


def _failures(results: Sequence[Result]) -> Iterator[str]:
    """Yield a line for each clip and error, the first ten."""
    everything = list(dict.fromkeys(result.method for result in results))
    failed = groups((result for result in results if result.error), ("noisy", "error"))
    for (noisy, error), group in list(failed.items())[:MOST_FAILURES]:
        methods = [result.method for result in group]
        who = "all methods" if methods == everything else ", ".join(methods)
        yield f"- No result for {shown(noisy)} ({who}): {error}."
    if len(failed) > MOST_FAILURES:
        yield f"- and {len(failed) - MOST_FAILURES} more: see results.csv."


def _missing(results: Sequence[Result]) -> Iterator[str]:
    """Yield a line for each reason of missing scores; those that differ in numbers are merged."""
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for result in results:
        for reason in dict.fromkeys(result.reasons.values()):
            names = [SCORES[name].label for name, why in result.reasons.items() if why == reason]
            key = (", ".join(names), re.sub(r"\d+(\.\d+)?", "#", reason))
            found.setdefault(key, []).append((result.method, reason))
    for (labels, _), cases in found.items():
        methods = ", ".join(dict.fromkeys(method for method, _ in cases))
        count = f"{len(cases)} result{'s' * (len(cases) > 1)}"
        yield f"- No {labels} in {count} of {methods}: {cases[0][1]}."
