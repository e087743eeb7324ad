"""Lower bound of the time of a step: its random numbers, logarithms and matrix products alone.

Each is timed separately on arrays that fit into the first cache. Divisions, additions, copies,
memory accesses and the interpreter are left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from math import ceil
from typing import Any

import numpy as np

from alphamf.factorization import _loops
from alphamf.inference import _random
from alphamf.inference.random import generator, noise, word_state
from alphamf.research.speed.paper import ALPHAS, COLUMNS, RANKS, ROWS


def floor(blocks: int, gradients: int, pairs: int, slopes: int = 1) -> Callable[[], float]:
    """Return a function that measures the lower bound of a step in seconds.

    Parameters
    ----------
    blocks
        Row blocks of the minibatch.
    gradients
        Gradients that the sampler takes: each has a product W H, a power v^(2/alpha), and the
        products W' dV and dV H'.
    pairs
        Pairs in the memory of HAMCMC, 0 for other samplers: a step needs nine products of a
        vector with the matrix of one half of the pairs.
    slopes
        What is pushed through W and H: dV itself, or its two positive parts, each by itself.
    """
    rows = ceil(ROWS / blocks)
    cells = rows * COLUMNS * len(ALPHAS)
    size = RANKS[0] * COLUMNS + RANKS[1] * (ROWS + COLUMNS)
    rng = generator(0, 0)
    x, out = (rng.random(_loops.CHUNK, dtype=np.float32) for _ in range(2))
    words, state = np.empty(_loops.CHUNK, np.uint32), word_state(rng, _random.LANES)
    whole, memory = np.ones(size, np.float32), np.ones((max(pairs, 1), size), np.float32)
    multiply = _products(rows, slopes)

    # Per cell: three random numbers and three sines for a proposal and its acceptance, with the
    # logarithms of the exponential variable, of Kanter's ratio and of the acceptance, and one exp;
    # a power is a logarithm and an exp.
    parts: list[tuple[float, Callable[[], Any]]] = [
        (3 * cells / _loops.CHUNK, lambda: _random.words(state, words)),
        ((3 + gradients) * cells / _loops.CHUNK, lambda: _loops.log(x, out)),
        ((1 + gradients) * cells / _loops.CHUNK, lambda: _loops.exp(x, out)),
        (3 * cells / _loops.CHUNK, lambda: _loops.sin(x, out)),
        (gradients, multiply),
        (1, lambda: noise(rng, whole)),
        (9 if pairs else 0, lambda: memory @ whole),
    ]

    def measure() -> float:
        return sum(count * _least(function) for count, function in parts if count)

    return measure


def _products(rows: int, slopes: int) -> Callable[[], None]:
    """Return the matrix products of a gradient over some rows of cells."""
    products = [
        tuple(np.ones(shape, np.float32) for shape in ((a, b), (b, c), (a, c)))
        for rank, free in zip(RANKS, (False, True), strict=True)
        for a, b, c in [
            (rows, rank, COLUMNS),
            *slopes * [(rank, rows, COLUMNS)],
            *(slopes * [(rows, COLUMNS, rank)] if free else []),
        ]
    ]

    def multiply() -> None:
        for a, b, product in products:
            np.matmul(a, b, out=product)

    return multiply


def _least(function: Callable[[], Any], repeats: int = 20) -> float:
    """Return the least time of some calls in seconds, which interruptions do not affect."""
    least = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        least = min(least, time.perf_counter() - start)
    return float(least)
