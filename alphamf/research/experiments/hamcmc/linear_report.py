"""Table and figure of ``linear-gaussian``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from alphamf.research.experiments.base import JobRecord, blank_figure, mean_and_error
from alphamf.research.experiments.hamcmc import quartic
from alphamf.research.experiments.hamcmc.linear import METHODS, PRINTED

CLAIMS = {
    "SGLD": "above HAMCMC",
    "PSGLD, lagged": "above HAMCMC",
    "SGRLD": "lowest, slow",
    "HAMCMC, M = 2": "below SGLD, PSGLD",
    "HAMCMC, M = 3": "near SGRLD",
}
"""Order of the errors in fig. 2 and its text, which have no numbers."""

DRAWN = tuple(name for name in METHODS if "M = 2, s" not in name)
BIAS = f"bias in % at h = {', '.join(map(str, quartic.STEP_SIZES))}"
PANELS = ("SGLD", "PSGLD", "PSGLD, searched", "SGRLD", "HAMCMC, M = 2")
"""Samplers of fig. 1, and PSGLD with a step that does not explode."""


def table(records: list[JobRecord]) -> list[dict[str, Any]]:
    """Return a row for each size and method, then the biases on the quartic."""
    rows = []
    for size in PRINTED:
        plain = _found(records, "SGLD", size)
        base, base_large = _time(plain), _time(plain, "microseconds_large")
        for method in METHODS:
            found = _found(records, method, size)
            cost, large = _time(found), _time(found, "microseconds_large")
            rows.append(
                {
                    "method": method,
                    "D": str(size),
                    "error of the mean": _of(found, "running"),
                    "of the mean over the last half": _of(found, "second_half"),
                    "of the covariance": _of(found, "covariance"),
                    "variance / posterior's": _of(found, "spread"),
                    "µs per step (/ SGLD's)": f"{cost:.0f} ({cost / base:.1f})",
                    "with 1000 points": f"{large:.0f} ({large / base_large:.1f})",
                    BIAS: None,
                    "paper": CLAIMS.get(method) if size > 2 else None,
                }
            )
    for method in quartic.METHODS:
        found = sorted(
            _found(records, method, quartic.SIZE), key=lambda r: -float(r.job["step_size"])
        )
        row: dict[str, Any] = dict.fromkeys(rows[0])
        row |= {"method": method, "D": quartic.SIZE}
        row[BIAS] = ", ".join(
            f"{100 * r.numbers['bias']:+.1f} ± {100 * r.numbers['error']:.1f}" for r in found
        )
        rows.append(row)
    return rows


def _found(records: list[JobRecord], method: str, size: Any) -> list[JobRecord]:
    return [r for r in records if r.job["method"] == method and r.job["size"] == size]


def _of(found: list[JobRecord], name: str) -> str:
    values = [r.numbers.get(name, math.inf) for r in found if not r.numbers.get("exploded")]
    if len(values) < len(found):
        return f"{len(found) - len(values)} of {len(found)} diverged"
    return mean_and_error([v[-1] if isinstance(v, list) else v for v in values], 3)


def _time(found: list[JobRecord], name: str = "microseconds") -> float:
    # Other load only increases a time.
    return float(min(r.numbers[name] for r in found))


def figure(records: list[JobRecord]) -> Any:
    """Draw fig. 1, fig. 2 with the error of the covariance, and the biases."""
    drawn = blank_figure(12, 12)
    parts: Any = drawn.subfigures(2, 1, height_ratios=(1, 2.6))
    scatter, errors = parts
    panels: Any = scatter.subplots(1, len(PANELS), sharex=True, sharey=True)
    for axes, method in zip(panels, PANELS, strict=True):
        _draw_scatter(axes, _found(records, method, 2)[0].numbers, method)
    grid = errors.subplots(3, 3)
    for row, size in zip(grid, (10, 100), strict=False):
        for k, method in enumerate(DRAWN):
            found = [r for r in _found(records, method, size) if "second_half" in r.numbers]
            if found:
                _draw_errors(row, found, method, k)
        for axes, label in zip(row, ("step", "seconds", "step"), strict=True):
            axes.set(xscale="log", yscale="log", xlabel=label, title=f"D = {size}")
        row[0].set(ylabel="squared error of the mean", ylim=(None, 1e3))
        row[1].set(ylim=row[0].get_ylim())
        row[2].set(ylabel="error of the covariance", ylim=(None, 1e3))
    _draw_bias(grid[2, 0], records)
    for axes in grid[2, 1:]:
        axes.axis("off")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    grid[2, 1].legend(handles, labels, loc="upper left", frameon=False)
    return drawn


def _draw_scatter(axes: Any, numbers: dict[str, Any], method: str) -> None:
    mean, root = np.array(numbers["mean"]), np.linalg.cholesky(np.array(numbers["posterior"]))
    angle = np.linspace(0, 2 * np.pi, 100)
    for radius in (1, 2, 3):
        ring = mean + radius * np.stack([np.cos(angle), np.sin(angle)], 1) @ root.T
        axes.plot(*ring.T, "k--", linewidth=0.8)
    axes.plot(*np.array(numbers["draws"]).T, ".", markersize=2)
    reach = 4 * np.linalg.norm(root, axis=1)
    axes.set(title=method, xlim=mean[0] + reach[0] * np.array([-1, 1]))
    axes.set(ylim=mean[1] + reach[1] * np.array([-1, 1]))


def _draw_errors(row: Any, found: list[JobRecord], method: str, k: int) -> None:
    marks = np.array(found[0].numbers["marks"])
    running = np.mean([r.numbers["running"] for r in found], 0)
    covariance = np.mean([r.numbers["covariance"] for r in found], 0)
    style = {"color": f"C{k}", "linestyle": "--" if "searched" in method else "-"}
    row[0].plot(marks, running, label=method, **style)
    row[1].plot(1e-6 * _time(found) * marks, running, **style)
    row[2].plot(found[0].numbers["windows"], covariance, **style)


def _draw_bias(axes: Any, records: list[JobRecord]) -> None:
    for method in quartic.METHODS:
        found = _found(records, method, quartic.SIZE)
        axes.errorbar(
            [r.job["step_size"] for r in found],
            [100 * r.numbers["bias"] for r in found],
            [200 * r.numbers["error"] for r in found],
            color=f"C{DRAWN.index(method)}",
            marker=".",
        )
    axes.axhline(0, color="grey", linewidth=0.8)
    axes.set(xlabel="step size", ylabel="bias of E |θ|² in %", title="exp(-|θ|⁴ / 4)", xscale="log")
