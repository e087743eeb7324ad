"""Step sizes as functions of the step index."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from alphamf.errors import AlphaMFError
from alphamf.inference.protocols import Schedule


def step_size_at(schedule: Schedule, step: int) -> float:
    """Return the step size of step `step` (0 for the first), as a Python float.

    A Python float leaves the dtype of an array as it is, which a NumPy scalar would not.

    Raises
    ------
    AlphaMFError
        The step size is not a positive number.
    """
    size = float(schedule(step) if callable(schedule) else schedule)
    if not 0 < size < inf:
        raise AlphaMFError(f"step_size must be a positive number, not {size} (step {step})")
    return size


@dataclass(frozen=True)
class Polynomial:
    r"""Decreasing step size, as in the papers: :math:`h_t = (a/t)^b` with t = 1 for the first step.

    Its repr is the same in every process, as a checkpoint needs; a lambda's is not.

    Raises
    ------
    AlphaMFError
        a is not a positive number.

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
        if not 0 < self.a < inf:
            raise AlphaMFError(f"a must be a positive number, not {self.a}")

    def __call__(self, step: int) -> float:
        """Return the step size of step `step` (0 for the first)."""
        return float((self.a / (step + 1)) ** self.b)


@dataclass(frozen=True)
class Held:
    """Step sizes that change at every `block`-th step only, as HAMCMC needs them.

    Attributes
    ----------
    schedule
        A number, or a function of the step index.
    block
        Number of steps of one size: HAMCMC's `memory`.

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
