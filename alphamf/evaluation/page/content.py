"""What the template of the page is filled with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from alphamf.evaluation.page import charts, clips, tables
from alphamf.evaluation.page.levels import levels
from alphamf.evaluation.page.looks import Look, looks
from alphamf.evaluation.page.svg import shape
from alphamf.evaluation.page.text import (
    DEFINITIONS,
    clip_count,
    count,
    failures,
    protagonists,
    reasons,
    verdict,
)
from alphamf.evaluation.runner import Result
from alphamf.evaluation.summary import BREAKDOWN, values

_MOST_FAILURES = 200
"""Lines of the table of what failed."""


def content(output: Path, results: list[Result], settings: dict[str, Any]) -> dict[str, Any]:
    """Return the template's variables; the parameters are those of `write`."""
    about: dict[str, Any] = settings.get("methods") or {}
    found = looks(results, about)
    main, rival, _ = protagonists(results, found)
    summary = tables.summary(results, found) if results else None
    differences = tables.differences(results, found, rival) if rival else {}
    picked = clips.chosen(results, main) if main else []
    parts = {
        "summary": summary,
        "difference": tables.difference(differences, rival) if rival and differences else None,
        "difference_charts": charts.differences(differences, rival) if rival else [],
        "breakdown": _breakdown(results, found),
        "level_charts": levels(results, found),
        "box_charts": charts.boxes(results, found),
        "speed_chart": charts.speed(results, found),
        "samples": [clips.sample(output, *each, results, found) for each in picked],
        "failures": failures(results),
        "reasons": reasons(results),
    }
    return parts | {
        "title": f"Denoising evaluated: {count(clip_count(results), 'clip')}, "
        f"{count(len(found), 'method')}",
        "verdict": verdict(results, found),
        "sections": _sections(parts, rival),
        "marked": summary is not None and any(c.mark for row in summary.rows for c in row.cells),
        "looks": [look for look in found.values() if look.kind != "oracle"],
        "shapes": {look.marker: shape(look.marker) for look in found.values()},
        "main": main,
        "rival": rival,
        "rival_is_input": rival is not None and found[rival].kind == "input",
        "range": clips.RANGE,
        "scale": clips.scale(),
        "seconds": clips.SECONDS,
        "runs": len(results),
        "most_failures": _MOST_FAILURES,
        "settings": {"version": "", "command": "", "date": ""} | settings,
        "facts": _facts(settings, results),
        "methods": _methods(about, found),
        "definitions": list(DEFINITIONS.items()),
    }


def _breakdown(
    results: list[Result], found: dict[str, Look]
) -> list[tuple[str, list[tables.Table]]]:
    """Return the tables by noise and by level, each where there is more than one of it."""
    parts = []
    for field, title in (("noise", "By noise"), ("snr", "By SNR of the input")):
        if len({getattr(result, field) for result in results} - {None}) > 1:
            there = [name for name in BREAKDOWN if values(results, name)]
            parts.append((title, [tables.breakdown(results, found, field, s) for s in there]))
    return [part for part in parts if part[1]]


def _sections(parts: Mapping[str, Any], rival: str | None) -> list[tuple[str, str]]:
    """Return the anchor and the name of each section that is there."""
    names = [
        ("summary", "Summary", True),
        ("difference", f"Difference to {rival}", parts["difference"]),
        ("breakdown", "By noise and level", parts["breakdown"]),
        ("spread", "Spread and speed", parts["box_charts"] or parts["speed_chart"]),
        ("listen", "Listen", parts["samples"]),
        ("failures", "What failed", True),
        ("settings", "Settings", True),
    ]
    return [(anchor, name) for anchor, name, there in names if there]


def _facts(settings: Mapping[str, Any], results: list[Result]) -> list[tuple[str, str]]:
    """Return the settings of the run, those that are known."""
    packages = settings.get("packages") or {}
    seconds = {(r.noisy, r.clean): r.seconds or 0.0 for r in results}
    facts = {
        "clean files": settings.get("clean"),
        "noisy files": ", ".join(settings.get("noisy") or []),
        "pairs": settings.get("pairs"),
        "sound": f"{sum(seconds.values()) / 60:.1f} minutes",
        "seed": settings.get("seed"),
        "date": settings.get("date"),
        "alphamf": settings.get("version"),
        "Python": settings.get("python"),
        "packages": ", ".join(f"{name} {version}" for name, version in packages.items()),
        "machine": settings.get("platform"),
        "processors": settings.get("cpus"),
        "memory measured": settings.get("peak_memory"),
    }
    return [(name, str(value)) for name, value in facts.items() if value not in (None, "")]


def _methods(about: Mapping[str, Any], found: Mapping[str, Look]) -> list[tuple[Look, str, str]]:
    """Return what is said of each method, and its settings as text."""
    said = []
    for method, look in found.items():
        what = about.get(method, "")
        details = dict(what) if isinstance(what, Mapping) else {"summary": what}
        summary = str(details.pop("summary", ""))
        details |= details.pop("settings", {})
        if details.get("model") == "auto":
            del details["model"]
        text = ", ".join(
            f"{name} {value if isinstance(value, str) else json.dumps(value)}"
            for name, value in details.items()
            if value is not None
        )
        said.append((look, summary, text))
    return [each for each in said if each[1] or each[2]]
