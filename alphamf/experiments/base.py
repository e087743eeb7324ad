"""What an experiment is, and the loop that runs its jobs, resumes them, and writes the results.

An experiment is a list of jobs, such as one method with one seed, independent of each other. Each
job gives numbers, which are kept as a JSON line as soon as it ends; a run that was stopped goes on
with the jobs that are missing. A table and a figure are made from the numbers alone.
"""

from __future__ import annotations

import csv
import json
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from alphamf.errors import AlphaMFError
from alphamf.files import atomic, reason, shown

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
        ``work(job)`` runs one, in a process of its own; a function at the top of its module.
    table
        ``table(records)`` returns the rows, dicts with the same keys, among them the paper's own
        figures where it prints them.
    figure
        ``figure(records)`` returns a matplotlib figure.
    """

    name: str
    paper: str
    minutes: tuple[float, float]
    jobs: Callable[[bool, int], list[Job]]
    work: Callable[[Job], Numbers]
    table: Callable[[list[Record]], list[dict[str, Any]]]
    figure: Callable[[list[Record]], Any]


def run(
    experiment: Experiment,
    output: Path,
    *,
    full: bool = False,
    seed: int = 0,
    workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """Run the jobs that `output` does not hold yet, and write table and figure.

    Writes ``NAME.jsonl`` (a line per job), ``NAME.csv``, ``NAME.md`` and ``NAME.png``, or
    ``NAME-full.*`` in the full form, and returns the table's rows. Numbers of another version of
    alphamf are not used again.

    Parameters
    ----------
    workers
        Jobs that run side by side, each in a process with one thread.
    progress
        Called with the number of jobs done, and of all.

    Raises
    ------
    AlphaMFError
        The folder cannot be written to, data are missing, or a job could not be done.
    """
    stem = f"{experiment.name}-full" if full else experiment.name
    jobs = experiment.jobs(full, seed)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AlphaMFError(f"{shown(output)} cannot be made: {reason(error)}") from error
    lines = output / f"{stem}.jsonl"
    try:
        lines.touch()
        known = {_key(record.job): record for record in _read(lines)}
    except OSError as error:
        raise AlphaMFError(f"{shown(lines)} cannot be written: {reason(error)}") from error
    todo = [job for job in jobs if _key(job) not in known]
    if progress is not None:
        progress(len(jobs) - len(todo), len(jobs))
    for done, record in enumerate(_results(experiment, todo, workers), len(jobs) - len(todo) + 1):
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


def _results(experiment: Experiment, jobs: list[Job], workers: int) -> Iterator[Record]:
    if not jobs:
        return
    # Read when a process starts: times are those of one core each.
    for library in ("OPENBLAS", "OMP", "MKL"):
        os.environ[f"{library}_NUM_THREADS"] = "1"
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))
    try:
        waiting = {pool.submit(_work, experiment.name, job): job for job in jobs}
        for future in as_completed(waiting):
            yield Record(waiting[future], future.result())
    finally:
        pool.shutdown(cancel_futures=True)


def _work(name: str, job: Job) -> Numbers:
    experiments: dict[str, Experiment] = import_module("alphamf.experiments").EXPERIMENTS
    return experiments[name].work(job)


def _key(job: Job) -> str:
    return json.dumps(job, sort_keys=True)


def _read(path: Path) -> list[Record]:
    """Return the records of this version; what a kill left of a last line is passed over."""
    records = []
    if path.exists():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                item = json.loads(line)
                if item["version"] == version("alphamf"):
                    records.append(Record(item["job"], item["numbers"]))
            except (ValueError, KeyError, TypeError):
                continue
    return records


def _append(path: Path, record: Record) -> None:
    item = {"version": version("alphamf"), "job": record.job, "numbers": record.numbers}
    with path.open("a+", encoding="utf-8") as file:
        # After a line that was cut off, on a new one.
        end = file.tell()
        broken = end > 0 and path.read_bytes()[-1:] != b"\n"
        file.write(("\n" if broken else "") + json.dumps(item) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    with atomic(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """Return rows as a Markdown table; all columns but the first are aligned as numbers."""
    headings = list(rows[0])
    lines = [headings, ["---"] + ["---:"] * (len(headings) - 1)]
    lines += [[_cell(row[heading]) for heading in headings] for row in rows]
    cells = [[cell.replace("|", r"\|") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def mean_and_error(values: Sequence[float], digits: int = 4) -> str:
    """Return mean and standard error of independent values, as text."""
    import numpy as np

    array = np.asarray(values, float)
    mean = f"{array.mean():.{digits}g}"
    if len(array) < 2:
        return mean
    return f"{mean} ± {array.std(ddof=1) / np.sqrt(len(array)):.2g}"
