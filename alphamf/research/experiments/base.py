"""What an experiment is, and the loop that runs its jobs, resumes them, and writes the results.

An experiment is a list of jobs, such as one method with one seed, independent of each other. Each
job gives numbers, which are kept as a JSON line as soon as it ends; a run that was stopped goes on
with the jobs that are missing. A table and a figure are made from the numbers alone.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from math import isnan
from pathlib import Path
from typing import Any, NamedTuple

from alphamf.errors import AlphaMFError
from alphamf.inference.blocks.ranks import Ranks, launched
from alphamf.research.corpora import find
from alphamf.tools import jsonlines, tables
from alphamf.tools.files import atomic, lock, reason, shown

Job = dict[str, Any]
"""What tells a job from the others: JSON values only, among them its sizes and its seed."""

Numbers = dict[str, Any]
"""What a job found: JSON values only."""


class Record(NamedTuple):
    """A job and what it found."""

    job: Job
    numbers: Numbers


@dataclass(frozen=True)
class Experiment:
    """A table or figure of a paper.

    Attributes
    ----------
    name
        As on the command line.
    paper
        The paper, and its tables and figures.
    minutes
        About how long the quick and the full form take on two cores.
    jobs
        ``jobs(full, seed)`` lists the jobs; `seed` shifts all of theirs.
    work
        ``work(job)`` runs one; a function at the top of its module, which writes no files.
    table
        ``table(records)`` returns the rows, dicts with the same keys, among them the paper's own
        figures where it prints them.
    figure
        ``figure(records)`` returns a matplotlib figure.
    data
        Names of the corpora that it reads.
    over_ranks
        ``over_ranks(job, ranks, checkpoint)`` does this rank's share of a job where ``mpiexec``
        started several, resuming from that folder; rank 0 returns the numbers. None: the
        experiment is for one process.
    """

    name: str
    paper: str
    minutes: tuple[float, float]
    jobs: Callable[[bool, int], list[Job]]
    work: Callable[[Job], Numbers]
    table: Callable[[list[Record]], list[dict[str, Any]]]
    figure: Callable[[list[Record]], Any]
    data: tuple[str, ...] = ()
    over_ranks: Callable[[Job, Ranks, Path], Numbers] | None = None


Each = Callable[[Experiment, Sequence[Job]], Iterable[Record]]
"""Does jobs of an experiment, and yields what each found as soon as it is there."""


def run(
    experiment: Experiment,
    output: Path,
    *,
    full: bool = False,
    seed: int = 0,
    each: Each | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """Run the jobs that `output` does not hold yet, and write table and figure.

    Writes ``NAME.jsonl`` (a line per job), ``NAME.csv``, ``NAME.md`` and ``NAME.png``, or
    ``NAME-full.*`` in the full form, and returns the table's rows. Numbers of another version of
    alphamf are not used again. Where ``mpiexec`` started several ranks, they share each job, rank 0
    writes, and the others return no rows.

    Parameters
    ----------
    each
        Does jobs, side by side perhaps. None: one after the other, in this process.
    progress
        Called with the number of jobs done, and of all.

    Raises
    ------
    AlphaMFError
        The folder cannot be written to, data are missing, or a job could not be done.
    """
    ranks = launched()
    if ranks is None:
        return _run(experiment, output, full, seed, each, progress, None)
    with ranks.together():
        if experiment.over_ranks is None:
            raise AlphaMFError(f"{experiment.name} runs in one process: start it without mpiexec")
        if ranks.rank == 0:
            return _run(experiment, output, full, seed, each, progress, ranks)
        from alphamf.research.experiments.over_ranks import follow

        follow(experiment, ranks, _checkpoints(experiment, output, full))
    return []


def _stem(experiment: Experiment, full: bool) -> str:
    return f"{experiment.name}-full" if full else experiment.name


def _checkpoints(experiment: Experiment, output: Path, full: bool) -> Path:
    return output / f"{_stem(experiment, full)}.checkpoint"


def _run(
    experiment: Experiment,
    output: Path,
    full: bool,
    seed: int,
    each: Each | None,
    progress: Callable[[int, int], None] | None,
    ranks: Ranks | None,
) -> list[dict[str, Any]]:
    stem = _stem(experiment, full)
    jobs = experiment.jobs(full, seed)
    lines = output / f"{stem}.jsonl"
    with _locked(lines):
        known = {_key(record.job): record for record in _read(lines)}
        todo = [job for job in jobs if _key(job) not in known]
        if todo:
            # Here, so that a download is not made by every process.
            for name in experiment.data:
                find(name)
        if progress is not None:
            progress(len(jobs) - len(todo), len(jobs))
        results: Iterable[Record]
        if ranks is not None:
            from alphamf.research.experiments.over_ranks import lead

            results = lead(experiment, todo, ranks, _checkpoints(experiment, output, full))
        elif each is not None:
            results = each(experiment, todo)
        else:
            results = (Record(job, experiment.work(job)) for job in todo)
        for done, record in enumerate(results, len(jobs) - len(todo) + 1):
            known[_key(record.job)] = record
            _append(lines, record)
            if progress is not None:
                progress(done, len(jobs))
        records = [known[_key(job)] for job in jobs]
        rows = experiment.table(records)
        _write_csv(output / f"{stem}.csv", rows)
        with atomic(output / f"{stem}.md") as part:
            part.write_text(markdown(rows) + "\n", encoding="utf-8")
        with atomic(output / f"{stem}.png") as part:
            experiment.figure(records).savefig(part, format="png", dpi=110)
        return rows


@contextmanager
def _locked(lines: Path) -> Iterator[None]:
    """Make the file of records and its folder if need be, and keep other runs out."""
    folder = lines.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AlphaMFError(f"{shown(folder)} cannot be made: {reason(error)}") from error
    try:
        file = lines.open("ab")
    except OSError as error:
        raise AlphaMFError(f"{shown(lines)} cannot be written: {reason(error)}") from error
    with file:
        try:
            lock(file.fileno())
        except BlockingIOError as error:
            raise AlphaMFError(f"another run writes to {shown(lines)}") from error
        yield


def _key(job: Job) -> str:
    return json.dumps(job, sort_keys=True)


def _read(path: Path) -> list[Record]:
    """Return the records of this version."""
    return [
        Record(item["job"], item["numbers"])
        for item in jsonlines.read(path)
        if item.get("version") == version("alphamf") and {"job", "numbers"} <= item.keys()
    ]


def _append(path: Path, record: Record) -> None:
    item = {"version": version("alphamf"), "job": record.job, "numbers": record.numbers}
    jsonlines.append(path, item)


def _write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    with atomic(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """Return rows as a Markdown table; all columns but the first are aligned as numbers."""
    headings = list(rows[0])
    return tables.markdown(headings, [[_cell(row[each]) for each in headings] for row in rows])


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def mean_and_error(values: Sequence[float], digits: int = 4) -> str:
    """Return mean and standard error of independent values, as text."""
    mean, error = tables.mean_and_error(values)
    text = f"{mean:.{digits}g}"
    return text if isnan(error) else f"{text} ± {error:.2g}"
