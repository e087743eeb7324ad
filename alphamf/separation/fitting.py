"""Chains and draws of the posterior of one alpha-stable factorization, V ~ W H."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from alphamf.denoising.settings import kernel
from alphamf.errors import AlphaMFError
from alphamf.factorization.alpha_mf import AlphaMFTarget, Source
from alphamf.factorization.cells import TINY
from alphamf.factorization.stable import ALPHAS
from alphamf.inference.chain import run
from alphamf.inference.diagnostics import LEAST, Summary, summarise
from alphamf.inference.protocols import Sampler
from alphamf.inference.random import START, Key, generator
from alphamf.inference.samplers.sgrld import EM
from alphamf.tools.arrays import Array, namespace, to_host

WARM_UP = 50
"""Steps of EM before those of another sampler."""

RELAXED = 1.6
"""Relaxation of EM where its point is a start only, or is averaged."""

ALPHA_ROUNDS, ALPHA_STEPS = 12, 100
"""Number of rounds that estimate alpha, and steps of EM in each."""

CELLS = 500
"""Maximum number of cells whose R-hat and effective sample size are computed."""


class Plan(NamedTuple):
    """How a posterior is sampled."""

    sampler: str | Sampler[Any]  # Its name, or one with step sizes of one's own
    # steps, draws: steps of each chain, of which the first third is dropped, and kept ones.
    steps: int
    draws: int
    chains: int
    seed: int


class Draws(NamedTuple):
    """Draws of both factors, (draws, chains, samples, n_components) and (..., features)."""

    activations: Array
    components: Array


def em_steps(
    target: AlphaMFTarget,
    steps: int,
    plan: Plan,
    start: Array | None = None,
    *,
    number: int = 0,
    relaxation: float = 1.0,
) -> Iterator[Array]:
    """Yield theta after each step of EM, which moves W, then H; a fixed W stays.

    With W and H in turn, EM for alpha = 2 is the multiplicative update of Itakura-Saito NMF.
    `number`: of the random stream. `relaxation`: of `EM`; above one, it is faster.
    """
    key = Key.WARM_UP + number  # the streams of a sampler's chain are others
    drawn = target.start(generator(plan.seed, key, START, xp=target.xp), (plan.chains,))
    ((basis, gains),) = target.layout
    # W moves while H is still, and the other way round; exponents are those of one factor alone.
    turns = [()] if basis is None else [(gains,), (basis,)]
    states = run(
        target,
        EM(relaxation),
        steps=steps * len(turns),
        seed=plan.seed,
        chain=key,
        start=drawn if start is None else start,
    )
    whole = target.exponent.copy()
    try:
        for k in range(steps * len(turns)):
            target.still = turns[k % len(turns)]
            target.exponent[...] = len(turns) * whole
            for block in target.still:
                target.exponent[block] = 0
            state = next(states)
            if (k + 1) % len(turns) == 0:
                yield state.theta
    finally:
        target.still, target.exponent[...] = (), whole


def sample_theta(target: AlphaMFTarget, plan: Plan, start: Array | None = None) -> list[Array]:
    """Return the kept draws of theta, shape (chains, D) each; of EM, the last steps.

    Without Phi, at alpha = 2, EM converges to a point, and its last step alone is kept.
    """
    if plan.sampler == "em":
        kept = 1 if target.sources[0].alpha == 2 else plan.draws
        return list(deque(em_steps(target, plan.steps, plan, start), maxlen=kept))
    for theta in em_steps(target, WARM_UP, plan, start, relaxation=RELAXED):
        start = theta
    apart = max(1, 2 * plan.steps // 3 // plan.draws)
    first = plan.steps - apart * plan.draws
    states = run(target, _sampler(plan, target), steps=plan.steps, seed=plan.seed, start=start)
    return [
        state.theta for state in states if state.step > first and (state.step - first) % apart == 0
    ]


def _sampler(plan: Plan, target: AlphaMFTarget) -> Sampler[Any]:
    """Return the plan's sampler; a named one gets shorter steps the smaller a minibatch is."""
    if not isinstance(plan.sampler, str):
        return plan.sampler
    found: Any = kernel(plan.sampler)
    return replace(found, step_size=found.step_size / target.blocks)


def draws_of(target: AlphaMFTarget, thetas: list[Array], level: float) -> Draws:
    """Return the draws of W and H, such that rows of H sum to one; `level` is the unit of W H."""
    pairs = [target.unpack(theta)[0] for theta in thetas]
    activations, components = (target.xp.stack([pair[k] for pair in pairs]) for k in range(2))
    sums = components.sum(-1)
    components /= sums[..., None]
    activations *= sums[..., None, :] * level
    for c in range(1, components.shape[1]):
        order = target.xp.asarray(_order(components[:, c].mean(0), components[:, 0].mean(0)))
        components[:, c] = components[:, c][:, order]
        activations[:, c] = activations[:, c][..., order]
    return Draws(activations, components)


def _order(own: Array, first: Array) -> Any:
    """Return the order of a chain's components in which they are most like the first chain's."""
    from scipy.optimize import linear_sum_assignment

    one, two = (
        each / np.linalg.norm(each, axis=1, keepdims=True) for each in map(to_host, (first, own))
    )
    return linear_sum_assignment(-one @ two.T)[1]


def moments(draws: Array) -> tuple[Array, Array]:
    """Return the mean and standard deviation over the first two axes."""
    return draws.mean((0, 1)), draws.std((0, 1))


def scale_moments(draws: Draws, alpha: float) -> tuple[Array, Array]:
    """Return mean and standard deviation of (W H)^(2/alpha), shape (samples, features)."""
    flat = [each.reshape(-1, *each.shape[-2:]) for each in draws]
    total: Any = 0.0
    square: Any = 0.0
    for k, (w, h) in enumerate(zip(*flat, strict=True), 1):
        value = (w @ h) ** (2 / alpha)
        change = value - total
        total = total + change / k
        square = square + change * (value - total)
    return total, (square / len(flat[0])) ** 0.5


def diagnose(draws: Draws, alpha: float) -> Summary | None:
    """Summarise log (W H)^(2/alpha) at random cells; None for fewer than four draws."""
    kept, _, rows, _ = draws.activations.shape
    columns = draws.components.shape[-1]
    if kept < LEAST:
        return None
    chosen = np.random.default_rng(0).permutation(rows * columns)[:CELLS]
    i, j = map(namespace(draws.activations).asarray, np.divmod(chosen, columns))
    w, h = to_host(draws.activations[:, :, i]), to_host(draws.components[..., j])
    return summarise(np.log((w * np.swapaxes(h, -1, -2)).sum(-1)) * (2 / alpha))


def estimate_alpha(power: Array, rank: int, plan: Plan) -> float:
    r"""Estimate alpha of a matrix of powers by the variance of their logarithms.

    If V has the scale s, log V - log s has the variance :math:`2 \pi^2 / (3 \alpha^2)`: that of log
    Phi, :math:`\pi^2 (4 / \alpha^2 - 1) / 6`, and of the logarithm of an exponential variable,
    :math:`\pi^2 / 6`. The scale comes from EM, which is run again with each new alpha. Zeros are
    left out.

    References
    ----------
    Zolotarev, One-dimensional Stable Distributions (1986), section 3.6, for log Phi.
    """
    xp, (rows, columns) = namespace(power), power.shape
    if rank >= min(rows, columns):
        raise AlphaMFError(
            f"alpha cannot be estimated with {rank} components of a matrix of {rows} rows and "
            f"{columns} columns; use fewer components"
        )
    degrees = 1 - rank * (rows + columns - rank) / power.size
    power, plan = power.astype(np.float32), plan._replace(chains=1)  # float32 is faster
    positive = power > 0
    logs = xp.log(power[positive])
    alpha, start = 1.5, None
    for number in range(1, ALPHA_ROUNDS + 1):
        target = AlphaMFTarget(power, [Source(alpha, rank)])
        scale = xp.zeros_like(power)
        steps = em_steps(target, ALPHA_STEPS, plan, start, number=number, relaxation=RELAXED)
        for step, theta in enumerate(steps):
            if step >= ALPHA_STEPS // 2:
                w, h = target.unpack(theta)[0]
                scale += (w @ h)[0]
        residual = logs - xp.log(scale[positive] + TINY) * (2 / alpha)
        spread = float(residual.var()) / degrees
        found = min(max(np.pi * (2 / (3 * spread)) ** 0.5, ALPHAS[0]), ALPHAS[1])
        start, alpha = xp.maximum(theta, TINY) ** (found / alpha), found
    return alpha
