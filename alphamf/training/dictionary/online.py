r"""Stochastic-approximation EM for W over mini-batches of streamed speech.

With all speech in memory, EM moves the Phi of every cell, all of H, and W in turn. Here H and Phi
of a batch are fitted from scratch each time and discarded; the state is W and two sufficient
statistics for each of its entries.

Given Phi, the potential :math:`U(W) = \sum_{ij} p \log v_{ij} + |X_{ij}|^2 / (\Phi_{ij} v_{ij}^p)`,
with p = 2 / alpha and v = W H, lies below a surrogate that touches it at the present W: the
logarithm below its tangent, and the convex power, by Jensen's inequality, below its mean with
weights :math:`\tilde w_{ik} h_{kj} / \tilde v_{ij}`,

.. math:: Q(W \mid \tilde W) = \sum_{ik} B_{ik} W_{ik} + \tfrac{1}{p} A_{ik} W_{ik}^{-p} + c,
   \qquad B = \mathit{plus}, \quad A = \tilde W^{1+p} \circ \mathit{minus},

where plus and minus are the positive parts of dU/dW at :math:`\tilde W`, `protocols.Parts`. Its
minimum is :math:`W = (A / B)^{1/(1+p)}`, the multiplicative update with its full exponent
alpha / (alpha + 2). Surrogates add up: the objective over all speech lies below the mean of those
of the batches, whichever W each was built at. So A and B are averaged with forgetting factors
gamma_t,

.. math:: A \leftarrow (1 - \gamma_t) A + \gamma_t A_t, \qquad
   B \leftarrow (1 - \gamma_t) B + \gamma_t B_t, \qquad
   W \leftarrow W^{1-\rho} (A / B)^{\rho/(1+p)},

with sum gamma_t infinite and sum gamma_t^2 finite, which averages the draws of Phi as well as the
batches: stochastic-approximation EM. With gamma = 1 and all speech in the batch it is the kernel
`EM`, whose relaxation is 2 rho since W and H each go half of the way there. alpha = 2 is the online
Itakura-Saito NMF of Lefevre, Bach & Fevotte.

Columns of W are normalised after every step, since their scale goes to H. The statistics follow:
for columns c W and H / c, B becomes B / c and A becomes c^p A.

References
----------
Delyon, Lavielle & Moulines, Annals of Statistics 27 (1999), for the stochastic approximation;
Cappe & Moulines, JRSS B 71 (2009), for online EM; Lefevre, Bach & Fevotte, WASPAA 2011, for
IS-NMF; Mairal, NIPS 2013, for averaged surrogates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.factorization.cells import TINY
from alphamf.inference.draws import draw_parts
from alphamf.inference.protocols import FactorPotential, Need, Schedule, Target
from alphamf.inference.schedule import Polynomial, step_size_at
from alphamf.tools.arrays import Array

SMALLEST = 1e-150
"""Keeps ratios finite where a part is zero."""

FORGETTING = Polynomial(1.0, 0.51)
"""gamma: 1 at the first step, which has no past, then t^-0.51. Statistics of older W are biased, so
they are forgotten as fast as convergence allows."""


class StreamState(NamedTuple):
    """State of `StreamEM`."""

    theta: Array  # W, shape (I K,)
    step: int  # Number of steps made
    # plus, minus: the statistics B and A, shape (I K,), float64.
    plus: Array
    minus: Array


@dataclass(frozen=True)
class StreamEM:
    """Stochastic-approximation EM for the columns of W."""

    needs: ClassVar[tuple[Need, ...]] = ()

    rank: int  # Number of columns
    # gamma, a number or a function of the step index; 1 at the first step, which has no past.
    rate: Schedule = FORGETTING
    relaxation: float = 1.5  # rho, above 0 and below 2

    def __post_init__(self) -> None:
        """Check the hyperparameters."""
        if not 0 < self.relaxation < 2:
            raise AlphaMFError(f"relaxation must be between 0 and 2, not {self.relaxation}")

    def init(self, rng: Any, theta: Array) -> StreamState:
        """Return the initial state at theta, of shape (I K,)."""
        nothing = np.zeros(theta.shape)
        return StreamState(theta, 0, nothing, nothing)

    def step(self, rng: Any, state: StreamState, target: Target[FactorPotential]) -> StreamState:
        """Make one step."""
        theta, step, plus, minus = state
        gamma = step_size_at(self.rate, step)
        _, new = draw_parts(target, rng, theta)
        exponent = float(new.exponent[0])
        # In double precision: W^(1 + p) goes down to 1e-60.
        old = theta.astype(np.float64)
        plus = (1 - gamma) * plus + gamma * new.plus
        minus = (1 - gamma) * minus + gamma * new.minus * old ** (1 / exponent)
        basis = (minus + SMALLEST) / (plus + SMALLEST)
        basis **= self.relaxation * exponent
        basis *= old ** (1 - self.relaxation)
        scale = basis.reshape(-1, self.rank).sum(axis=0)
        basis, plus, minus = (
            (x.reshape(-1, self.rank) * factor).reshape(-1)
            for x, factor in (
                (basis, 1 / scale),
                (plus, scale),
                (minus, scale ** (1 - 1 / exponent)),
            )
        )
        return StreamState(np.maximum(basis, TINY).astype(theta.dtype), step + 1, plus, minus)
