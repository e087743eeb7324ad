"""Final outputs of an evaluation: its tables in Markdown, settings, summary, report."""

import csv
import json
import math
import os
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from alphamf.evaluation import methods
from alphamf.evaluation.measure import memory_source
from alphamf.evaluation.methods import Entry, describe
from alphamf.evaluation.runner import EvaluationJob
from alphamf.evaluation.summary import (
    BREAKDOWN,
    HISS,
    SCORES,
    Result,
    clips,
    costs,
    failures,
    groups,
    present_scores,
    values,
)
from alphamf.tools import jsonlines, tables
from alphamf.tools.extras import installed_version
from alphamf.tools.files import atomic_file, printable_name
from alphamf.tools.tables import format_mean, mean_and_error

LEGEND = (
    "- Mean ± standard error over the clips; (1 of 2): the score exists for one of "
    "two clips. Better on: clips whose SI-SDR improves. MB: peak memory of a "
    "process, including interpreter and libraries."
)

MOST_FAILURES = 10


def overview(results: Sequence[Result]) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows of the table of methods: means ± standard errors, and costs."""
    scores, total = present_scores(results), len(clips(results))
    headings = ["method", "clips", *(SCORES[score].heading for score in scores)]
    headings += ["better on", "CPU s per s", "real time", "MB"]
    methods = groups(results).items()
    return headings, [[name, *_row(group, scores, total)] for (name,), group in methods]


def markdown(results: Sequence[Result]) -> str:
    """Return Markdown: tables by method and, if they vary, by noise, SNR and clean file; notes."""
    headings, rows = overview(results)
    parts = [tables.markdown(headings, [[_plain(name), *cells] for name, *cells in rows])]
    notes = [LEGEND]
    for field, text in (("noise", _plain), ("snr", "{:g} dB".format), ("reference", str)):
        found = {getattr(result, field) for result in results}
        if field == "reference":
            found.discard(None)  # None: the result failed, or its depth is unknown
        # Unknown values come last.
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
    """Return a score's mean ± error, after the number of clips with it if fewer than `total`."""
    found = values(results, score)
    if not found:
        return "-"
    part = f"({len(found)} of {total}) " if len(found) < total else ""
    return part + format_mean(*mean_and_error(found), SCORES[score].decimals)


def _failures(results: Sequence[Result]) -> Iterator[str]:
    """Yield a line per clip and error, at most `MOST_FAILURES`, then the number of the others."""
    found = failures(results)
    for clip, sentence, who, _ in found[:MOST_FAILURES]:
        who = "all methods" if who == "all" else who
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


_PACKAGES = ("alphamf", "numpy", "scipy", "librosa", "soundfile", "pystoi", "pesq")


def describe_run(entries: Sequence[Entry], *, seed: int, command: str) -> dict[str, Any]:
    """Return what results were made with, as JSON values: versions, machine, methods, seed."""
    return {
        "version": version("alphamf"),
        "packages": {name: found for name in _PACKAGES if (found := installed_version(name))},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "peak_memory": memory_source(),
        "methods": {entry.spec: describe(entry) for entry in entries},
        "seed": seed,
        "command": command,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }


def earlier_entries(output: Path, entries: Sequence[Entry]) -> list[Entry]:
    """Return the methods in ``settings.json`` that still exist, except those in `entries`."""
    try:
        settings = json.loads((output / "settings.json").read_text(encoding="utf-8"))
        described = dict(settings["methods"])
    except (OSError, ValueError, KeyError, TypeError):
        return []
    new = {entry.spec for entry in entries}
    return [entry for entry in methods.restore_entries(described) if entry.spec not in new]


def order_results(
    jobs: Sequence[EvaluationJob], results: Sequence[Result], known: Mapping[str, Result]
) -> list[Result]:
    """Return the results of this and earlier runs, in the order of their jobs."""
    found = {**known, **{result.key: result for result in results}}
    return [found[job.result.key] for job in jobs if job.result.key in found]


def write(output: Path, results: Sequence[Result], settings: dict[str, Any]) -> None:
    """Write results.csv, settings.json, summary.md and report.html."""
    from alphamf.evaluation.page import report

    with atomic_file(output / "settings.json", within=output) as part:
        part.write_text(jsonlines.dumps(settings, indent=2) + "\n", encoding="utf-8")
    with (
        atomic_file(output / "results.csv", within=output) as part,
        part.open("w", newline="", encoding="utf-8", errors="backslashreplace") as file,
    ):
        names = present_scores(results)
        rows = [_flat(result, names) for result in results]
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    with atomic_file(output / "summary.md", within=output) as part:
        part.write_text(markdown(results) + "\n", encoding="utf-8", errors="backslashreplace")
    report.write(output, list(results), settings)


def notes(entries: Sequence[Entry], results: Sequence[Result]) -> Iterator[str]:
    """Yield a note per method whose dictionary (not ``auto``) has a higher rate than some clips."""
    from alphamf.learnt.dictionary import load

    for entry in entries:
        if entry.method.uses_model and entry.model != "auto":
            rate = load(entry.model).rate
            rates = [result.rate for result in results if result.method == entry.spec]
            lower = sum(found is not None and found < rate for found in rates)
            if lower:
                yield (
                    f"{entry.spec}: its dictionary is for sound at {rate} Hz or more, so "
                    "results at "
                    f"lower rates are poor ({lower} of {len(rates)} clips)"
                )


def _flat(result: Result, names: Sequence[str]) -> dict[str, Any]:
    """Return a result as a row of ``results.csv``, with one column per score in `names`."""
    item = result.to_json()
    scores, reasons = item.pop("scores"), item.pop("reasons")
    flat = {"method": item.pop("method"), **item}
    error = flat.pop("error")
    explained = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
    return {
        **flat,
        **{name: scores.get(name) for name in names},
        "error": error,
        "reasons": explained,
    }
