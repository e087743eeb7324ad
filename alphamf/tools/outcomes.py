"""Functions that are called for many items, and the outcome of each call."""

import errno
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

from alphamf.errors import AlphaMFError

Item = TypeVar("Item")

Update = Callable[[str, float, float], None]
"""Progress callback: takes the name of an item, how much of it is done, and how much there is."""

Work = Callable[[Any, Update | None], Any]
"""Function that takes an item and a progress callback, and returns the item's result."""

Report = Callable[[str], None]
"""Function that is called with a sentence for the user."""


class Outcome(NamedTuple):
    """The result of an item, or its error."""

    item: Any  # The item, or None while a worker sends the outcome
    result: Any = None  # Result of the function; None after an error.
    error: str | None = None  # Error message of one sentence; None without an error
    # Exit code: 0 without an error, 2 for an AlphaMFError or too little memory, 1 for other errors.
    code: int = 0
    details: str | None = None  # Traceback of an unexpected exception (code 1), or None

    def value(self) -> Any:
        """Return the result, or raise an AlphaMFError (code 2) or a RuntimeError (code 1)."""
        if self.error is None:
            return self.result
        if self.code == 2:
            raise AlphaMFError(self.error)
        raise RuntimeError(self.details or self.error)


def attempt(work: Work, item: Any, update: Update | None) -> Outcome:
    """Return the outcome of a call for an item: its result or any Exception but a broken pipe."""
    try:
        return Outcome(item, work(item, update))
    except AlphaMFError as error:
        return Outcome(item, error=str(error), code=2)
    except MemoryError:
        return Outcome(item, error="there is not enough memory", code=2)
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.EPIPE:
            raise
        sentence = f"{type(error).__name__}: {error}"
        return Outcome(item, error=sentence, code=1, details=traceback.format_exc())


def sort_by_place(found: Iterator[tuple[int, Outcome]]) -> Iterator[tuple[int, Outcome]]:
    """Yield places and outcomes in the order of the places, starting at 0."""
    waiting: dict[int, Outcome] = {}
    place = 0
    for k, outcome in found:
        waiting[k] = outcome
        while place in waiting:
            yield place, waiting.pop(place)
            place += 1
