"""Riemannian SGLD: Langevin moves with a metric of the target, such as its Fisher information."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any, ClassVar, NamedTuple

from alphamf.errors import AlphaMFError
from alphamf.inference.metric import Dense, metric_of
from alphamf.inference.protocols import Need, RiemannianPotential, Schedule, Target
from alphamf.inference.random import noise
from alphamf.inference.samplers.reflect import reflect
from alphamf.inference.schedule import step_size_at
from alphamf.tools.arrays import Array


class RSGLDState(NamedTuple):
    """Position and number of steps."""

    theta: Array
    step: int


@dataclass(frozen=True)
class RSGLD:
    r"""Riemannian stochastic gradient Langevin dynamics, in the potential's metric G.

    .. math:: \theta' = \theta + h \left(-G^{-1} \nabla \tilde U + \Gamma \right)
       + \mathcal{N}(0,\, 2 h G^{-1}), \qquad
       \Gamma_i = \sum_j \frac{\partial (G^{-1})_{ij}}{\partial \theta_j}.

    With Gamma and the full gradient it leaves the posterior invariant to first order in h. A dense
    G is factorised at every step: O(D^3), and O(D^3) memory where G varies; the diagonal needs
    O(D), or O(D^2). A positive target needs `diagonal`: mirroring is right under a diagonal metric
    alone.

    Attributes
    ----------
    step_size
        h, without a unit; a number or a function of the step index.
    diagonal
        Whether to use the diagonal of G in the place of G, which is as right and mixes more slowly.
    correction
        Whether to add Gamma; without it the law is wrong unless G is constant.

    References
    ----------
    Girolami & Calderhead, JRSS B 73 (2011); Patterson & Teh, NIPS 2013; Simsekli et al., ICML 2016,
    sections 2 and 3.1, which call it SGRLD; Ma et al., NIPS 2015, for the sign of Gamma.

    Examples
    --------
    >>> RSGLD(0.1).needs  # run as in the example of `SGLD`
    ('bounded gradient', 'metric')
    """

    needs: ClassVar[tuple[Need, ...]] = ("bounded gradient", "metric")

    step_size: Schedule = 0.1
    diagonal: bool = False
    correction: bool = True

    def init(self, rng: Any, theta: Array) -> RSGLDState:
        """Return the state that starts at theta, of shape (*chains, D)."""
        return RSGLDState(theta, 0)

    def step(self, rng: Any, state: RSGLDState, target: Target[RiemannianPotential]) -> RSGLDState:
        """Make one step, with one gradient and one metric."""
        theta, step = state
        h = step_size_at(self.step_size, step)
        potential = target.draw(rng, theta)
        metric = metric_of(potential, theta)
        if isinstance(metric, Dense):
            if not self.diagonal and target.positive:
                raise AlphaMFError("diagonal must be True if the target is positive")
            metric = metric.diagonal() if self.diagonal else metric
        new = metric.solve(potential.grad(theta))
        if self.correction:
            new -= metric.divergence()
        new *= -h
        new += theta
        kick = metric.inverse_root(noise(rng, theta))
        kick *= sqrt(2 * h)
        new += kick
        return RSGLDState(reflect(new, target), step + 1)
