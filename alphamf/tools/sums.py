"""Sums of values that may be missing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, Self, TypeVar


class Addable(Protocol):
    """A type whose values can be added."""

    def __add__(self, other: Self, /) -> Self:
        """Return the sum."""
        ...


A = TypeVar("A", bound=Addable)


def total(parts: Iterable[A | None]) -> A | None:
    """Return the sum of the values that are not None; None if there are none.

    Examples
    --------
    >>> total([1, None, 2]), total([None])
    (3, None)
    """
    found: A | None = None
    for part in parts:
        if part is not None:
            found = part if found is None else found + part
    return found
