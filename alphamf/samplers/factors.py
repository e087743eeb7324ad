r"""Kernels for positive factors, whose gradient splits into two positive parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from alphamf.arrays import Array, namespace, noise
from alphamf.protocols import FactorPotential, Schedule, Target
from alphamf.schedule import at


class FactorState(NamedTuple):
    """Position, step, and the inverse positive part c of the metric diag(theta c)."""

    theta: Array
    step: int
    metric: Array


@dataclass(frozen=True)
class SGRLD:
    step_size: Schedule = 0.3
    freeze: int | None = None

    def init(self, rng: Any, theta: Array) -> FactorState:
        return FactorState(theta, 0, namespace(theta).ones_like(theta))

    def step(self, rng: Any, state: FactorState, target: Target[FactorPotential]) -> FactorState:
        theta, step, metric = state
        xp = namespace(theta)
        h = at(self.step_size, step)
        potential = target.draw(rng, theta)
        plus, minus, shape = potential.parts(theta)
        if self.freeze is None or step < self.freeze:
            metric = 1 / plus
        new = theta * (1 + h * metric * (minus - plus)) + h * metric * shape
        new += xp.sqrt((2 * h) * metric * theta) * noise(rng, theta)
        return FactorState(xp.abs(new), step + 1, metric)


class PointState(NamedTuple):
    """Position and step."""

    theta: Array
    step: int


@dataclass(frozen=True)
class EM:
    exponent: float = 0.5

    def init(self, rng: Any, theta: Array) -> PointState:
        return PointState(theta, 0)

    def step(self, rng: Any, state: PointState, target: Target[FactorPotential]) -> PointState:
        theta, step = state
        xp = namespace(theta)
        potential = target.draw(rng, theta)
        plus, minus, shape = potential.parts(theta)
        theta = xp.maximum(theta, 1e-12)
        plus = plus + xp.maximum(1 - shape, 0) / theta
        minus = minus + xp.maximum(shape - 1, 0) / theta
        ratio = minus / plus
        ratio **= self.exponent
        return PointState(theta * ratio, step + 1)
