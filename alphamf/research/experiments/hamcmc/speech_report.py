"""Table and figure of ``alpha-mf-speech``."""

from __future__ import annotations

from typing import Any

import numpy as np

from alphamf.research.experiments.base import JobRecord, blank_figure, mean_and_error
from alphamf.research.experiments.hamcmc.speech import METHODS

ORDER = {
    "SGLD": "lowest",
    "PSGLD, lagged": "slightly above SGLD",
    "HAMCMC": "highest",
    "Gibbs, partially collapsed": "below HAMCMC",
}
"""Order of the methods in fig. 3, which has no numbers."""


def table(records: list[JobRecord]) -> list[dict[str, Any]]:
    """Return a row per method: mean and standard error over the clips."""
    rows = []
    for name, method in METHODS.items():
        found = [record for record in records if record.job["method"] == name]
        seconds = float(np.mean([r.numbers["seconds"] for r in found]))
        part = "all rows" if method.blocks == 1 else f"1/{method.blocks} of the rows"
        rows.append(
            {
                "method": name,
                "SDR in dB": mean_and_error([r.numbers["sdr"] for r in found], 3),
                "improvement over the input": mean_and_error(_over(records, found), 3),
                "steps": f"{found[0].job['steps']} on {part}" if method.steps else None,
                "seconds per clip": f"{seconds:.2f}",
                "clips": len(found),
                "paper": ORDER.get(_method(name)),
            }
        )
    return rows


def _method(row: str) -> str:
    """Return the paper's method of a row."""
    for added in (", printed", ", tuned", ", 2500 sweeps"):
        row = row.partition(added)[0]
    return row


def _over(records: list[JobRecord], found: list[JobRecord]) -> list[float]:
    noisy = {r.job["noisy"]: r.numbers["sdr"] for r in records if r.job["method"] == "noisy"}
    return [r.numbers["sdr"] - noisy[r.job["noisy"]] for r in found]


def figure(records: list[JobRecord]) -> Any:
    """Draw fig. 3: the gain over the input of each method."""
    drawn = blank_figure(8, 6)
    axes = drawn.subplots()
    for place, name in enumerate(METHODS):
        values = _over(records, [r for r in records if r.job["method"] == name])
        error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0
        axes.barh(place, np.mean(values), xerr=error, color=f"C{place % 10}")
    axes.axvline(0, color="grey", linewidth=0.8)
    axes.set(xlabel="gain in SDR over the input, dB (mean and standard error over clips)")
    axes.set_yticks(range(len(METHODS)), METHODS)
    axes.invert_yaxis()
    return drawn
