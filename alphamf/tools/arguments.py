"""Checks of arguments: a wrong type or value raises an AlphaMFError of one sentence.

NumPy's numbers are accepted like Python's. A bool is not a number, and NaN is out of every range.
"""

import math
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from alphamf.errors import AlphaMFError

P = ParamSpec("P")
R = TypeVar("R")

MOST_SHOWN = 60
"""Maximum number of characters of a value in a message."""


def shown_value(value: object) -> str:
    """Return a value's repr for a message: one line, shortened if it is long.

    >>> len(shown_value("x" * 1000))
    60
    """
    try:
        text = " ".join(repr(value).split())
    except Exception:  # of a class of the caller's
        text = f"an object of {type(value).__name__}"
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 3] + "..."


def whole_number(
    name: str, value: Any, least: float, most: float | None = None, unit: str = ""
) -> int:
    """Return a whole number from `least` to `most`, both included, as an int."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise AlphaMFError(
            f"{name} must be a whole number{' of' * bool(unit)}{unit}, not {shown_value(value)}"
        ) from None
    if number < least or (most is not None and number > most):
        raise AlphaMFError(f"{name} must be {_range(least, most)}{unit}, not {shown_value(value)}")
    return number


def sampling_rate(name: str, value: Any, least: int, most: int) -> int:
    """Return a sampling rate in Hz as an int; a whole float, such as 16000.0, is accepted."""
    real = isinstance(value, float) or getattr(getattr(value, "dtype", None), "kind", "") == "f"
    if real and getattr(value, "shape", ()) == () and value == value // 1:
        value = int(value)
    return whole_number(name, value, least, most, unit=" Hz")


def real_number(name: str, value: Any, least: float, most: float = math.inf) -> float:
    """Return a real number from `least` to `most`, both included, as an int or float of Python."""
    kind = getattr(value, "dtype", None)
    real = isinstance(value, int | float) if kind is None else kind.kind in "fiu"
    if not real or isinstance(value, bool) or getattr(value, "shape", ()) != ():
        raise AlphaMFError(f"{name} must be a number, not {shown_value(value)}")
    number: float = value if kind is None else float(value)
    if not least <= number <= most:
        raise AlphaMFError(f"{name} must be {_range(least, most)}, not {shown_value(value)}")
    return number


def replace_numbers(settings: Any, numbers: Mapping[str, float]) -> None:
    """Set fields of a frozen dataclass to `numbers`, which the checks above have returned."""
    for name, value in numbers.items():
        object.__setattr__(settings, name, value)


def flag(name: str, value: Any) -> bool:
    """Return a Boolean value as a Python bool."""
    if isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", "") == "b":
        if getattr(value, "shape", ()) == ():
            return bool(value)
    raise AlphaMFError(f"{name} must be True or False, not {shown_value(value)}")


def one_of(name: str, value: Any, options: Sequence[str]) -> str:
    """Return a string that must be one of `options`."""
    if isinstance(value, str) and value in options:
        return value
    *others, last = options
    listed = f"{', '.join(others)} or {last}" if others else last
    raise AlphaMFError(f"{name} must be {listed}, not {shown_value(value)}")


def check_instance(name: str, value: Any, kinds: type | tuple[type, ...], words: str) -> None:
    """Raise an AlphaMFError unless a value is an instance of `kinds`."""
    if not isinstance(value, kinds):
        raise AlphaMFError(f"{name} must be {words}, not {shown_value(value)}")


def check_callback(name: str, value: Callable[..., object] | None) -> None:
    """Raise an AlphaMFError unless a value is callable or None."""
    if value is not None and not callable(value):
        raise AlphaMFError(f"{name} must be a function or None, not {shown_value(value)}")


def file_name(name: str, value: Any, words: str = "the name of a file") -> str:
    """Return a file name, given as a str or path object without NUL characters, as a str."""
    found = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(found, str) or "\0" in found:
        raise AlphaMFError(f"{name} must be {words}, not {shown_value(value)}")
    return found


def name_the_rate(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function: a name such as ``sr=`` in place of `rate` raises a TypeError."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in ("sr", "fs", "samplerate", "sample_rate", "sampling_rate"):
            if name in kwargs:
                raise TypeError(f"{name} is called rate here: rate={shown_value(kwargs[name])}")
        return function(*args, **kwargs)

    return call


def _range(least: float, most: float | None) -> str:
    first, last = (f"{end:g}" if isinstance(end, float) else str(end) for end in (least, most))
    if most is None or most == math.inf:
        return f"at least {first}"
    return f"from {first} to {last}"
