r"""A step of the samplers over blocks: DSGLD, distributed PSGLD, HAMCMC and SGRRLD.

SGLD and PSGLD work element by element, so that the samplers of `alphamf.inference.samplers` are
used unchanged for each block. HAMCMC needs inner products over all of theta, and SGRRLD needs a
separate part of the data for each of its three gradients.
"""

from __future__ import annotations

from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.inference.samplers.hamcmc import HAMCMC
from alphamf.inference.samplers.langevin import PSGLD, SGLD, PSGLDState, SGLDState
from alphamf.inference.samplers.lbfgs import Products, compact_hessian
from alphamf.inference.samplers.richardson import SGRRLD
from alphamf.inference.schedule import step_size_at
from alphamf.tools.arrays import Array


class StateLayout(NamedTuple):
    """The state that a sampler keeps per entry of theta."""

    chains: int  # Number of chains, whose blocks of H move between ranks separately
    arrays: int  # A, the number of state arrays that travel with a block of H
    # How many of these arrays, the first ones, are positions; the last of them is the newest.
    positions: int
    moves: int  # Number of parts of the data that a step draws; blocks of H move for each
    sums: int  # Number of quantities that are summed over all blocks in a step


def layout(sampler: Any) -> StateLayout:
    """Return the state layout of a sampler; raise an error if it cannot run over blocks."""
    if isinstance(sampler, SGLD):
        return StateLayout(1, 1, 1, 1, 0)
    if isinstance(sampler, PSGLD) and not sampler.correction:
        return StateLayout(1, 2, 1, 1, 0)
    if isinstance(sampler, HAMCMC):
        pairs = sampler.memory - 1
        return StateLayout(
            1, sampler.memory + 2 * pairs, sampler.memory, 1, 2 * pairs * (2 * pairs + 2)
        )
    if isinstance(sampler, SGRRLD):
        return StateLayout(2, 1, 1, 3, 0)
    raise AlphaMFError(
        "only SGLD, PSGLD without its correction, HAMCMC and SGRRLD can run over "
        "blocks, not "
        f"{type(sampler).__name__}{(' with it' if isinstance(sampler, PSGLD) else '')}"
    )


def step(walk: Any, sampler: Any) -> None:
    """Make one step of a `Walk`, in place."""
    if isinstance(sampler, HAMCMC):
        _hamcmc(walk, sampler)
    elif isinstance(sampler, SGRRLD):
        _sgrrld(walk, sampler)
    else:
        _elementwise(walk, sampler)


class _Given:
    """A target that returns a given gradient, for samplers that need a single one."""

    positive = False
    latents: dict[str, Array]

    def __init__(self, gradient: Array) -> None:
        self.gradient = gradient
        self.latents = {}

    def draw(self, rng: Any, theta: Array) -> _Given:
        return self

    def grad(self, theta: Array) -> Array:
        return self.gradient


def _elementwise(walk: Any, sampler: SGLD | PSGLD) -> None:
    (chain,) = walk.chains
    walk.pair_blocks(chain)
    for (key, x), gradient in zip(chain.halves(), walk.gradients(chain, 0), strict=True):
        rng = walk.stream(key)
        target: Any = _Given(gradient)
        if isinstance(sampler, SGLD):
            x[0] = sampler.step(rng, SGLDState(x[0], walk.steps), target).theta
        else:
            new = sampler.step(rng, PSGLDState(x[0], walk.steps, x[1], 0), target)
            x[0], x[1] = new.theta, new.square


def _sgrrld(walk: Any, sampler: SGRRLD) -> None:
    """Move the fine chain twice and the coarse chain once; each move draws a part of the data.

    A block of H can be on another rank for each of the three gradients, so both noises of the fine
    chain are drawn again for the coarse chain.
    """
    fine, coarse = walk.chains
    h = step_size_at(sampler.step_size, walk.steps)
    for draw, (chain, size, noises) in enumerate(
        ((fine, h / 2, (0,)), (fine, h / 2, (1,)), (coarse, h, (0, 1)))
    ):
        walk.pair_blocks(chain, draw)
        for (key, x), gradient in zip(chain.halves(), walk.gradients(chain, 0), strict=True):
            theta = x[0]
            gradient *= -size
            theta += gradient
            for half in noises:
                # sqrt(2 size) (Z1 + Z2) / sqrt 2 for the coarse chain.
                theta += sqrt(h) * walk.noise(key, theta.shape, half)


def _hamcmc(walk: Any, sampler: HAMCMC) -> None:
    (chain,) = walk.chains
    m = sampler.memory
    pairs = m - 1
    h = step_size_at(sampler.step_size, walk.steps - walk.steps % m)
    walk.pair_blocks(chain)
    halves = chain.halves()
    before = walk.gradients(chain, 0)
    noises = [walk.noise(key, x.shape[1:]) for key, x in halves]
    own = []
    for (_, x), gradient, z in zip(halves, before, noises, strict=True):
        memory = x[m:].reshape(2 * pairs, -1)
        others = np.concatenate([memory, gradient.reshape(1, -1), z.reshape(1, -1)])
        own.append((memory @ others.T).astype(np.float64).ravel())
    # Sums of a row block and its paired column block, in the order of the row blocks.
    products = walk.ranks.gather(np.stack(own).reshape(len(own) // 2, 2, -1).sum(1)).sum(0)
    w = walk.stream(walk.common + 1).standard_normal(pairs)
    weights = combination(products.reshape(2 * pairs, -1), w, h, sampler.gamma).astype(np.float32)
    for (_, x), gradient, z in zip(halves, before, noises, strict=True):
        origin, memory = x[0].copy(), x[m:].reshape(2 * pairs, -1)
        new = (weights @ memory).reshape(origin.shape)
        new -= (h * sampler.gamma) * gradient
        new += sqrt(2 * h * sampler.gamma) * z
        new += origin
        x[: m - 1] = x[1:m]
        x[m - 1] = new
        new -= origin
        for group in (x[m : m + pairs], x[m + pairs :]):
            group[:-1] = group[1:]
        x[m + pairs - 1] = new
    for (_, x), gradient, after in zip(halves, before, walk.gradients(chain, m - 1), strict=True):
        after -= gradient
        after += sampler.trust * x[m + pairs - 1]
        x[-1] = after


def combination(products: Array, w: Array, h: float, gamma: float) -> Array:
    r"""Return weights a, b of S, Y in HAMCMC's move; H is L-BFGS's inverse Hessian, from gamma I.

    .. math:: -h H g + \sqrt{2h}\, \mathcal{N}(0, H)
       = -h \gamma g + \sqrt{2 h \gamma}\, z + S a + Y b.

    `products`: (S, Y)' (S, Y, g, z), shape (2m, 2m + 2), of m differences S of theta and Y of
    gradients (oldest first), the gradient g and noise z. `w`: noise, (m,). Returns: shape (2m,).
    """
    m = len(w)
    known = Products(products[:m, m : 2 * m], products[m:, m : 2 * m], np.diagonal(products)[:m])
    form = compact_hessian(known, gamma, np.arange(m), float(np.finfo(np.float32).eps))
    g, z = products[:, [2 * m]], products[:, [2 * m + 1]]
    a, b = form.product(g[:m], g[m:])
    return np.concatenate([sqrt(2 * h) * form.noise(z[m:], w) - h * a, -h * b])[:, 0]
