"""Tables of an evaluation in Markdown: methods, noises, levels, and failures."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

import numpy as np

from alphamf.evaluation.results import Result
from alphamf.evaluation.summary import (
    BREAKDOWN,
    HISS,
    SCORES,
    clips,
    costs,
    failures,
    groups,
    present_scores,
    values,
)
from alphamf.tools import tables
from alphamf.tools.files import printable_name
from alphamf.tools.tables import format_mean, mean_and_error

LEGEND = (
    "- Mean ± standard error over the clips; (1 of 2): the score exists for one of "
    "two clips. Better on: clips whose SI-SDR improves. MB: peak memory of a "
    "process, including interpreter and libraries."
)

MOST_FAILURES = 10


def overview(results: Sequence[Result]) -> tuple[list[str], list[list[str]]]:
    """Return the headings and the rows of the table of methods: means ± standard errors."""
    scores, total = present_scores(results), len(clips(results))
    headings = ["method", "clips", *(SCORES[score].heading for score in scores)]
    headings += ["better on", "CPU s per s", "real time", "MB"]
    methods = groups(results).items()
    return headings, [[name, *_row(group, scores, total)] for (name,), group in methods]


def markdown(results: Sequence[Result]) -> str:
    """Return the tables of methods, noises, input SNRs and clean files, and the failures."""
    headings, rows = overview(results)
    parts = [tables.markdown(headings, [[_plain(name), *cells] for name, *cells in rows])]
    notes = [LEGEND]
    for field, text in (("noise", _plain), ("snr", "{:g} dB".format), ("reference", str)):
        found = {getattr(result, field) for result in results}
        if field == "reference":
            found.discard(None)  # of results that failed before their clean file was read
        # Unknown ones come last.
        conditions = sorted(found, key=lambda each: (each is None, each))
        if len(conditions) > 1:
            labels = ["not known" if each is None else text(each) for each in conditions]
            kinds = dict(zip(conditions, labels, strict=True))
            parts += [_breakdown(results, field, kinds, name) for name in BREAKDOWN]
            notes += [f"- {HISS}"] * (field == "reference")
    notes += [*_failures(results), *_missing(results)]
    return "\n\n".join([*parts, "\n".join(notes)])


def _plain(text: str) -> str:
    """Escape text for Markdown on one line: no HTML, links or images."""
    return re.sub(r"[\[\]`]", r"\\\g<0>", escape(printable_name(text), quote=False))


def _row(group: Sequence[Result], scores: Sequence[str], total: int) -> list[str]:
    done = [result for result in group if result.error is None]
    gains = values(done, "si_sdr_gain")
    memory = [r.peak_memory_mb for r in done if r.peak_memory_mb is not None]
    return [
        str(total) if len(done) == total else f"{len(done)} of {total}",
        *(_cell(done, name, len(done)) for name in scores),
        f"{np.mean(np.array(gains) > 0):.0%}" if gains else "-",
        *("-" if math.isnan(cost) else f"{cost:.3f}" for cost in costs(done)),
        f"{max(memory):.0f}" if memory else "-",
    ]


def _breakdown(results: Sequence[Result], field: str, labels: dict[Any, str], score: str) -> str:
    methods = list(dict.fromkeys(result.method for result in results))
    cells = groups(results, (field, "method"))
    total = {each: len(clips(r for r in results if getattr(r, field) == each)) for each in labels}
    label = {"noise": "noise", "snr": "SNR", "reference": "clean file"}[field]
    return tables.markdown(
        [f"{SCORES[score].heading} by {label}", *map(_plain, methods)],
        [
            [text, *(_cell(cells.get((each, m), []), score, total[each]) for m in methods)]
            for each, text in labels.items()
        ],
    )


def _cell(results: Sequence[Result], score: str, total: int) -> str:
    """Return the mean of a score, and the number of clips that have it if some do not."""
    found = values(results, score)
    if not found:
        return "-"
    part = f"({len(found)} of {total}) " if len(found) < total else ""
    return part + format_mean(*mean_and_error(found), SCORES[score].decimals)


def _failures(results: Sequence[Result]) -> Iterator[str]:
    """Yield a line per clip and error, at most ten."""
    found = failures(results)
    for clip, sentence, methods, _ in found[:MOST_FAILURES]:
        who = "all methods" if methods == "all" else methods
        yield f"- No result for {_plain(clip)} ({_plain(who)}): {_plain(sentence)}."
    if len(found) > MOST_FAILURES:
        yield f"- and {len(found) - MOST_FAILURES} more: see results.csv."


def _missing(results: Sequence[Result]) -> Iterator[str]:
    """Yield a line per reason for missing scores, merged if only numbers differ."""
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for result in results:
        known = {name: why for name, why in result.reasons.items() if name in SCORES}
        for reason in dict.fromkeys(known.values()):
            names = [SCORES[name].label for name, why in known.items() if why == reason]
            key = (", ".join(names), re.sub(r"\d+(\.\d+)?", "#", reason))
            found.setdefault(key, []).append((result.method, reason))
    for (labels, _), cases in found.items():
        methods = ", ".join(dict.fromkeys(method for method, _ in cases))
        count = f"{len(cases)} result{'s' * (len(cases) > 1)}"
        yield f"- No {labels} in {count} of {_plain(methods)}: {_plain(cases[0][1])}."
