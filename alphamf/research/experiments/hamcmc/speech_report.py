"""Table and figure of ``alpha-mf-speech``."""

from __future__ import annotations

from typing import Any

import numpy as np

from alphamf.research.experiments.base import Record, mean_and_error
from alphamf.research.experiments.hamcmc.speech import METHODS, SETTINGS

ORDER = {
    "SGLD": "lowest",
    "PSGLD": "slightly above SGLD",
    "HAMCMC": "highest",
    "Gibbs": "below HAMCMC",
}
"""Order of the methods in fig. 3, which has no numbers."""


def table(records: list[Record]) -> list[dict[str, Any]]:
    """Return a row per method: mean and standard error over the signals."""
    rows = []
    for method in METHODS:
        found = [record for record in records if record.job["method"] == method]
        job = found[0].job
        length = {
            "noisy": None,
            "start": None,
            "EM": f"{job['steps'] // SETTINGS.blocks} on all rows",
            "Gibbs": f"{job['sweeps']} sweeps",
        }.get(method, f"{job['steps']} on a tenth")
        rows.append(
            {
                "method": method,
                "SDR in dB": mean_and_error([r.numbers["sdr"] for r in found], 3),
                "gain over its input": mean_and_error(_over(records, found), 3),
                "steps": length,
                "seconds per signal": float(np.mean([r.numbers["seconds"] for r in found])),
                "signals": len(found),
                "paper": ORDER.get(method.split(",")[0]),
            }
        )
    return rows


def _over(records: list[Record], found: list[Record]) -> list[float]:
    noisy = {r.job["noisy"]: r.numbers["sdr"] for r in records if r.job["method"] == "noisy"}
    return [r.numbers["sdr"] - noisy[r.job["noisy"]] for r in found]


def figure(records: list[Record]) -> Any:
    """Draw fig. 3: the mean SDR of each method."""
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(7, 3.6), layout="constrained")
    axes = drawn.subplots()
    for place, method in enumerate(METHODS):
        values = [r.numbers["sdr"] for r in records if r.job["method"] == method]
        error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0
        axes.barh(place, np.mean(values), xerr=error, color=f"C{place % 10}")
        axes.text(0.1, place, f"{np.mean(values):.2f}", va="center", color="white")
    axes.set(xlabel="SDR in dB (mean and standard error over signals)")
    axes.set_yticks(range(len(METHODS)), METHODS)
    axes.invert_yaxis()
    return drawn
