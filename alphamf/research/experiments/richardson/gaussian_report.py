"""Table and figure of ``richardson``."""

from __future__ import annotations

from typing import Any

import numpy as np

from alphamf.research.experiments.base import JobRecord, blank_figure
from alphamf.research.experiments.richardson.gaussian import GAMMA

PAPER: dict[tuple[Any, ...], str] = {
    ("step", "SGLD", GAMMA): "bias 1e-2",
    ("step", "SGRRLD", GAMMA): "bias 1e-4",
    ("slope", "SGLD"): "1",
    ("slope", "SGRRLD"): "2",
    ("rate", "SGLD"): "-2/3",
    ("rate", "SGRRLD"): "-4/5",
}


def slope(points: list[tuple[float, float]]) -> float:
    """Return the slope of log |y| against log x, by least squares."""
    x, y = np.log(np.abs(np.array(points))).T
    return float(np.polyfit(x, y, 1)[0])


def table(records: list[JobRecord]) -> list[dict[str, Any]]:
    """Return biases, mean square errors, slopes and rates."""
    rows = []
    for job, numbers in records:
        key = (job["figure"], job["method"], job["gamma"])
        rows.append(
            _row(
                f"{job['figure']}, {job['method']}",
                d=job["size"],
                gamma=job["gamma"],
                bias=f"{numbers['bias'][-1]:.3g} ± {numbers['error'][-1]:.1g}",
                law=numbers["law"],
                mse=numbers["mse"][-1],
                paper=PAPER.get(key),
            )
        )
    for method in ("SGLD", "SGRRLD"):
        own = [r for r in records if (r.job["figure"], r.job["method"]) == ("slope", method)]
        rows.append(
            _row(
                f"slope of log |bias| against log gamma, {method}",
                d=1,
                bias=f"{slope([(job['gamma'], n['bias'][-1]) for job, n in own]):.3f}",
                law=slope([(job["gamma"], n["law"]) for job, n in own]),
                paper=PAPER["slope", method],
            )
        )
    for method in ("SGLD", "SGRRLD"):
        rows.append(
            _row(
                f"slope of log least MSE against log K, {method}",
                d=1,
                mse=slope(lowest_errors(records, method)),
                paper=PAPER["rate", method],
            )
        )
    return rows


def _row(what: str, **values: Any) -> dict[str, Any]:
    empty = dict.fromkeys(("d", "gamma", "bias", "law", "mse", "paper"))
    return {"figure": what, **empty, **values}


def lowest_errors(records: list[JobRecord], method: str) -> list[tuple[float, float]]:
    """Return the lowest MSE over the step sizes, for each number of kept steps."""
    own = [n for job, n in records if (job["figure"], job["method"]) == ("step", method)]
    return [(float(k), min(n["mse"][i] for n in own)) for i, k in enumerate(own[0]["kept"])]


def figure(records: list[JobRecord]) -> Any:
    """Draw figures 1, 2 and 4, the lowest MSE against the run's length, and exact laws."""
    drawing = blank_figure(12, 10)
    panels = drawing.subplots(3, 3).ravel()
    lines: dict[tuple[str, str], list[JobRecord]] = {}
    for record in records:
        lines.setdefault((record.job["figure"], record.job["method"]), []).append(record)
    _draw_densities(panels[0], lines)
    _draw_bias_in_time(panels[1], lines)
    for method in ("SGLD", "SGRRLD"):
        panels[5].loglog(
            *zip(*lowest_errors(records, method), strict=True), marker=".", label=method
        )
    for (name, method), own in lines.items():
        gammas = [job["gamma"] for job, _ in own]
        bias = [abs(n["bias"][-1]) for _, n in own]
        error = [n["error"][-1] for _, n in own]
        mse = [n["mse"][-1] for _, n in own]
        if name == "dimension":
            panels[2].semilogy([job["size"] for job, _ in own], mse, marker=".", label=method)
        elif name == "slope":
            (line,) = panels[8].loglog(gammas, [abs(n["law"]) for _, n in own], label=method)
            panels[8].errorbar(gammas, bias, error, color=line.get_color(), fmt=".")
        else:
            first = 3 if name == "step" else 6
            panels[first].errorbar(gammas, bias, error, marker=".", label=method)
            panels[first + 1].loglog(gammas, mse, marker=".", label=method)
            panels[first].set(xscale="log", yscale="log")
    titles = (
        ("theta", "density"),
        ("CPU seconds of a run", "|bias| of the variance"),
        ("dimension", "MSE of the covariance"),
        ("step size", "|bias| of the variance"),
        ("step size", "MSE of the variance"),
        ("kept steps", "least MSE over the step sizes"),
        ("step size", "|bias|, with momenta"),
        ("step size", "MSE, with momenta"),
        ("step size", "|bias| at stationarity; lines: exact"),
    )
    for panel, (x, y) in zip(panels, titles, strict=True):
        panel.set(xlabel=x, ylabel=y)
        panel.legend()
    return drawing


def _largest(lines: dict[tuple[str, str], list[JobRecord]], method: str) -> JobRecord:
    """Return the runs of figure 1 (a): those of "step" with the largest step size."""
    return max(lines["step", method], key=lambda record: float(record.job["gamma"]))


def _draw_densities(panel: Any, lines: dict[tuple[str, str], list[JobRecord]]) -> None:
    """Draw the posterior, and normal densities with the mean and variance estimated by one run."""
    estimates = {"true": _largest(lines, "SGLD").numbers["truth"]}
    estimates |= {m: _largest(lines, m).numbers["found"] for m in ("SGLD", "SGRRLD")}
    centre, variance = estimates["true"]
    theta = centre + np.linspace(-5, 5, 201) * np.sqrt(variance)
    for name, (mean, square) in estimates.items():
        # Extrapolation can leave a very short run with a variance below zero.
        density = np.exp(-((theta - mean) ** 2) / (2 * max(square, 1e-9)))
        panel.plot(theta, density / np.sqrt(2 * np.pi * max(square, 1e-9)), label=name)


def _draw_bias_in_time(panel: Any, lines: dict[tuple[str, str], list[JobRecord]]) -> None:
    for method in ("SGLD", "SGRRLD"):
        job, numbers = _largest(lines, method)
        each = numbers["seconds"] / job["steps"] / job["chains"]
        times = [(kept + job["burn_in"]) * each for kept in numbers["kept"]]
        panel.loglog(times, np.abs(numbers["bias"]), marker=".", label=method)
