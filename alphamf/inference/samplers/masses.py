"""Mass matrices of the momentum samplers: their protocol, the unit mass and a constant one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from alphamf.inference.metric import Dense, Diagonal, Metric
from alphamf.tools.arrays import Array, namespace


class Mass(Protocol):
    """A mass matrix M, possibly adaptive, whose state is part of the sampler's state."""

    def init(self, theta: Array) -> Any:
        """Return the mass's state, a NamedTuple, for chains of shape (*chains, D)."""
        ...

    def inverse(self, state: Any) -> Metric:
        """Return M^-1: its `Metric.apply` is a velocity, its `inverse_root` a draw from N(0, M)."""
        ...

    def update(self, rng: Any, state: Any, theta: Array, momentum: Array) -> Any:
        """Return the state after a step of the sampler that ended at theta and momentum.

        `theta`, `momentum`: end of the step, shape (*chains, D).
        """
        ...


class NoMass(NamedTuple):
    """State of the unit mass: a scalar 1 with theta's dtype, on its device."""

    one: Array


@dataclass(frozen=True)
class UnitMass:
    """M = I."""

    def init(self, theta: Array) -> NoMass:
        """Return the state."""
        return NoMass(namespace(theta).ones((), theta.dtype))

    def inverse(self, state: NoMass) -> Diagonal:
        """Return I, as a diagonal that broadcasts."""
        return Diagonal(state.one)

    def update(self, rng: Any, state: NoMass, theta: Array, momentum: Array) -> NoMass:
        """Return the state unchanged."""
        return state


class InverseMassState(NamedTuple):
    """State of a constant mass: M^-1 with theta's dtype, on its device."""

    inverse: Array


@dataclass(frozen=True, eq=False)
class ConstantMass:
    """A mass that does not change.

    Attributes
    ----------
    inverse_mass
        M^-1: its diagonal, shape (D,), or a symmetric positive definite matrix, shape (D, D).

    Examples
    --------
    >>> import numpy as np
    >>> mass = ConstantMass(np.array([1.0, 4.0]))
    >>> mass.inverse(mass.init(np.zeros(2))).apply(np.ones(2))  # a velocity
    array([1., 4.])
    """

    inverse_mass: Array

    def init(self, theta: Array) -> InverseMassState:
        """Return the state."""
        xp = namespace(theta)
        return InverseMassState(xp.asarray(self.inverse_mass, theta.dtype))

    def inverse(self, state: InverseMassState) -> Metric:
        """Return M^-1."""
        dense = state.inverse.ndim == 2
        return Dense(state.inverse) if dense else Diagonal(state.inverse)

    def update(
        self, rng: Any, state: InverseMassState, theta: Array, momentum: Array
    ) -> InverseMassState:
        """Return the state unchanged.

        `theta`, `momentum`: where the step ended, shape (*chains, D).
        """
        return state
