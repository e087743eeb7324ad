r"""``richardson``: the bias of SGLD and SGHMC, and its reduction by extrapolation.

Durmus et al. (NIPS 2016), section 5.1 and figures 1 to 4, on the model

.. math:: \theta \sim \mathcal{N}(0, 10 I), \qquad a_n \sim \mathcal{N}(0, I / 2), \qquad
   x_n \mid \theta \sim \mathcal{N}(a_n^\top \theta, 1), \qquad n = 1, \dots, 1000.

`LinearGaussian` has a prior of variance one, so it is given :math:`\phi = \theta / \sqrt{10}`. SGLD
in theta with step gamma is SGLD in phi with gamma / 10; SGHMC with step h and friction A is SGHMC
in phi with :math:`h / \sqrt{10}` and :math:`\sqrt{10} A`. Their SGLD moves by
:math:`-\gamma \nabla U + \sqrt{2 \gamma} Z`, as ours does.

Figures "step", "dimension" and "momentum" are of the variance that a chain of the paper's length
estimates, over 100 runs from random starts: 21 000 steps, or 10 500 of two chains, less 1000 or 500
of burn-in. At small steps the bias is that of the start, and of a run that is too short. "slope"
starts at the posterior and takes second moments about the true mean, so that only the
step's bias remains. Figure 1 (a) shows the first run of "step" at gamma = 1e-3; the bias in time is
that of all these runs, cut at several lengths. Figure 3 (``richardson-rate``) takes an hour: in its
place are the runs of "step", cut at these lengths, each with the step size of least mean square
error.
"""

import time
from typing import Any

import numpy as np

from alphamf.inference.chain import run
from alphamf.inference.random import generator
from alphamf.inference.records import terms_of
from alphamf.inference.samplers.langevin import SGLD
from alphamf.inference.samplers.richardson import SGRRHMC, SGRRLD
from alphamf.inference.samplers.sghmc import SGHMC
from alphamf.inference.targets.gaussian import LinearGaussian
from alphamf.research.experiments.base import Job, JobRecord, Numbers, blank_panels, in_numpy
from alphamf.tools.arrays import Array

PRIOR_VARIANCE = 10.0
SCALE = float(np.sqrt(PRIOR_VARIANCE))
DATA = 1000

FRICTION = 20.0
"""Friction A of SGHMC, not printed in the main text: about the posterior's frequency, 500^(1/2)."""


def model(size: int, seed: int = 0, batch: int | None = DATA // 10) -> LinearGaussian:
    """Return the posterior of phi, with data drawn from the model."""
    rng = generator(seed, 100 + size)
    a = np.sqrt(0.5) * rng.standard_normal((DATA, size))
    theta = SCALE * rng.standard_normal(size)
    x = a @ theta + rng.standard_normal(DATA)
    return LinearGaussian(SCALE * a, x, 1.0, batch=batch)


def sampler_of(method: str, gamma: float) -> Any:
    """Return a sampler of phi, given the step size in theta."""
    if method == "SGLD":
        return SGLD(gamma / PRIOR_VARIANCE)
    if method == "SGRRLD":
        return SGRRLD(gamma / PRIOR_VARIANCE)
    if method == "SGRRHMC":
        return SGRRHMC(gamma / SCALE, SCALE * FRICTION)
    integrator: Any = "splitting" if method == "SGHMC-s" else "euler"
    return SGHMC(gamma / SCALE, 1, SCALE * FRICTION, integrator=integrator)


def law(target: LinearGaussian, sampler: Any) -> float:
    r"""Return the stationary variance of theta around the posterior mean; for one dimension only.

    With :math:`e = \phi - \mu` (posterior mean :math:`\mu`), normal :math:`\xi`, and a minibatch's
    :math:`\nabla \tilde U = \tilde P e + \tilde g`, a step is :math:`z' = T z + u \tilde g + v \xi`
    with :math:`T = T_0 + \tilde P T_1`, and the second moments S of z solve

    .. math:: S = \mathrm{E}[T S T^\top] + \mathrm{Var}(\tilde g)\, u u^\top + v v^\top.

    Here z is e, or (e, p) with momenta; z has mean zero, so there is no cross term. For the pairs
    of chains the result is twice the variance at half the step, less the variance at the step.
    """
    h = float(sampler.step_size)
    if isinstance(sampler, SGRRLD):
        return 2 * law(target, SGLD(h / 2)) - law(target, SGLD(h))
    if isinstance(sampler, SGRRHMC):
        fine, coarse = SGHMC(h / 2, 1, sampler.friction), SGHMC(h, 1, sampler.friction)
        return 2 * law(target, fine) - law(target, coarse)
    if isinstance(sampler, SGLD):
        t0, t1, u, v = (np.array([[c]]) for c in (1.0, -h, h, np.sqrt(2 * h)))
    else:
        t0, t1, u, v = _momentum(sampler, h)
    a, x = target.a[:, 0], target.x
    if target.batch is None:
        spread, heat = 0.0, 0.0
    else:
        # Minibatches are B draws with replacement: these are variances of their sums times N / B.
        most = len(x) ** 2 / target.batch
        spread = most * float((a * a).var()) / target.variance**2
        heat = most * float((a * (a * target.mean[0] - x)).var()) / target.variance**2
    t = t0 + float(target.precision[0, 0]) * t1
    step = np.kron(t, t) + spread * np.kron(t1, t1)
    noises = heat * u @ u.T + v @ v.T
    moments = np.linalg.solve(np.eye(len(step)) - step, noises.ravel())
    return PRIOR_VARIANCE * float(moments[0])


def _momentum(sampler: SGHMC, h: float) -> tuple[Array, Array, Array, Array]:
    """Return T_0, T_1, u and v of `law` for one leap of SGHMC, with z = (e, p)."""
    if sampler.integrator == "splitting":
        drift = np.array([[1, h / 2], [0, 1]])
        before, after, decay = drift, drift, np.exp(-h * sampler.friction / 2)
        keep, gain = decay * decay, decay
    else:
        before, after = np.eye(2), np.array([[1, h], [0, 1]])
        keep, gain = 1 - h * sampler.friction, 1.0
    t0 = after @ np.diag([1, keep]) @ before
    t1 = after @ np.array([[0, 0], [-h * gain, 0]]) @ before
    kick = after @ np.array([[0], [gain]])
    return t0, t1, h * kick, np.sqrt(2 * h * sampler.friction) * kick


STEPS, BURN_IN = 21_000, 1000
GAMMA = 1e-3
RUNS = 100
PAIRS = ("SGRRLD", "SGRRHMC")


def jobs(full: bool, seed: int) -> list[Job]:
    """List one job per point of a figure."""
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


@in_numpy()
def work(job: Job) -> Numbers:
    """Run chains of one method side by side, and compare covariances with the posterior's."""
    target = model(job["size"])
    sampler = sampler_of(job["method"], job["gamma"])
    rng = generator(job["seed"], 0)
    start = target.start(rng, (job["chains"],))
    if job["figure"] == "slope":
        root = np.linalg.cholesky(target.covariance)
        start = target.mean + start @ root.T
    record = ErrorMoments(target, job["burn_in"], job["steps"])
    begin = time.process_time()
    states = run(target, sampler, steps=job["steps"], seed=job["seed"], start=start, record=record)
    for _ in states:
        pass
    seconds = time.process_time() - begin
    exact = PRIOR_VARIANCE * target.covariance
    estimates = np.stack(record.covariances) - exact
    if job["figure"] == "slope":
        estimates = (PRIOR_VARIANCE * record.second / record.count - exact)[None]
    # The mean and variance of theta in the first run, for figure 1 (a).
    mean = SCALE * (target.mean + np.asarray(record.first)[0] / record.count)
    variance = float(np.trace(record.covariances[-1][0])) / job["size"]
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
        "found": [float(mean[0]), variance],
        "truth": [SCALE * float(target.mean[0]), float(np.trace(exact)) / job["size"]],
    }


class ErrorMoments:
    """A record of sums of e = phi - E[phi] and of e e' by chain, extrapolated for pairs of chains.

    `covariances`: of theta, one per number of kept steps in `steps`, shape (*chains, D, D).
    """

    def __init__(self, target: Any, burn_in: int, steps: int) -> None:
        self.target: Any = target
        self.burn_in: int = burn_in
        self.steps: list[int] = sorted({(steps - burn_in) >> k for k in range(6)} - {0})
        self.count: int = 0
        self.first: Any = 0.0
        self.second: Any = 0.0
        self.covariances: list[Array] = []

    def add(self, state: Any, target: Any) -> None:
        """Add a state to the moments, unless it belongs to the burn-in."""
        if state.step <= self.burn_in:
            return
        self.count += 1
        for sign, phi in terms_of(state) if hasattr(state, "coarse") else [(1.0, state.theta)]:
            e = phi - self.target.mean
            self.first = self.first + sign * e
            self.second = self.second + sign * e[..., :, None] * e[..., None, :]
        if self.count in self.steps:
            self.covariances.append(self.covariance())

    def arrays(self) -> dict[str, Array]:
        """Return an empty dict, because no checkpoint is written."""
        return {}

    def load(self, arrays: dict[str, Array]) -> None:
        """Do nothing, because there is no checkpoint."""

    def covariance(self) -> Array:
        """Return theta's covariance around the mean of each chain, shape (*chains, D, D)."""
        mean = self.first / self.count
        own = self.second / self.count - mean[..., :, None] * mean[..., None, :]
        return PRIOR_VARIANCE * own


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
    """Return pairs: a number of kept steps, and the lowest MSE over the step sizes."""
    own = [n for job, n in records if (job["figure"], job["method"]) == ("step", method)]
    return [(float(k), min(n["mse"][i] for n in own)) for i, k in enumerate(own[0]["kept"])]


def figure(records: list[JobRecord]) -> Any:
    """Draw figures 1, 2 and 4, the lowest MSE against the run's length, and stationary biases."""
    drawing, grid = blank_panels(12, 10, 3, 3)
    panels = grid.ravel()
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
    """Return the record of the figure "step" with the largest step size of a method."""
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
