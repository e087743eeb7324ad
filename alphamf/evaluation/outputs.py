"""Final outputs of an evaluation: table, settings, summary, report."""

from __future__ import annotations

import csv
import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from alphamf.evaluation import methods
from alphamf.evaluation.cost import memory_source
from alphamf.evaluation.markdown import markdown
from alphamf.evaluation.methods import Entry, describe
from alphamf.evaluation.results import Result
from alphamf.evaluation.runner import EvaluationJob
from alphamf.evaluation.summary import present_scores
from alphamf.tools import jsonlines
from alphamf.tools.extras import installed_version
from alphamf.tools.files import atomic_file

_PACKAGES = ("alphamf", "numpy", "scipy", "librosa", "soundfile", "pystoi", "pesq")


def describe_run(entries: Sequence[Entry], *, seed: int, command: str) -> dict[str, Any]:
    """Return the provenance of results as JSON values."""
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
    """Return the methods named in a folder's settings, except those in `entries`."""
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
    """Yield a note for each dictionary whose rate is higher than that of some clips."""
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
    """Return a result with one column per score."""
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
