"""Step sizes as functions of the step index."""

import sys
from dataclasses import dataclass
from math import cos, inf, pi, sqrt
from typing import Any

from alphamf.errors import AlphaMFError
from alphamf.inference.protocols import Schedule
from alphamf.inference.ranges import FINITE, SHARE, at_least, check_ranges


def step_size_at(schedule: Schedule, step: int) -> float:
    """Return the size of step `step` (0 for the first); raise an error unless positive and finite.

    It is a Python float, which leaves an array's dtype as it is; JAX's traced values are unchecked.
    """
    size = schedule(step) if callable(schedule) else schedule
    # JAX traces sizes from a table, where they were checked; its other arrays are numbers.
    if "jax" in sys.modules and isinstance(size, sys.modules["jax"].core.Tracer):
        return size
    size = float(size)
    if not 0 < size < inf:
        raise AlphaMFError(f"step_size must be a positive number, not {size} (step {step})")
    return size


def square_root(size: float) -> float:
    """Return the square root of a step size or its multiple, which may be a value traced by JAX."""
    return size**0.5 if hasattr(size, "aval") else sqrt(size)


@dataclass(frozen=True)
class Polynomial:
    r"""Decreasing step size :math:`h_t = (a/t)^b`, with t = 1 for the first step.

    Its repr is the same in every process, as a checkpoint needs; a lambda's is not.

    Raises
    ------
    AlphaMFError
        a or b is not a positive, finite number.

    References
    ----------
    Simsekli et al., ICML 2016, section 4.1, with b = 0.51.

    Examples
    --------
    >>> size = Polynomial(0.01, 0.5)
    >>> size(0), size(99)
    (0.1, 0.01)
    """

    a: float
    b: float = 0.51

    def __post_init__(self) -> None:
        check_ranges(self, a=FINITE, b=FINITE)

    def __call__(self, step: int) -> float:
        """Return the step size of step `step` (0 for the first)."""
        return float((self.a / (step + 1)) ** self.b)


@dataclass(frozen=True)
class Held:
    """Step sizes of `schedule` that change at every `block`-th step only, as HAMCMC needs them.

    References
    ----------
    Simsekli et al., ICML 2016, condition 1.

    Examples
    --------
    >>> size = Held(Polynomial(0.01, 0.5), 3)
    >>> [round(size(step), 3) for step in range(5)]
    [0.1, 0.1, 0.1, 0.05, 0.05]
    """

    schedule: Schedule
    block: int

    def __call__(self, step: int) -> float:
        """Return the step size of step `step` (0 for the first)."""
        return step_size_at(self.schedule, step - step % self.block)


@dataclass(frozen=True)
class Cyclical:
    r"""Step sizes that fall from large to small in each cycle, to find modes and sample each.

    .. math:: h_t = \tfrac{a}{2} \left[ 1 + \cos(\pi r_t) \right], \qquad
       r_t = \frac{t \bmod K}{K},

    t being 0 for the first step. While r is below `exploration`, states are not samples; `sampling`
    returns True for samples. The number of visits to a mode does not estimate its weight.

    Attributes
    ----------
    a
        Largest step size.
    period
        K, the number of steps in a cycle.
    exploration
        Fraction of a cycle whose states are not samples, from 0 to below 1.

    Raises
    ------
    AlphaMFError
        A number is out of range.

    References
    ----------
    Zhang et al., ICLR 2020, eq. 1 and algorithm 1, where the exploration has no noise.

    Examples
    --------
    >>> size = Cyclical(0.1, period=4, exploration=0.5)
    >>> [round(size(step), 3) for step in range(5)]
    [0.1, 0.085, 0.05, 0.015, 0.1]
    >>> [bool(size.sampling(step)) for step in range(5)]
    [False, False, True, True, False]
    """

    a: float
    period: int
    exploration: float = 0.8

    def __post_init__(self) -> None:
        check_ranges(self, a=FINITE, period=at_least(2), exploration=SHARE)

    def __call__(self, step: int) -> float:
        """Return the step size of step `step` (0 for the first)."""
        return self.a / 2 * (1 + cos(pi * (step % self.period) / self.period))

    def sampling(self, step: Any) -> Any:
        """Return whether the state after step `step` (0 for the first) is a sample."""
        return step % self.period >= self.exploration * self.period
