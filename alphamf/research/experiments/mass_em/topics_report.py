"""Table and figure of ``topics``."""

from __future__ import annotations

from typing import Any

import numpy as np

from alphamf.research.experiments.base import JobRecord, Numbers, blank_figure
from alphamf.research.experiments.mass_em import methods
from alphamf.research.experiments.mass_em.topics import FIXED, SETTINGS

PAPER = {
    "SGHMC": ("759", "47"),
    "SGHMC-EM": ("738", "47"),
    "SGNHT": ("757", "45"),
    "SGNHT-EM": ("719", "45"),
    "SGR-NPHMC": ("723", "410"),
    "SG-NPHMC": ("714", "49"),
    "SG-NPHMC-EM": ("712", "49"),
}
"""Perplexity on 20 Newsgroups, and milliseconds of an iteration."""

PAPER_RCV1 = {
    "SGHMC": "996",
    "SGHMC-EM": "972",
    "SGNHT": "979",
    "SGNHT-EM": "968",
    "SGR-NPHMC": "952",
    "SG-NPHMC": "958",
    "SG-NPHMC-EM": "947",
}
"""Perplexity on RCV1, the larger Reuters corpus."""


def reuters_table(records: list[JobRecord]) -> list[dict[str, Any]]:
    """Return table 4 for Reuters; the paper's column is for RCV1."""
    rows = table(records)
    for row in rows:
        del row["paper ms"]
        row["paper"] = PAPER_RCV1.get(row["method"])
    return [{("paper, RCV1" if k == "paper" else k): v for k, v in row.items()} for row in rows]


def table(records: list[JobRecord]) -> list[dict[str, Any]]:
    """Return table 4, of 20 Newsgroups."""
    found: dict[str, list[Numbers]] = {}
    for job, numbers in records:
        several = found.setdefault(job["method"], [])
        if "diverged" not in numbers:
            several.append(numbers)
    rows = []
    for method, several in found.items():
        paper = PAPER.get(method, (None, None))
        shapes = [n["condition"] for n in several if n["condition"] is not None]
        rows.append(
            {
                "method": method,
                "perplexity": methods.format_spread([n["perplexity"] for n in several], 4)
                or "diverged",
                "paper": paper[0],
                "ms": methods.format_spread([n["milliseconds"] for n in several]),
                "paper ms": paper[1],
                "ratio": _ratio(several, found.get(methods.base_method(method), [])),
                "condition of M": float(np.exp(np.log(shapes).mean())) if shapes else None,
                "total weight": methods.format_spread([n["total"] for n in several]),
            }
        )
    return rows


def _ratio(several: list[Numbers], plain: list[Numbers]) -> str | None:
    """Return the time of an adaptive method relative to its plain form; None for the others."""
    if several is plain or not several or not plain:
        return None
    own, base = (np.mean([n["milliseconds"] for n in each]) for each in (several, plain))
    return f"{own / base:.2f}"


def figure(records: list[JobRecord]) -> Any:
    """Draw figure 1: perplexity against iterations and against time, after the burn-in."""
    drawing = blank_figure(10, 4.2)
    axes = drawing.subplots(1, 2, sharey=True)
    colours = {kind: f"C{i}" for i, kind in enumerate((*SETTINGS, FIXED))}
    for method in dict.fromkeys(job["method"] for job, _ in records):
        own = [n for job, n in records if job["method"] == method]
        curves = np.array([numbers["curve"] for numbers in own if "curve" in numbers])
        if not curves.size:
            continue
        steps, seconds, perplexity = curves.mean(0).T
        style = "--" if method.endswith(methods.EM) else "-"
        style = ":" if method.endswith(methods.POSITIONS) else style
        for axis, x in zip(axes, (steps, seconds), strict=True):
            axis.plot(
                x, perplexity, style, color=colours[methods.base_method(method)], label=method
            )
    axes[0].set_xlabel("iterations after the burn-in")
    axes[0].set_ylabel("test perplexity")
    axes[1].set_xlabel("seconds after the burn-in")
    axes[1].legend(fontsize="small")
    return drawing
