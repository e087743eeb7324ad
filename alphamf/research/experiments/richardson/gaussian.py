r"""``richardson``: the bias of SGLD and SGHMC, and what extrapolation takes away of it.

Durmus et al. (NIPS 2016), section 5.1 and figures 1 to 4, on the model of `richardson_laws`. Their
SGLD moves by :math:`-\gamma \nabla U + \sqrt{2 \gamma} Z`, as ours does.

Figures "step", "dimension" and "momentum" are of the variance that a chain of the paper's length
estimates, over 100 runs from random starts: 21 000 steps, or 10 500 of two chains, less 1000 or 500
of burn-in. At small steps their bias is that of a start not forgotten, and of too short a run.
"slope" starts at the posterior and takes second moments about the true mean, so that only the
step's bias remains. Figure 3, the rates, needs no runs of its own: it takes those of "step" at
several lengths, and at each the step with the least mean square error.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from alphamf.inference.chain import run
from alphamf.inference.random import generator
from alphamf.research.experiments.base import Experiment, Job, Numbers, Record
from alphamf.research.experiments.richardson.laws import PRIOR_VARIANCE, law, model, sampler_of
from alphamf.tools.arrays import Array

STEPS, BURN_IN = 21_000, 1000
GAMMA = 1e-3
RUNS = 100
PAIRS = ("SGRRLD", "SGRRHMC")

PAPER = {
    ("step", "SGLD", GAMMA): "bias 1e-2",
    ("step", "SGRRLD", GAMMA): "bias 1e-4",
    ("slope", "SGLD"): "1",
    ("slope", "SGRRLD"): "2",
    ("rate", "SGLD"): "-2/3",
    ("rate", "SGRRLD"): "-4/5",
}


def jobs(full: bool, seed: int) -> list[Job]:
    """List one job a point of a figure."""
    steps = np.geomspace(1e-6, GAMMA, 10 if full else 4)
    leaps = np.geomspace(1e-4, 1e-2, 7 if full else 3)
    slopes = GAMMA / 2 ** np.arange(0, 2.5, 0.5)
    points = [
        *(("step", method, 1, gamma) for method in ("SGLD", "SGRRLD") for gamma in steps),
        *(
            ("dimension", method, size, GAMMA)
            for method in ("SGLD", "SGRRLD")
            for size in (1, 5, 10, 20)
        ),
        *(
            ("momentum", method, 1, gamma)
            for method in ("SGHMC", "SGHMC-s", "SGRRHMC")
            for gamma in leaps
        ),
        *(("slope", method, 1, gamma) for method in ("SGLD", "SGRRLD") for gamma in slopes),
    ]
    short = 1 if full else 10
    return [
        {
            "figure": figure,
            "method": method,
            "size": size,
            "gamma": float(f"{gamma:.4g}"),
            "steps": STEPS // short // (2 if method in PAIRS else 1),
            "burn_in": BURN_IN // short // (2 if method in PAIRS else 1),
            "chains": (5 if figure == "slope" else 1) * (RUNS if full else 20),
            "seed": seed,
        }
        for figure, method, size, gamma in points
    ]


class Moments:
    """Each chain's mean of e = theta - mu and of e e', extrapolated for pairs of chains.

    Attributes
    ----------
    steps
        Numbers of kept steps at which `covariances` holds the estimates so far: halvings of all.
    """

    def __init__(self, target: Any, burn_in: int, steps: int) -> None:
        self.target, self.burn_in = target, burn_in
        self.steps = sorted({(steps - burn_in) >> k for k in range(6)} - {0})
        self.count = 0
        self.first: Any = 0.0
        self.second: Any = 0.0
        self.covariances: list[Array] = []

    def add(self, state: Any, target: Any) -> None:
        """Take in one state."""
        if state.step <= self.burn_in:
            return
        self.count += 1
        signed = [(1.0, state.theta)]
        if hasattr(state, "coarse"):
            signed = [(1.0, state.middle), (1.0, state.theta), (-1.0, state.coarse)]
        for sign, phi in signed:
            e = phi - self.target.mean
            self.first = self.first + sign * e
            self.second = self.second + sign * e[..., :, None] * e[..., None, :]
        if self.count in self.steps:
            self.covariances.append(self.covariance())

    def arrays(self) -> dict[str, Array]:
        """Nothing: no checkpoint is written."""
        return {}

    def load(self, arrays: dict[str, Array]) -> None:
        """Take nothing back."""

    def covariance(self) -> Array:
        """Estimates of theta's covariance, about the chain's own mean, shape (*chains, D, D)."""
        mean = self.first / self.count
        own = self.second / self.count - mean[..., :, None] * mean[..., None, :]
        covariance: Array = PRIOR_VARIANCE * own
        return covariance


def work(job: Job) -> Numbers:
    """Run chains of one method side by side, and compare the covariances with the posterior's."""
    target = model(job["size"])
    sampler = sampler_of(job["method"], job["gamma"])
    rng = generator(job["seed"], 0)
    start = target.start(rng, (job["chains"],))
    if job["figure"] == "slope":
        root = np.linalg.cholesky(target.covariance)
        start = target.mean + start @ root.T
    record = Moments(target, job["burn_in"], job["steps"])
    begin = time.process_time()
    states = run(target, sampler, steps=job["steps"], seed=job["seed"], start=start, record=record)
    for _ in states:
        pass
    seconds = time.process_time() - begin
    exact = PRIOR_VARIANCE * target.covariance
    estimates = np.stack(record.covariances) - exact
    if job["figure"] == "slope":
        estimates = (PRIOR_VARIANCE * record.second / record.count - exact)[None]
    square = (estimates**2).sum((-2, -1))
    each = np.trace(estimates, axis1=-2, axis2=-1) / job["size"]
    return {
        "kept": record.steps,
        "bias": [float(value) for value in each.mean(1)],
        "error": [float(value) for value in each.std(1, ddof=1) / np.sqrt(job["chains"])],
        "mse": [float(value) for value in square.mean(1)],
        "of_bias": [float(((row.mean(0)) ** 2).sum()) for row in estimates],
        "law": law(target, sampler) - float(exact[0, 0]) if job["size"] == 1 else None,
        "seconds": seconds,
        "variance": float(np.trace(exact)) / job["size"],
    }


def slope(points: list[tuple[float, float]]) -> float:
    """Return the slope of log |y| against log x, by least squares."""
    x, y = np.log(np.abs(np.array(points))).T
    return float(np.polyfit(x, y, 1)[0])


def table(records: list[Record]) -> list[dict[str, Any]]:
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
                mse=slope(least(records, method)),
                paper=PAPER["rate", method],
            )
        )
    return rows


def _row(what: str, **values: Any) -> dict[str, Any]:
    empty = dict.fromkeys(("d", "gamma", "bias", "law", "mse", "paper"))
    return {"figure": what, **empty, **values}


def least(records: list[Record], method: str) -> list[tuple[float, float]]:
    """Return, for each number of kept steps, the least MSE over the step sizes."""
    own = [n for job, n in records if (job["figure"], job["method"]) == ("step", method)]
    return [(float(k), min(n["mse"][i] for n in own)) for i, k in enumerate(own[0]["kept"])]


def figure(records: list[Record]) -> Any:
    """Draw figures 1 (b), 2 and 4, and the least MSE against the length of the run."""
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(11, 6.5), layout="constrained")
    panels = drawing.subplots(2, 3).ravel()
    lines: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        lines.setdefault((record.job["figure"], record.job["method"]), []).append(record)
    for (name, method), own in lines.items():
        gammas = [job["gamma"] for job, _ in own]
        bias = [abs(n["bias"][-1]) for _, n in own]
        error = [n["error"][-1] for _, n in own]
        mse = [n["mse"][-1] for _, n in own]
        if name == "dimension":
            panels[2].semilogy([job["size"] for job, _ in own], mse, marker=".", label=method)
        elif name == "slope":
            (line,) = panels[5].loglog(gammas, [abs(n["law"]) for _, n in own], label=method)
            panels[5].errorbar(gammas, bias, error, color=line.get_color(), fmt=".")
        else:
            first = 0 if name == "step" else 3
            panels[first].errorbar(gammas, bias, error, marker=".", label=method)
            panels[first + 1].loglog(gammas, mse, marker=".", label=method)
            panels[first].set(xscale="log", yscale="log")
    titles = (
        ("step size", "|bias| of the variance"),
        ("step size", "MSE of the variance"),
        ("dimension", "MSE of the covariance"),
        ("step size", "|bias|, with momenta"),
        ("step size", "MSE, with momenta"),
        ("step size", "|bias| at stationarity; lines: exact"),
    )
    for panel, (x, y) in zip(panels, titles, strict=True):
        panel.set(xlabel=x, ylabel=y)
        if panel.has_data():
            panel.legend()
    return drawing


EXPERIMENT = Experiment(
    name="richardson",
    paper="Durmus et al., Richardson-Romberg (NIPS 2016), figures 1-4",
    minutes=(0.1, 2.5),
    jobs=jobs,
    work=work,
    table=table,
    figure=figure,
)
