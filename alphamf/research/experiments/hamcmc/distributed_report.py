"""Table and figure of ``distributed-mf``."""

from __future__ import annotations

from typing import Any

import numpy as np

from alphamf.research.experiments.base import JobRecord, Numbers, blank_figure, mean_and_error
from alphamf.research.experiments.hamcmc.distributed_mf import SEARCHED, STEPS

GOAL = {10: 0.9, 50: 0.95}
"""Test RMSE by rank to which times are compared."""

ORDER = {
    10: {"HAMCMC": "first", "PSGLD, lagged": "as DSGLD", "DSGLD": "last"},
    50: {"HAMCMC": "first", "PSGLD, lagged": "second", "DSGLD": "last"},
}
"""How figure 5 orders the methods, in the two versions of the paper."""


def table(records: list[JobRecord]) -> list[dict[str, Any]]:
    """Return one row per method, rank and kind of step size."""
    rows = []
    keys = ("method", "rank", "kind", "step_size", "steps")
    for key in dict.fromkeys(tuple(job[name] for name in keys) for job, _ in records):
        own = [n for job, n in records if tuple(job[name] for name in keys) == key]
        method, rank, kind, size, steps = key
        seconds = [n["curve"][-1][1] for n in own]
        rows.append(
            {
                "method": method,
                "K": rank,
                "step": f"{size:g}, {kind}",
                "iterations": steps,
                "test RMSE": mean_and_error([n["rmse"] for n in own]),
                f"iterations to {GOAL[10]} (K 10), {GOAL[50]} (K 50)": _to_goal(own, rank, 0),
                "seconds to reach it": _to_goal(own, rank, 1),
                "ms per iteration": mean_and_error([1000 * s / steps for s in seconds], 3),
                "ranks": ", ".join(sorted({str(n["ranks"]) for n in own})),
                "paper, by speed": ORDER[rank].get(method),
            }
        )
    return rows


def _to_goal(results: list[Numbers], rank: int, column: int) -> str | None:
    """Return iterations or seconds until the goal is reached; None if it is not."""
    found = []
    for numbers in results:
        reached = [point[column] for point in numbers["curve"] if point[2] <= GOAL[rank]]
        if not reached:
            return None
        found.append(reached[0])
    return mean_and_error(found, 3)


def figure(records: list[JobRecord]) -> Any:
    """Draw fig. 5: test RMSE against time, for each seed."""
    drawing = blank_figure(10, 4)
    panels = dict(zip(STEPS, drawing.subplots(1, 2), strict=True))
    colours = dict(zip(SEARCHED[10], ("C0", "C1", "C4", "C2", "C3"), strict=True))
    seen = set()
    for job, numbers in records:
        _, seconds, rmse = np.array(numbers["curve"]).T
        key = job["method"], job["rank"], job["kind"]
        label = None if key in seen else f"{job['method']}, {job['kind']}"
        seen.add(key)
        style = "--" if job["kind"] == "printed" else "-"
        panels[job["rank"]].plot(seconds, rmse, style, color=colours[job["method"]], label=label)
    for rank, panel in panels.items():
        panel.set(
            xlabel="CPU seconds (over ranks: seconds)",
            ylabel="test RMSE",
            title=f"K = {rank}",
            ylim=(0.84, 1.15),
        )
        if panel.lines:
            panel.legend(fontsize="small")
    return drawing
