"""Alpha-MF as the formulas are written, in float64, with a new array for every expression.

The reference for the speed of `alphamf.factorization.alpha_mf.AlphaMF`. Its minibatch is a tenth of
the cells, drawn one by one, as in the papers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from alphamf.factorization.cells import FLOOR
from alphamf.inference.protocols import Parts
from alphamf.research.speed.paper import ALPHAS, PRIORS, RANKS
from alphamf.tools.arrays import Array, Floats


class Naive:
    """The model of `paper.target` in plain NumPy: a target for the library's samplers.

    Parameters
    ----------
    power
        |X|^2, shape (I, J).
    basis
        W of the speech, shape (I, K).
    share
        Share of the cells in a minibatch.
    """

    power: Array
    basis: Array
    share: float
    accepted: int

    positive = True

    def __init__(self, power: Floats, basis: Floats, share: float) -> None:
        self.power, self.basis, self.share = power.astype(float), basis.astype(float), share
        rows, columns = power.shape
        speech, noise = RANKS
        self.shapes: list[tuple[int, int]] = [(speech, columns), (rows, noise), (noise, columns)]
        sizes = [a * b for a, b in self.shapes]
        self.ends: Array = np.cumsum(sizes)
        self.size: int = int(self.ends[-1])
        self.shape: Array = np.repeat([prior.shape for prior in PRIORS], sizes)
        self.rate: Array = np.repeat([getattr(prior, "rate", 0.0) for prior in PRIORS], sizes)
        self.exponent: Array = np.full(self.size, 0.3)
        self.latents: dict[str, Floats] = {}
        self.accepted = 0

    def start(self, rng: Any, chains: tuple[int, ...] = ()) -> Floats:
        """See `alphamf.inference.protocols.Target`; one chain."""
        for s, alpha in enumerate(ALPHAS):
            self.latents[f"phi{s}"] = stable(rng, alpha, self.power.shape)
        return np.asarray(rng.random(self.size) + 0.1)

    def dispersions(self, theta: Floats) -> list[tuple[Floats, Floats]]:
        """Return W and H of each source."""
        blocks = np.split(theta, self.ends[:-1])
        h, w_noise, h_noise = (x.reshape(s) for x, s in zip(blocks, self.shapes, strict=True))
        return [(self.basis, h), (w_noise, h_noise)]

    def variance(self, theta: Floats) -> Floats:
        """Return sigma^2."""
        parts = [
            self.latents[f"phi{s}"] * (w @ h) ** (2 / alpha)
            for s, (alpha, (w, h)) in enumerate(zip(ALPHAS, self.dispersions(theta), strict=True))
        ]
        return np.asarray(FLOOR + sum(parts))

    def draw(self, rng: Any, theta: Floats) -> NaivePotential:
        """Move Phi of a minibatch, and return its potential."""
        cells = rng.random(self.power.shape) < self.share
        for s, alpha in enumerate(ALPHAS):
            old = self.variance(theta)
            phi = self.latents[f"phi{s}"]
            proposal = stable(rng, alpha, phi.shape)
            self.latents[f"phi{s}"] = proposal
            new = self.variance(theta)
            ratio = np.log(old / new) + self.power * (1 / old - 1 / new)
            accept = cells & (np.log(rng.random(phi.shape)) < ratio)
            self.accepted += int(accept.sum())
            self.latents[f"phi{s}"] = np.where(accept, proposal, phi)
        return NaivePotential(self, cells)


class NaivePotential:
    """The potential of a minibatch of cells."""

    target: Naive
    cells: Floats

    def __init__(self, target: Naive, cells: Floats) -> None:
        self.target, self.cells = target, cells

    def grad(self, theta: Floats) -> Floats:
        """Gradient of U, shape (D,)."""
        plus, minus, shape, _ = self.parts(theta)
        return np.asarray(plus - minus + (1 - shape) / theta)

    def parts(self, theta: Floats) -> Parts:
        """Gradient of U in its positive parts."""
        target = self.target
        sigma2 = target.variance(theta)
        parts: list[list[Array]] = [[], []]
        for s, (alpha, (w, h)) in enumerate(zip(ALPHAS, target.dispersions(theta), strict=True)):
            phi = target.latents[f"phi{s}"]
            weight = 2 / alpha * phi * (w @ h) ** (2 / alpha - 1) * self.cells / target.share
            for part, dv in zip(
                parts, (weight / sigma2, weight * target.power / sigma2**2), strict=True
            ):
                if s > 0:
                    part.append((dv @ h.T).ravel())
                part.append((w.T @ dv).ravel())
        plus, minus = (np.concatenate(part) for part in parts)
        return Parts(plus + target.rate, minus, target.shape, target.exponent)


def stable(rng: Any, alpha: float, shape: tuple[int, ...]) -> Floats:
    """Draw positive stable variables by Kanter's formula (`alphamf.factorization.stable`).

    Parameters
    ----------
    rng
        Source of random numbers.
    alpha
        Index of the source; the variables have alpha / 2.
    shape
        Of the result.
    """
    h = alpha / 2
    u, e = np.pi * rng.random(shape), rng.exponential(size=shape)
    power = (np.sin((1 - h) * u) / e) ** ((1 - h) / h)
    return np.asarray(2 * np.sin(h * u) / np.sin(u) ** (1 / h) * power)
