"""Resumable runs: results are stored as JSON lines, and jobs that have a result are skipped."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from alphamf.errors import AlphaMFError
from alphamf.tools import files, jsonlines

_START = b'{"version": '
"""Start of every line of a results file."""

Job = TypeVar("Job")
Result = TypeVar("Result")


@dataclass(frozen=True)
class ResultsFile(Generic[Result]):
    """A file of results, one JSON object per line; if a job was run again, its last line counts."""

    path: Path  # Path of the results file
    key: Callable[[Result], str]  # Returns a result's key, which is also its job's key
    # Returns a result as an object of JSON values, of which the first is its ``version``.
    encode: Callable[[Result], Mapping[str, Any]]
    # Undoes `encode`; raises KeyError, TypeError or ValueError for a line to be ignored.
    decode: Callable[[Mapping[str, Any]], Result]

    @contextmanager
    def lock(self, sentence: str, made: Sequence[Path] = ()) -> Iterator[None]:
        """Lock the file; raise an AlphaMFError if locked, or if files are links or not ours."""
        files.make_folder(self.path)
        for path in (self.path, *made):
            files.refuse_links(path, self.path.parent)
        if os.path.lexists(self.path):
            self._check_own()
        elif (other := next(filter(os.path.lexists, made), None)) is not None:
            raise _not_ours(other)
        with files.exclusive_lock(self.path, sentence):
            yield

    def _check_own(self) -> None:
        """Raise an AlphaMFError unless the file is empty or has a (partial) line of results."""
        with files.file_errors(self.path, "read"), self.path.open("rb") as file:
            own = any(line.startswith(_START) or _START.startswith(line) for line in file)
            if not own and file.tell():
                raise _not_ours(self.path)

    def read(self) -> Iterator[Result]:
        """Yield the results in the order in which they were appended; skip invalid lines."""
        with files.file_errors(self.path, "read"):
            for item in jsonlines.read(self.path):
                try:
                    result = self.decode(item)
                    hash(self.key(result))
                except (KeyError, TypeError, ValueError):
                    continue
                yield result

    def last_results(self) -> dict[str, Result]:
        """Return the last result for each key."""
        return {self.key(result): result for result in self.read()}

    def append(self, result: Result) -> None:
        """Append a result as one line, and flush it to disk."""
        with files.file_errors(self.path, "written"):
            jsonlines.append(self.path, self.encode(result))


def _not_ours(path: Path) -> AlphaMFError:
    return AlphaMFError(
        f"{files.printable_name(path)} already exists and is not a result of alphamf; choose "
        "another folder"
    )


def run(
    file: ResultsFile[Result],
    jobs: Iterable[Job],
    each: Callable[[Sequence[Job]], Iterable[Result]],
    *,
    key: Callable[[Job], str],
    known: Mapping[str, Result],
    usable: Callable[[Result], bool] = lambda result: True,
) -> Iterator[Result]:
    """Yield all results: first the `usable` ones in `known`, then new ones; append what changed."""
    todo: list[Job] = []
    for job in jobs:
        result = known.get(key(job))
        if result is not None and usable(result):
            yield result
        else:
            todo.append(job)
    for result in each(todo):
        if result != known.get(file.key(result)):
            file.append(result)
        yield result
