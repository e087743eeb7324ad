r"""Tests of whether a sampler samples its target: laws that hold for correct samplers only.

- *One step.* Chains drawn from the target take a step. An exact sampler leaves their law unchanged.
- *Order of the bias.* Long runs at the step sizes h, h/2 and h/4 must have a bias of moments that
  falls as promised, :math:`O(h^r)`; a sampler that is exact has none in a single run.
- *Limit of the bias.* The bias, extrapolated to h = 0, must be zero. This test also finds errors
  that are smaller than the bias of the discretisation, such as noise that is a little too hot.
- *Discretised law.* At one h the moments must be those of the sampler's own law, if it is known.
- *Geweke's joint test.* Theta is drawn from the prior, data given theta; the sampler moves theta
  given the data; then theta still has the prior's law. This test also finds a wrong gradient.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import inf, log, sqrt
from typing import Any, NamedTuple

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.inference.protocols import Sampler
from alphamf.inference.random import generator
from alphamf.inference.ranges import POSITIVE, check_range
from alphamf.tools import extras
from alphamf.tools.arrays import Array

CHAINS = 20_000
"""Number of chains in a one-step test: enough to find a variance that is wrong by 4 %."""

P_LEAST = 1e-4
"""A statistical test fails below this p-value."""

Z_MOST = 4.0
"""A statistical test fails above this |z|."""

REFERENCE = 400_000
"""Number of exact draws from which the target's own moments are computed."""

CORRELATION_MOST = 0.3
"""Limit of the correlation of a run's end with its start; a run that reaches it is too short."""

HALVINGS = (1, 2, 4)
"""Divisors of the step size, one per run; its number of steps is multiplied by the same number."""

TO_ZERO = ((1 / 3, -2.0, 8 / 3), (0.0, -1.0, 2.0))
"""Weights of the runs of `HALVINGS` in the bias extrapolated to h = 0: if the bias has a linear and
a quadratic term in h, and if it has a linear one alone."""

CERTAIN = 1.65
"""A bias of `Z_MOST` plus this many standard errors is found in 95 of 100 checks."""

SEEN_MOST = 1.0
"""A check fails if it could miss a bias of this size, which is that of a doubled variance."""


def whiten(sample: Array, mean: Array, covariance: Array) -> Array:
    """Return draws (n, D) in coordinates in which N(mean, covariance) is standard normal."""
    centred = sample.astype(np.float64) - mean
    return np.linalg.solve(np.linalg.cholesky(covariance).astype(np.float64), centred.T).T


class Finding(NamedTuple):
    """Result of testing a sampler on one law."""

    law: str
    passed: bool
    sentence: str  # what was measured, and what it must be


class Bias(NamedTuple):
    """Bias of whitened moments in long runs at one step size."""

    step_size: float
    # bias: means, second moments and the mean of the variances, minus the target's; 0.05 is five
    # percent of a standard deviation or variance. error: their K standard errors. Shapes (K,).
    bias: Array
    error: Array
    correlation: float  # Largest correlation of a coordinate's last value with its first


@dataclass(frozen=True)
class Report:
    """Verdict on a sampler.

    Attributes
    ----------
    sampler
        The sampler's repr.
    findings
        Result of each test.
    biases
        Bias at each step size, the largest size first; empty if there was only Geweke's test.

    Examples
    --------
    >>> report = Report("mine", (Finding("one step", True, "|z| is 1.2, at most 4"),), ())
    >>> print(report)
    mine: passed
      one step: |z| is 1.2, at most 4
    """

    sampler: str
    findings: tuple[Finding, ...]
    biases: tuple[Bias, ...]

    @property
    def passed(self) -> bool:
        """Whether the sampler passed all tests."""
        return all(finding.passed for finding in self.findings)

    def __str__(self) -> str:
        lines = [f"{self.sampler}: {'passed' if self.passed else 'FAILED'}"]
        for law, passed, sentence in self.findings:
            lines.append(f"  {law}: {'' if passed else 'FAILED, '}{sentence}")
        return "\n".join(lines)

    def figure(self) -> Any:
        """Return a Matplotlib figure of the worst moment's bias; needs Matplotlib and `biases`."""
        if not self.biases:
            raise AlphaMFError("there is no figure without the order of the bias")
        Figure = extras.load_library("matplotlib.figure").Figure

        worst = _worst(self.biases[0])
        sizes = np.array([each.step_size for each in self.biases])
        values = np.array([abs(each.bias[worst]) for each in self.biases])
        errors = [each.error[worst] for each in self.biases]
        drawing = Figure(figsize=(5, 3.5), layout="constrained")
        panel = drawing.subplots()
        panel.errorbar(sizes, values, errors, marker="o", linestyle="", label="measured")
        for order, style in ((1, "--"), (2, ":")):
            panel.plot(
                sizes, values[0] * (sizes / sizes[0]) ** order, style, label=f"order {order}"
            )
        panel.set(xscale="log", yscale="log", xlabel="step size", ylabel="bias of a moment")
        panel.set_title(f"{self.sampler[:50]}: {'passed' if self.passed else 'failed'}")
        panel.legend()
        return drawing


def check(
    sampler: Sampler[Any],
    target: Any,
    *,
    order: float = 1.0,
    law: tuple[Array, Array] | None = None,
    steps: int = 200,
    chains: int = 4000,
    seed: int = 0,
) -> Report:
    """Test whether a sampler samples a target whose law is known.

    Parameters
    ----------
    sampler
        Sampler with a constant step size; `Kernel` wraps the kernels of other libraries.
    target
        Target that also has ``exact(rng, count)``, exact draws of shape (count, D) with a small D,
        or ``joint(rng, chains)`` for Geweke's test, or both. ``joint`` draws theta, shape
        (chains, D), from the prior and data for each, and returns the target of these data and
        theta.
    order
        r of the promised bias, O(h^r); ``math.inf``: no bias, as with a Metropolis test. Half an
        order less still passes.
    law
        Mean and covariance of the sampler's own law of theta at its step size, shapes (D,) and
        (D, D). Tested only if the target has ``exact``; None: not tested.
    steps
        Number of steps at the full step size h; twice and four times as many at h/2 and h/4. The
        second half counts, or, in Geweke's test, the last step. Give enough to forget the start.
    chains
        Number of chains, except in the one-step test; the errors fall with its square root.
    seed
        Seed of the random streams.

    Returns
    -------
    Report
        Its ``passed`` is the verdict, ``print`` shows the numbers, and ``figure`` draws them.

    Raises
    ------
    AlphaMFError
        The target has no exact or joint draws, the step size is a schedule, or a number is too low.

    References
    ----------
    Geweke, JASA 99 (2004), for the joint test.

    Examples
    --------
    >>> from alphamf.inference.samplers.langevin import PSGLD, SGLD
    >>> from alphamf.inference.targets.gaussian import LinearGaussian
    >>> target = LinearGaussian(np.eye(2), np.ones(2), 1.0)
    >>> check(SGLD(0.2), target).passed
    True
    >>> check(PSGLD(0.05, damping=0.3), target).passed  # another law at any step size
    False
    """
    check_range("order", order, POSITIVE)
    if steps < 2 or chains < 100:
        raise AlphaMFError(
            f"steps must be at least 2 and chains at least 100, not {steps} and {chains}"
        )
    if not (hasattr(target, "exact") or hasattr(target, "joint")):
        raise AlphaMFError(
            "check needs a target with exact(rng, count) or joint(rng, chains), "
            f"which {type(target).__name__} does not have"
        )
    findings: list[Finding] = []
    biases: tuple[Bias, ...] = ()
    with np.errstate(all="ignore"):  # a diverged chain is found below
        if hasattr(target, "exact"):
            if order == inf:
                findings.append(_one_step(sampler, target, seed))
            parts = HALVINGS[:1] if order == inf else HALVINGS
            biases, shared = _biases(sampler, target, parts, steps, chains, seed)
            if all(np.isfinite(each.bias).all() for each in biases):
                findings.append(_forgotten(biases))
                if order < inf:
                    findings.append(_order(biases, order))
                findings.append(_limit(biases, shared))
            else:
                findings.append(Finding("stable", False, "diverged; take a smaller step_size"))
            if law is not None:
                findings.append(_own_law(sampler, target, law, steps, chains, seed))
        if hasattr(target, "joint"):
            findings.append(_joint(sampler, target, steps, chains, seed))
    return Report(repr(sampler), tuple(findings), biases)


def _moments(white: Array) -> Array:
    """Return the moments that `Bias` names, of whitened positions (n, D): shape (n, K).

    The mean of the variances is the surest sign of a wrong temperature.
    """
    rows, columns = np.tril_indices(white.shape[-1])
    second = white[:, rows] * white[:, columns] - (rows == columns)
    return np.concatenate([white, second, (white**2).mean(-1, keepdims=True) - 1], -1)


def _whitening(mean: Array, covariance: Array) -> Callable[[Array], Array]:
    """Return the map to coordinates in which a law of these moments has mean 0, covariance I."""
    return partial(whiten, mean=mean, covariance=np.atleast_2d(covariance))


def _compared(before: Array, after: Array, fresh: Array) -> tuple[float, float]:
    """Return the largest |z| of the moments' change, and the least p of `after` against `fresh`."""
    from scipy.stats import ks_2samp

    if not np.isfinite(after).all():
        return inf, 0.0
    white = _whitening(fresh.mean(0), np.cov(fresh.T))
    moved = _moments(white(after)) - _moments(white(before))
    spread = moved.std(0) / sqrt(len(moved))
    z = np.abs(moved.mean(0)) / np.maximum(spread, np.finfo(float).tiny)
    pairs = zip(after.T, fresh.T, strict=True)
    return float(z.max()), float(min(ks_2samp(one, two).pvalue for one, two in pairs))


def _same_law(name: str, z: float, p: float) -> Finding:
    sentence = f"|z| is {z:.1f}, at most {Z_MOST:g}; p is {p:.2g}, at least {P_LEAST:g}"
    return Finding(name, z < Z_MOST and p > P_LEAST, sentence)


def _one_step(sampler: Sampler[Any], target: Any, seed: int) -> Finding:
    rng = generator(seed, 0)
    start, fresh = target.exact(rng, CHAINS), target.exact(rng, CHAINS)
    state = sampler.step(rng, sampler.init(rng, start.copy()), target)
    return _same_law("one step", *_compared(start, state.theta, fresh))


def _joint(sampler: Sampler[Any], model: Any, steps: int, chains: int, seed: int) -> Finding:
    rng = generator(seed, 3)
    _, fresh = model.joint(rng, chains)
    target, start = model.joint(rng, chains)
    state = sampler.init(rng, start.copy())
    for _ in range(steps):
        state = sampler.step(rng, state, target)
    if (state.theta == start).all(0).any():
        return Finding("Geweke", False, "a coordinate of theta has not moved")
    return _same_law("Geweke", *_compared(start, state.theta, fresh))


def _long_run(
    sampler: Sampler[Any],
    target: Any,
    white: Callable[[Array], Array],
    start: Array,
    steps: int,
    rng: Any,
    every: int = 1,
) -> tuple[Array, float]:
    """Return chains' mean moments in the second half, and the largest start-to-end correlation."""
    state = sampler.init(rng, start.copy())
    total: Any = 0.0
    for step in range(steps):
        state = sampler.step(rng, state, target)
        if step >= steps // 2 and step % every == 0:
            total = total + _moments(white(state.theta))
    ends = white(state.theta)
    pairs = zip(white(start).T, ends.T, strict=True)
    correlation = max(float(np.corrcoef(one, two)[0, 1]) for one, two in pairs)
    means: Array = total / len(range(steps // 2, steps, every))
    return means, correlation


def _biases(
    sampler: Any, target: Any, parts: tuple[int, ...], steps: int, chains: int, seed: int
) -> tuple[tuple[Bias, ...], Array]:
    """Return the biases, and the standard error that they share: that of the target's moments."""
    size = sampler.step_size
    if callable(size):
        raise AlphaMFError("check needs a sampler with a constant step_size, not a schedule")
    known = target.exact(generator(seed, 1), REFERENCE)
    white = _whitening(known.mean(0), np.cov(known.T))
    exact = _moments(white(known))
    shared = exact.std(0) / sqrt(len(exact))
    found = []
    for part in parts:
        rng = generator(seed, 2, part)
        start = target.exact(rng, chains)
        smaller = replace(sampler, step_size=size / part)
        means, correlation = _long_run(smaller, target, white, start, steps * part, rng, part)
        error = np.hypot(means.std(0) / sqrt(chains), shared)
        found.append(Bias(size / part, means.mean(0) - exact.mean(0), error, correlation))
    return tuple(found), shared


def _worst(bias: Bias) -> int:
    return int(np.argmax(np.abs(bias.bias) / bias.error))


def _forgotten(biases: tuple[Bias, ...]) -> Finding:
    most = max(biases, key=lambda each: each.correlation)
    right = most.correlation < CORRELATION_MOST  # a NaN is not below it either
    sentence = (
        f"a correlation of {most.correlation:.2f} is left at the step size {most.step_size:.3g}, "
        f"at most {CORRELATION_MOST}"
    )
    return Finding("forgets its start", right, sentence + ("" if right else "; take more steps"))


def _order(biases: tuple[Bias, ...], order: float) -> Finding:
    """Test whether the bias falls with the step size with an order of at least `order` - 1/2."""
    first, last = biases[0], biases[-1]
    share = (last.step_size / first.step_size) ** (order - 0.5)
    excess = np.abs(last.bias) - share * np.abs(first.bias)
    z = excess / np.hypot(last.error, share * first.error)
    passed = bool((z < Z_MOST).all())
    return Finding(
        "order of the bias",
        passed,
        f"{_measured(first, last)}, {order:g} promised; {_sizes(biases)}",
    )


def _limit(biases: tuple[Bias, ...], shared: Array) -> Finding:
    """Test whether the bias extrapolated to h = 0 is zero; report which bias would be found.

    The error of the extrapolation is taken as its quadratic term times the largest bias of the
    first run. An exact sampler has a single run, which is not extrapolated.
    """
    exact = len(biases) == 1
    weights, linear = ((1.0,), (1.0,)) if exact else TO_ZERO
    runs = np.array([each.bias for each in biases])
    bias = np.tensordot(weights, runs, 1)
    left = np.abs(bias - np.tensordot(linear, runs, 1)) * np.abs(runs[0]).max()
    own = np.array([each.error for each in biases]) ** 2 - shared**2
    error = np.sqrt(np.tensordot(np.square(weights), own, 1) + shared**2)
    z = np.maximum(np.abs(bias) - left, 0) / error
    worst, seen = int(z.argmax()), (Z_MOST + CERTAIN) * error + left
    passed, sees = bool(z[worst] < Z_MOST), bool(seen.max() < SEEN_MOST)
    sentence = (
        f"{100 * bias[worst]:+.2f} ± {100 * error[worst]:.2f} % at "
        f"{f'{biases[0].step_size:.3g}' if exact else 'h = 0'}, |z| is {z[worst]:.1f}, at most "
        f"{Z_MOST:g}; would have been seen: {100 * seen.max():.1f} % in any moment, "
        f"{100 * seen[-1]:.1f} % in all variances"
    )
    name = "no bias" if exact else "limit of the bias"
    return Finding(name, passed and sees, sentence + ("" if sees else "; take more chains"))


def _measured(first: Bias, last: Bias) -> str:
    """Return a phrase on the measured order of the worst moment's bias and its standard error."""
    worst = _worst(first)
    if abs(first.bias[worst]) < Z_MOST * first.error[worst]:
        return "no bias to be seen"
    scale = log(first.step_size / last.step_size)
    big, small = abs(first.bias[worst]), abs(last.bias[worst])
    error = sqrt((first.error[worst] / big) ** 2 + (last.error[worst] / small) ** 2) / scale
    measured = log(big / small) / scale
    return (
        f"{measured:.2f} ± {error:.2f} measured" if error < 1 else "too small a bias to measure it"
    )


def _sizes(biases: tuple[Bias, ...]) -> str:
    worst = _worst(biases[0])
    parts = [
        f"{100 * each.bias[worst]:+.2f} ± {100 * each.error[worst]:.2f} % at {each.step_size:.3g}"
        for each in biases
    ]
    return "bias " + ", ".join(parts)


def _own_law(
    sampler: Any, target: Any, law: tuple[Array, Array], steps: int, chains: int, seed: int
) -> Finding:
    rng = generator(seed, 4)
    white = _whitening(*law)
    means, _ = _long_run(sampler, target, white, target.exact(rng, chains), steps, rng)
    z = np.abs(means.mean(0)) / (means.std(0) / sqrt(chains))
    most = float(z.max())
    return Finding("discretised law", most < Z_MOST, f"|z| is {most:.1f}, at most {Z_MOST:g}")
