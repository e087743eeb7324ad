"""Stochastic EM for H of one excerpt with W fixed; cells can be left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from alphamf.factorization.alpha_mf import FLOOR, AlphaMF, Source
from alphamf.factorization.cells import TINY
from alphamf.tools.arrays import Floats

RELAXATION = 1.5
"""Exponent of the sampler `em`: above one it converges faster, below two it does not oscillate."""


class Activation(NamedTuple):
    """One step: H before its update, and the gradient at H and the current Phi."""

    gains: Floats  # H, shape (K, J)
    dispersion: Floats  # v = W H, shape (I, J)
    # plus, minus: positive and negative part of dU/dv, shape (I, J). By the chain rule those of the
    # factors are ``W.T @ plus`` of H and ``plus @ H.T`` of W.
    plus: Floats
    minus: Floats


def activate(
    power: Floats, basis: Floats, alpha: float, steps: int, rng: Any, weights: Floats | None = None
) -> Iterator[Activation]:
    r"""Fit H from a random start; yield the state of every step.

    A step moves Phi by Metropolis, then H like the kernel `em` with W fixed,

    .. math:: H' = H \left( \frac{W^T \mathit{minus}}{W^T \mathit{plus}}
       \right)^{1.5\,\alpha / (\alpha + 2)}.

    `power`: |X|^2, shape (I, J), of mean about one. `basis`: W, shape (I, K). `weights`: weight of
    each cell in the fit of H, shape (I, J); zero for cells that are held out.
    """
    rank = basis.shape[1]
    target = AlphaMF(power, [Source(alpha, rank, basis)])
    theta = target.start(rng)
    exponent = np.float32(2 / alpha)
    relaxed = np.float32(RELAXATION * alpha / (alpha + 2))
    tiny = np.finfo(power.dtype).tiny
    for _ in range(steps):
        phi = target.draw(rng, theta).phi[0]
        gains = theta.reshape(rank, -1)
        dispersion = np.maximum(basis @ gains, TINY)
        # dU/dv = d(Phi v^(2/alpha))/dv (1 / sigma^2 - |X|^2 / sigma^4)
        part = dispersion**exponent
        part *= phi
        sigma2 = part + np.float32(FLOOR)
        part *= exponent
        part /= dispersion
        part /= sigma2
        if weights is not None:
            part *= weights
        sigma2 = np.divide(power, sigma2, out=sigma2)
        sigma2 *= part
        yield Activation(gains, dispersion, part, sigma2)
        ratio = (basis.T @ sigma2 + tiny) / (basis.T @ part + tiny)
        ratio **= relaxed
        theta = theta * ratio.reshape(-1)
