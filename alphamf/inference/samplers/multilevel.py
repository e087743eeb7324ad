r"""Multilevel Richardson-Romberg extrapolation: chains at h, h / 2, h / 4, ... whose errors cancel.

With :math:`\pi_h(f) = \pi(f) + C_1 h + C_2 h^2 + \dots` and R step sizes h / n_r, n_r = 2^(r - 1),

.. math:: \sum_{r=1}^R w_r\, \pi_{h / n_r}(f) = \pi(f) + O(h^R), \qquad
   w_r = \prod_{s \ne r} \frac{n_r}{n_r - n_s}.

Summed by parts, with :math:`W_r = w_r + \dots + w_R`, it is the mean of one coarse chain and of
differences that are small,

.. math:: \pi_h(f) + \sum_{r=2}^R W_r \left[ \pi_{h / n_r}(f) - \pi_{h / n_{r-1}}(f) \right].
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, NamedTuple

from alphamf.errors import AlphaMFError
from alphamf.inference.protocols import Need, Potential, Schedule, Target
from alphamf.inference.random import noise
from alphamf.inference.samplers.richardson import draw_increments, move_by, refuse_latents
from alphamf.inference.schedule import step_size_at
from alphamf.tools.arrays import Array, namespace

MOST = 8
"""Most levels: their weights are alternating and grow."""


class SGRRMLDState(NamedTuple):
    """All chains after one step."""

    theta: Array  # The chain of step h, shape (*chains, D)
    step: int  # Number of steps made
    # middle, fine, coarse: the pairs of the levels from the second on, shape (R - 1, *chains, D):
    # the fine chain after its first and second step, and the coarse one after its only one.
    middle: Array
    fine: Array
    coarse: Array
    size: float  # h of the step that led here

    @property
    def terms(self) -> tuple[tuple[float, Array], ...]:
        """Weights and positions of the estimate, for `records.Extrapolated`."""
        found: list[tuple[float, Array]] = [(1.0, self.theta)]
        for level, total in enumerate(totals(len(self.fine) + 1)[1:]):
            found += [(total / 2, self.middle[level]), (total / 2, self.fine[level])]
            found.append((-total, self.coarse[level]))
        return tuple(found)


@dataclass(frozen=True)
class SGRRMLD:
    """Stochastic gradient multilevel Richardson-Romberg Langevin dynamics.

    Level 1 is SGLD at h. Level r is a pair of SGLD chains at h / n_(r - 1) and at half of that,
    which share their noise as in `SGRRLD`; levels are independent. A step is one coarse move and
    two fine ones of each pair: 3 R - 2 gradients. `Extrapolated` makes of all an estimate with a
    bias of O(h^R); theta alone is SGLD at h. The finest level needs 2^(R - 2) times the first one's
    burn-in.

    Attributes
    ----------
    step_size
        h, a number or a function of the step index.
    levels
        R, from 2.

    References
    ----------
    Pages & Panloup, Annals of Applied Probability 28 (2018); Lemaire & Pages, Bernoulli 23 (2017),
    for the weights.

    Examples
    --------
    >>> import numpy as np
    >>> from alphamf.inference.chain import run
    >>> from alphamf.inference.records import Extrapolated
    >>> from alphamf.inference.targets.gaussian import LinearGaussian
    >>> target = LinearGaussian(np.eye(2), np.zeros(2), 1.0)  # its posterior is N(0, I/2)
    >>> record = Extrapolated(lambda theta, target: theta**2, burn_in=40)
    >>> for _ in run(target, SGRRMLD(0.2), steps=200, seed=0, chains=(2000,), record=record):
    ...     pass
    >>> record.mean.round(2)
    array([0.5, 0.5])
    """

    needs: ClassVar[tuple[Need, ...]] = ("bounded gradient", "no latents")

    step_size: Schedule = 1e-3
    levels: int = 3

    def __post_init__(self) -> None:
        """Check the hyperparameters."""
        if not 2 <= self.levels <= MOST:
            raise AlphaMFError(f"levels must be from 2 to {MOST}, not {self.levels}")

    def init(self, rng: Any, theta: Array) -> SGRRMLDState:
        """Return the state with all chains at theta, of shape (*chains, D)."""
        pairs = namespace(theta).stack([theta] * (self.levels - 1))
        return SGRRMLDState(theta, 0, pairs, pairs, pairs, 0.0)

    def step(self, rng: Any, state: SGRRMLDState, target: Target[Potential]) -> SGRRMLDState:
        """Make one move of the first level and of each pair."""
        refuse_latents(self, target)
        xp = namespace(state.theta)
        h = step_size_at(self.step_size, state.step)
        theta = move_by(rng, state.theta, target, h, noise(rng, state.theta))
        middles, fines, coarses = [], [], []
        for level in range(self.levels - 1):
            size = h / 2**level
            first, second, both = draw_increments(rng, theta)
            middles.append(move_by(rng, state.fine[level], target, size / 2, first))
            fines.append(move_by(rng, middles[-1], target, size / 2, second))
            coarses.append(move_by(rng, state.coarse[level], target, size, both))
        middle, fine, coarse = (xp.stack(each) for each in (middles, fines, coarses))
        return SGRRMLDState(theta, state.step + 1, middle, fine, coarse, h)


def weights(levels: int) -> tuple[float, ...]:
    """Return w_r of all levels."""
    sizes = [2**r for r in range(levels)]
    return tuple(prod(n / (n - m) for m in sizes if m != n) for n in sizes)


def totals(levels: int) -> tuple[float, ...]:
    """Return W_r of all levels; the first is 1."""
    each = weights(levels)
    return tuple(sum(each[r:]) for r in range(levels))
