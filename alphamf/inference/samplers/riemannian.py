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

    With Gamma and the full gradient it leaves the posterior invariant to first order in h; without
    Gamma its law is wrong at any step size, unless G is constant. On a Gaussian whose precision is
    G it contracts by 1 - h in every direction, and its covariance is :math:`G^{-1} / (1 - h / 2)`.

    A dense G is factorised again at every step: O(D^3), and O(D^3) memory for Gamma where G varies,
    since the derivatives of G take that much. The diagonal of G needs O(D), or
    O(D^2) where it varies.

    Mirroring one coordinate is right under a diagonal metric alone: a dense one would have to be
    mirrored along a column of its inverse, and without that the law is far off (E theta^2 of 2.5
    for 0.7 on a quadrant of a Gaussian with correlation -0.8), so positive targets refuse it.

    Attributes
    ----------
    step_size
        h, a number or a function of the step index; it has no unit, and useful ones lie below 1.
    diagonal
        Whether to use the diagonal of G in the place of G, which is as right and mixes more slowly.
    correction
        Whether to add Gamma.

    References
    ----------
    Girolami & Calderhead, JRSS B 73 (2011); Patterson & Teh, NIPS 2013; Simsekli et al., ICML 2016,
    sections 2 and 3.1, which call it SGRLD and print Gamma (eq. 9) with a minus sign. The sign here
    is that of Ma et al., NIPS 2015 (``tests/inference/samplers/test_riemannian.py`` compares both
    on a curved Gaussian).

    Examples
    --------
    >>> import numpy as np
    >>> from alphamf.inference.chain import run
    >>> from alphamf.inference.targets.gaussian import LinearGaussian
    >>> target = LinearGaussian(np.eye(2), np.ones(2), 1.0)  # its posterior is N(1/2, I/2)
    >>> *_, last = run(target, RSGLD(0.1), steps=100, seed=0, chains=(4000,))
    >>> last.theta.mean(0).round(1), last.theta.var(0).round(1)
    (array([0.5, 0.5]), array([0.5, 0.5]))
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
