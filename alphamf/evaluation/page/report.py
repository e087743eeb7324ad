"""Writes report.html, the results of an evaluation on one self-contained page."""

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from alphamf.evaluation.page import charts, clips, tables
from alphamf.evaluation.page.charts import SHAPES
from alphamf.evaluation.page.tables import (
    DEFINITIONS,
    Style,
    clip_count,
    count,
    protagonists,
    styles,
    verdict,
)
from alphamf.evaluation.summary import BREAKDOWN, HISS, SCORES, Result, failures, values
from alphamf.tools.files import atomic_file

_MOST_FAILURES = 200
"""Maximum number of rows of the table of failures."""

_GROUPS = {"noise": "By noise", "snr": "By input SNR", "reference": "By clean file"}
"""Fields of `Result` that have tables, and their titles."""


def write(output: Path, results: list[Result], settings: dict[str, Any]) -> Path:
    """Write ``report.html``, sounds included, and return its path."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader(__package__, "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # The content security policy allows this script alone, whatever file names contain.
    script = environment.get_template("script.js.j2").render()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = environment.get_template("report.html.j2").render(
        content(output, results, settings),
        script=Markup(script),
        script_hash=f"sha256-{digest}",
    )
    path = output / "report.html"
    with atomic_file(path, within=output) as part:
        # Names that are not valid UTF-8 are escaped as in `alphamf.tools.files.printable_name`.
        part.write_text(page, "utf-8", errors="backslashreplace", newline="\n")
    return path


def content(output: Path, results: list[Result], settings: dict[str, Any]) -> dict[str, Any]:
    """Return the variables of the template ``report.html.j2`` by name."""
    about: dict[str, Any] = settings.get("methods") or {}
    found = styles(results, about)
    main, rival, _ = protagonists(results, found)
    summary = tables.summary(results, found) if results else None
    parts = {"summary": summary} | _parts(output, results, found, main, rival)
    return parts | {
        "title": f"Denoising evaluated: {count(clip_count(results), 'clip')}, "
        f"{count(len(found), 'method')}",
        "verdict": verdict(results, found),
        "sections": _sections(parts, rival),
        "marked": summary is not None and any(c.mark for row in summary.rows for c in row.cells),
        "styles": [style for style in found.values() if style.kind != "oracle"],
        "shapes": SHAPES,
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


def _parts(
    output: Path,
    results: list[Result],
    found: dict[str, Style],
    main: str | None,
    rival: str | None,
) -> dict[str, Any]:
    """Return tables, charts, samples, failures and reasons by their names in the template."""
    compared = tables.differences(results, found, rival) if rival else {}
    picked = clips.choose_clips(results, main) if main else []
    return {
        "difference": tables.difference_table(compared, rival) if rival and compared else None,
        "difference_charts": charts.differences(compared, rival) if rival else [],
        "breakdown": _breakdown(results, found),
        "level_charts": charts.levels(results, found),
        "box_charts": charts.boxes(results, found),
        "speed_chart": charts.speed(results, found),
        "samples": [clips.sample(output, *each, results, found) for each in picked],
        "failures": failures(results),
        "reasons": reasons(results),
    }


def _breakdown(
    results: list[Result], found: dict[str, Style]
) -> list[tuple[str, str, list[tables.Table]]]:
    """Return title, note and tables of each field of `_GROUPS` that has several values."""
    parts = []
    for field, title in _GROUPS.items():
        if len({getattr(result, field) for result in results} - {None}) > 1:
            there = [name for name in BREAKDOWN if values(results, name)]
            note = HISS if field == "reference" else ""
            parts.append((title, note, [tables.breakdown(results, found, field, s) for s in there]))
    return [part for part in parts if part[2]]


def _sections(parts: Mapping[str, Any], rival: str | None) -> list[tuple[str, str]]:
    """Return anchor and name of each section that is not empty."""
    names = [
        ("summary", "Summary", True),
        ("difference", f"Difference to {rival}", parts["difference"]),
        ("breakdown", "Groups of clips", parts["breakdown"]),
        ("spread", "Spread and speed", parts["box_charts"] or parts["speed_chart"]),
        ("listen", "Listen", parts["samples"]),
        ("failures", "What failed", True),
        ("settings", "Settings", True),
    ]
    return [(anchor, name) for anchor, name, there in names if there]


def _facts(settings: Mapping[str, Any], results: list[Result]) -> list[tuple[str, str]]:
    """Return label and text of each known setting of the evaluation."""
    packages = settings.get("packages") or {}
    seconds = {(r.noisy, r.clean): r.seconds for r in results if r.seconds is not None}
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


def _methods(about: Mapping[str, Any], found: Mapping[str, Style]) -> list[tuple[Style, str, str]]:
    """Return style, summary and settings (as text) of each method with a summary or settings."""
    described = []
    for method, style in found.items():
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
        described.append((style, summary, text))
    return [each for each in described if each[1] or each[2]]


class Reason(NamedTuple):
    """A reason why a score is missing, and the number of results that have it."""

    score: str  # Label of the score
    sentence: str  # The reason, as one of the results has it
    runs: int  # Number of results


def reasons(results: list[Result]) -> list[Reason]:
    """Return reasons for missing scores, most frequent first, merged if only numbers differ."""
    seen: Counter[tuple[str, str]] = Counter()
    example: dict[tuple[str, str], str] = {}
    for result in results:
        for score, sentence in result.reasons.items():
            key = score, re.sub(r"\d+(\.\d+)?", "#", sentence)
            seen[key] += 1
            example.setdefault(key, sentence)
    return [
        Reason(SCORES[key[0]].label if key[0] in SCORES else key[0], example[key], runs)
        for key, runs in seen.most_common()
    ]
