r"""Tables 1 to 3 of the Monte Carlo EM paper: a normal distribution, and logistic regressions.

*RMSE.* It is not defined in the paper. Here it is the root mean square of (draw - true value) over
all kept draws, which reproduces the printed value of SGHMC (docs/experiments/searches.md). Exact
draws have an RMSE of at least the posterior's width, so the printed RMSE of HMC-EM and RHMC is
another quantity; the first row is the RMSE of exact draws.

*Steps.* Theta is (mu, log tau) in the normal law. A leap of the paper's HMC moves theta by
half the step, a misprint (see ``HMC``): steps are those of the usual leapfrog.
"""

from math import log10
from typing import Any

import numpy as np

from alphamf.inference import diagnostics
from alphamf.inference.chain import run
from alphamf.inference.random import generator
from alphamf.inference.records import Trace
from alphamf.inference.targets.logistic import LogisticRegression
from alphamf.inference.targets.normal_wishart import NormalWishart
from alphamf.research import corpora
from alphamf.research.experiments.base import (
    Job,
    JobRecord,
    Numbers,
    blank_panels,
    format_spread,
    seconds_per_step,
)
from alphamf.research.experiments.mass_em import methods
from alphamf.tools.arrays import Array

NORMAL: dict[str, dict[str, Any]] = {
    "HMC": {"step_size": 1e-2},
    "RHMC": {"step_size": 0.1, "fixed_points": 1},
    "SGHMC": {"step_size": 1e-2, "friction": 10.0},
    "SG-NPHMC": {"step_size": 1e-4},
    "SGR-NPHMC": {"step_size": 0.1, "fixed_points": 1, "thermostat_friction": 0.01},
    "SGNHT": {"step_size": 1e-4, "diffusion": 1.0},
}
"""Settings; the paper prints HMC's step, A (friction, diffusion), and one fixed-point iteration.

For the other steps h see docs/experiments/searches.md. SGNHT's friction becomes A + h V / 2, with V
the variance of the gradient's noise; h times this must be below 2, which excludes h = 1e-2. In
RHMC and SGR-NPHMC a step of 0.1 is a tenth of the posterior's width.
"""

LOGISTIC: dict[str, dict[str, Any]] = {
    "HMC": {"step_size": 1e-2},
    "RHMC": {"step_size": 0.1, "fixed_points": 2},
    "SGHMC": {"step_size": 1e-2, "friction": 1.0},
    "SG-NPHMC": {"step_size": 1e-2},
    "SGR-NPHMC": {"step_size": 0.1, "fixed_points": 2, "thermostat_friction": 0.01},
    "SGNHT": {"step_size": 1e-2, "diffusion": 1.0},
}
"""Settings on the paper's grids (steps 1e-6 to 1e-2, noise terms .001 to 10), but for steps 0.1."""

SAMPLES = {"SG-NPHMC": 200}
"""Initial steps per adaptation (S_count) if not 300; printed for table 2, used for table 1, too."""

LEAPS, BATCH = 10, 100

TRUE = {"normal-1d": (0.0, 1.0), "logistic-2d": (1.0, -1.0)}
"""True values: mu and tau, and the weights."""


def normal_jobs(full: bool, seed: int) -> list[Job]:
    """List one job per method, which runs several chains and measures the time of one chain."""
    iterations = 5000 if full else 500
    return [_job("normal-1d", method, NORMAL, seed, iterations, full) for method in methods.METHODS]


def logistic_jobs(full: bool, seed: int) -> list[Job]:
    """List one job per method and data set.

    The real data only give times, as in the paper. The Riemannian samplers, whose iterations cost
    about 20 ms, make a tenth of the iterations of the others.
    """
    jobs = []
    for method in methods.METHODS:
        dense = method in ("RHMC", "SGR-NPHMC")
        iterations = (10_000 if full else 1000) // (10 if dense else 1)
        jobs.append(_job("logistic-2d", method, LOGISTIC, seed, iterations, full))
        for data in ("australian-credit", "heart"):
            job = _job("logistic-2d", method, LOGISTIC, seed, 0, full)
            jobs.append({**job, "data": data})
    return jobs


def _job(
    experiment: str, method: str, settings: dict[str, Any], seed: int, iterations: int, full: bool
) -> Job:
    kind = methods.base_method(method)
    slow = experiment == "logistic-2d" and kind in ("RHMC", "SGR-NPHMC")
    return {
        "experiment": experiment,
        "data": "synthetic",
        "points": 5000 if experiment == "normal-1d" else 2000,
        "method": method,
        "settings": {**settings[kind], "leaps": LEAPS},
        "samples": SAMPLES.get(kind, 300),
        "batch": None if kind in ("HMC", "RHMC") else BATCH,
        "burn_in": iterations,
        "keep": iterations,
        "chains": 10 if full and experiment == "normal-1d" else 5,
        "timed": (50 if slow else 1000) if full else (10 if slow else 200),
        "seed": seed,
    }


def work(job: Job) -> Numbers:
    """Run a method, and return its errors and its times; only times if no iteration is kept."""
    target, start = _problem(job)
    numbers = times(job, target, start)
    if not job["keep"]:
        return numbers
    sampler = _sampler(job, job["method"])
    trace = Trace(_parameters, burn_in=job["burn_in"])
    for state in run(  # noqa: B007
        target,
        sampler,
        steps=job["burn_in"] + job["keep"],
        seed=job["seed"] + 1,
        start=start,
        record=trace,
    ):
        pass
    draws, true = trace.values, np.asarray(TRUE[job["experiment"]])
    mean, variance, shape = exact_moments(target)
    return {
        **numbers,
        "rmse": np.sqrt(((draws - true) ** 2).mean(0)).T.tolist(),
        "exact": np.sqrt(variance + (mean - true) ** 2).tolist(),
        "of_mean": (np.abs(draws.mean(0) - mean) / np.sqrt(variance)).mean(-1).tolist(),
        "ess": float(diagnostics.ess(draws).min()) / draws.shape[0] / draws.shape[1] * 1000,
        "condition": methods.condition(sampler, state),
        "exact_condition": shape,
        "accepted": diagnostics.acceptance(state) if hasattr(state, "accepted") else None,
    }


def times(job: Job, target: Any, start: Array) -> Numbers:
    """Return the milliseconds per iteration of a method and, if it is another, of its plain form.

    `start`: shape (chains, D).
    """
    names = list(dict.fromkeys((job["method"], methods.base_method(job["method"]))))
    samplers = [_sampler(job, name) for name in names]
    found = 1e3 * np.array(seconds_per_step(target, samplers, job["timed"], start[0]))
    return dict(zip(("milliseconds", "plain"), found.tolist(), strict=False))


def _sampler(job: Job, method: str) -> Any:
    return methods.sampler(
        method,
        job["settings"],
        samples=job["samples"],
        freeze=job["burn_in"] or job["timed"] + 10,
        dense=True,
        variance=1 / job["points"],
    )


def _problem(job: Job) -> tuple[Any, Array]:
    """Return the target, and an initial position per chain that all methods share."""
    rng, chains = generator(job["seed"], 0), (job["chains"],)
    if job["experiment"] == "normal-1d":
        target = NormalWishart(rng.standard_normal(job["points"]), batch=job["batch"])
        return target, 0.1 * rng.standard_normal((*chains, 2))
    if job["data"] == "synthetic":
        features, labels = draw_synthetic(rng, job["points"])
    else:
        with np.load(corpora.find(job["data"])) as file:
            features, labels = file["X"], file["y"]
        features = (features - features.mean(0)) / features.std(0)
    regression = LogisticRegression(features, labels, batch=job["batch"])
    return regression, regression.start(rng, chains)


def draw_synthetic(rng: Any, points: int) -> tuple[Array, Array]:
    """Draw features from two normal distributions centred at (1, -1) and (-1, 1), with labels.

    Labels are drawn with the probabilities of the model: labels without noise would be separable,
    and the posterior of the weights would not lie near (1, -1).
    """
    side = np.where(rng.random(points) < 0.5, 1.0, -1.0)
    features = rng.standard_normal((points, 2)) + side[:, None] * np.array([1.0, -1.0])
    chance = 1 / (1 + np.exp(-features @ np.array(TRUE["logistic-2d"])))
    return features, (rng.random(points) < chance).astype(float)


def _parameters(theta: Array, target: Any) -> Array:
    """Return mu and tau, or the weights, shape (*chains, 2)."""
    return np.stack(target.unpack(theta), -1) if isinstance(target, NormalWishart) else theta


def exact_moments(target: Any) -> tuple[Array, Array, float]:
    """Return the mean, the variance and the covariance's condition number of a posterior.

    They are computed in closed form, or on a grid around the mode. The condition number is that of
    theta's covariance, where theta is (mu, log tau) in the normal law.
    """
    if isinstance(target, NormalWishart):
        of_theta = target.variance / [1.0, target.mean[1] ** 2]
        return target.mean, target.variance, float(of_theta.max() / of_theta.min())
    full = LogisticRegression(target.features, target.labels, prior_variance=target.prior_variance)
    potential = full.draw(None, np.zeros(2))
    mean = np.zeros(2)
    for _ in range(20):
        mean = mean - potential.metric(mean).solve(potential.grad(mean))
    covariance = np.linalg.inv(potential.metric(mean).g)
    steps = np.linspace(-5, 5, 41)
    grid = np.stack(np.meshgrid(steps, steps), -1).reshape(-1, 2)
    points = mean + grid @ np.linalg.cholesky(covariance).T
    value = potential.value(points)
    weight = np.exp(value.min() - value)
    weight /= weight.sum()
    mean = weight @ points
    covariance = np.cov(points.T, aweights=weight, ddof=0)
    return mean, covariance.diagonal(), float(np.linalg.cond(covariance))


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
"""The paper's RMSE of both parameters, and milliseconds per iteration on each data set."""

EXACT = "posterior"
"""Name of the table's first row, which is computed from the moments of the posterior."""


NAMES = {"normal-1d": ("mu", "tau"), "logistic-2d": ("W0", "W1")}
SYMBOLS = {"normal-1d": (r"$\mu$", r"$\tau$"), "logistic-2d": ("$W_0$", "$W_1$")}
"""Names of the parameters in tables, and their symbols in figures."""


def table(records: list[JobRecord]) -> list[dict[str, Any]]:
    """Return table 1, or tables 2 and 3 as one table."""
    times: dict[str, dict[str, Any]] = {}
    for job, result in records:
        times.setdefault(job["data"], {})[job["method"]] = result
    experiment = records[0].job["experiment"]
    found = {job["method"]: n for job, n in records if "rmse" in n}
    first = next(iter(found.values()))
    rows = []
    for method in (EXACT, *found):
        paper = PAPER[experiment].get(method)
        numbers: Numbers = found.get(method, {})
        row: dict[str, Any] = {"method": method}
        for i, name in enumerate(NAMES[experiment]):
            own = first["exact"][i] if method == EXACT else format_spread(numbers["rmse"][i])
            row[f"RMSE {name}"] = own
            row[f"paper {name}"] = paper[i] if paper else None
        row["error of mean (sd)"] = format_spread(numbers.get("of_mean"), 2)
        row["ESS per 1000"] = f"{numbers['ess']:.0f}" if numbers else None
        row["condition of M"] = (
            first["exact_condition"] if method == EXACT else numbers["condition"]
        )
        for i, (name, known) in enumerate(times.items()):
            suffix = "" if name == "synthetic" else f" {name}"
            taken = known.get(method, {})
            row[f"ms{suffix}"] = format_spread(taken.get("milliseconds"))
            row[f"paper ms{suffix}"] = paper[2 + i] if paper else None
            row[f"ratio{suffix}"] = methods.ratio(taken.get("milliseconds"), taken.get("plain"))
        rows.append(row)
    return rows


def figure(records: list[JobRecord]) -> Any:
    """Draw the RMSE of each method beside the paper's."""
    experiment = records[0].job["experiment"]
    found = {job["method"]: n for job, n in records if "rmse" in n}
    drawing, axes = blank_panels(9, 4.2, 1, 2, sharey=True)
    places = np.arange(len(found))
    for i, (axis, name) in enumerate(zip(axes, SYMBOLS[experiment], strict=True)):
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
    return drawing
