"""Tables 1 to 3 of the Monte Carlo EM paper beside the printed ones, and their figures."""

from __future__ import annotations

from math import log10
from typing import Any

import numpy as np

from alphamf.research.experiments.base import JobRecord, Numbers, blank_figure
from alphamf.research.experiments.mass_em import methods

PAPER: dict[str, dict[str, tuple[str, ...]]] = {
    "normal-1d": {
        "HMC": ("0.0196", "0.0197", "0.417"),
        "HMC-EM": ("0.0115", "0.0104", "0.423"),
        "RHMC": ("0.0111", "0.0089", "5.748"),
        "SGHMC": ("0.1590", "0.1646", "0.133"),
        "SGHMC-EM": ("0.0713", "0.2243", "0.132"),
        "SG-NPHMC": ("0.0326", "0.0433", "0.514"),
        "SG-NPHMC-EM": ("0.0274", "0.0354", "0.498"),
        "SGR-NPHMC": ("0.0240", "0.0308", "3.145"),
        "SGNHT": ("0.0344", "0.0335", "0.148"),
        "SGNHT-EM": ("0.0317", "0.0289", "0.148"),
    },
    "logistic-2d": {
        "HMC": ("0.0456", "0.1290", "1.435", "0.987", "0.791"),
        "HMC-EM": ("0.0145", "0.0851", "1.428", "0.970", "0.799"),
        "RHMC": ("0.0091", "0.0574", "1550", "367", "209"),
        "SGHMC": ("0.2812", "0.2717", "0.200", "0.136", "0.112"),
        "SGHMC-EM": ("0.2804", "0.2583", "0.203", "0.141", "0.131"),
        "SG-NPHMC": ("0.4945", "0.4263", "0.731", "0.512", "0.403"),
        "SG-NPHMC-EM": ("0.0990", "0.4229", "0.803", "0.525", "0.426"),
        "SGR-NPHMC": ("0.1901", "0.1925", "6.720", "4.568", "3.676"),
        "SGNHT": ("0.2035", "0.1921", "0.302", "0.270", "0.166"),
        "SGNHT-EM": ("0.1983", "0.1729", "0.306", "0.251", "0.175"),
    },
}
"""RMSE of both parameters, and milliseconds of an iteration."""

EXACT = "posterior"
"""Name of the first row: the posterior itself, by its moments."""


def normal_table(records: list[JobRecord]) -> list[dict[str, Any]]:
    """Return table 1."""
    return _table(records, "normal-1d", ("mu", "tau"), ("synthetic",))


def logistic_table(records: list[JobRecord]) -> list[dict[str, Any]]:
    """Return tables 2 and 3 as one table."""
    data = ("synthetic", "australian-credit", "heart")
    return _table(records, "logistic-2d", ("W0", "W1"), data)


def _table(
    records: list[JobRecord], experiment: str, names: tuple[str, str], data: tuple[str, ...]
) -> list[dict[str, Any]]:
    times: dict[str, dict[str, Any]] = {name: {} for name in data}
    for job, result in records:
        times[job["data"]][job["method"]] = result
    found = {job["method"]: n for job, n in records if "rmse" in n}
    first = next(iter(found.values()))
    rows = []
    for method in (EXACT, *found):
        paper = PAPER[experiment].get(method)
        numbers: Numbers = found.get(method, {})
        row: dict[str, Any] = {"method": method}
        for i, name in enumerate(names):
            own = (
                first["exact"][i] if method == EXACT else methods.format_spread(numbers["rmse"][i])
            )
            row[f"RMSE {name}"] = own
            row[f"paper {name}"] = paper[i] if paper else None
        row["error of mean (sd)"] = methods.format_spread(numbers.get("of_mean"), 2)
        row["ESS per 1000"] = f"{numbers['ess']:.0f}" if numbers else None
        row["condition of M"] = (
            first["exact_condition"] if method == EXACT else numbers["condition"]
        )
        for i, name in enumerate(data):
            suffix = "" if name == "synthetic" else f" {name}"
            row[f"ms{suffix}"] = methods.format_spread(
                times[name].get(method, {}).get("milliseconds")
            )
            row[f"paper ms{suffix}"] = paper[2 + i] if paper else None
            row[f"ratio{suffix}"] = methods.ratio(times[name].get(method))
        rows.append(row)
    return rows


def normal_figure(records: list[JobRecord]) -> Any:
    """Draw the RMSE of each method beside the paper's."""
    return _figure(records, "normal-1d", (r"$\mu$", r"$\tau$"))


def logistic_figure(records: list[JobRecord]) -> Any:
    """Draw the RMSE of each method beside the paper's."""
    return _figure(records, "logistic-2d", ("$W_0$", "$W_1$"))


def _figure(records: list[JobRecord], experiment: str, names: tuple[str, str]) -> Any:
    found = {job["method"]: n for job, n in records if "rmse" in n}
    figure = blank_figure(9, 4.2)
    axes = figure.subplots(1, 2, sharey=True)
    places = np.arange(len(found))
    for i, (axis, name) in enumerate(zip(axes, names, strict=True)):
        own = [np.mean(numbers["rmse"][i]) for numbers in found.values()]
        width = next(iter(found.values()))["exact"][i]
        axis.axvline(width, color="grey", linewidth=1, label="exact draws")
        axis.plot(own, places, "o", label="here")
        printed = PAPER[experiment]
        known = [(float(printed[m][i]), place) for place, m in enumerate(found) if m in printed]
        axis.plot(*zip(*known, strict=True), "x", label="paper")
        low, high = axis.get_xlim()
        axis.set_xscale("log")
        least = min([*own, width, *(x for x, _ in known)])
        axis.set_xlim(10 ** (log10(least) - 0.15), 1.3 * max(high, low))
        axis.set_xlabel(f"RMSE of {name}")
    axes[0].set_yticks(places, list(found))
    axes[0].invert_yaxis()
    axes[1].legend()
    return figure
