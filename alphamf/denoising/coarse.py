"""A first fit on some of the rows: factors near the mode, before any step on all of them.

EM is slow where it starts far off, as each step multiplies a factor by a small power of what it
lacks. What H lacks, every eighth row says as well as all rows, in an eighth of the time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from alphamf.factorization.alpha_mf import AlphaMF
from alphamf.inference.chain import run
from alphamf.inference.protocols import Sampler
from alphamf.inference.random import START, Key, generator
from alphamf.tools.arrays import Array, namespace

STRIDE = 8
"""Distance of the rows: 125 Hz."""


def fit(
    target: AlphaMF, start: Array, steps: int, em: Sampler[Any], stream: tuple[int, int]
) -> Array:
    """Return factors for all rows, whose W lies between those of the rows that were read.

    Parameters
    ----------
    target
        The model; its Phi stays.
    start
        Starting value, shape (..., D), of which nothing is left but the number of chains.
    steps
        Of EM; with none, `start` comes back.
    em
        The sampler.
    stream
        Seed and stream number of the chain.
    """
    if not steps:
        return start
    xp, power = namespace(start), target.power
    sources = [
        replace(source, basis=None if source.basis is None else source.basis[..., ::STRIDE, :])
        for source in target.sources
    ]
    few = AlphaMF(power[..., ::STRIDE, :], sources)
    seed, number = stream
    chains = start.shape[: start.ndim - (power.ndim - 1)]
    theta = few.start(generator(seed, Key.COARSE + number, START, xp=xp), chains)
    for state in run(few, em, steps=steps, seed=seed, chain=Key.COARSE + number, start=theta):
        theta = state.theta
    whole = start.copy()
    nearest = xp.arange(power.shape[-2]) // STRIDE
    for source, (w, h), (few_w, few_h) in zip(
        target.sources, target.unpack(whole), few.unpack(theta), strict=True
    ):
        h[...] = few_h
        if source.basis is None:
            w[...] = xp.take(few_w, nearest, axis=-2)
    return whole
