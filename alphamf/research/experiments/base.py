"""The definition of an experiment, and functions for its times and tables.

An experiment is a list of independent jobs, such as one method with one seed. Each job returns
numbers, from which a table and a figure are made.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from math import isnan
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from alphamf.inference import leaps
from alphamf.inference.blocks.ranks import Ranks
from alphamf.inference.chain import run
from alphamf.tools import extras, tables
from alphamf.tools.arrays import Array

Job = dict[str, Any]
"""The settings that identify a job: JSON values only, among them its sizes and its seed."""

Numbers = dict[str, Any]
"""The results of a job: JSON values only."""


class JobRecord(NamedTuple):
    """A job and its results."""

    job: Job
    numbers: Numbers


@dataclass(frozen=True)
class Experiment:
    """A result of a paper to reproduce, with functions for its jobs, its table and its figure."""

    name: str  # As on the command line
    paper: str  # The paper, and its tables and figures
    minutes: tuple[float, float]  # About how long the quick and the full form take on two cores
    # ``jobs(full, seed)`` lists the jobs; `seed` shifts the seeds of all jobs.
    jobs: Callable[[bool, int], list[Job]]
    # ``work(job)`` runs a job; it is a function at the top level of a module, and writes no files.
    work: Callable[[Job], Numbers]
    # ``table(records)`` returns the rows, dicts with the same keys, among them the paper's own
    # numbers if it prints them.
    table: Callable[[list[JobRecord]], list[dict[str, Any]]]
    figure: Callable[[list[JobRecord]], Any]  # ``figure(records)`` returns a matplotlib figure
    data: tuple[str, ...] = ()  # Names of the corpora that it reads
    # ``over_ranks(job, ranks, checkpoint)`` does this rank's part of a job if ``mpiexec`` started
    # several ranks, resumes from the folder `checkpoint`, and returns numbers, of which those of
    # rank 0 are used. None: the experiment is for one process.
    over_ranks: Callable[[Job, Ranks, Path], Numbers] | None = None


@contextmanager
def in_numpy() -> Iterator[None]:
    """Make all samplers step in NumPy: compiled leaps, which only some have, would distort times.

    Used as a decorator of functions that measure times.
    """
    with patch.object(leaps, "COMPILED", False):
        yield


@in_numpy()
def seconds_per_step(
    target: Any, samplers: Sequence[Any], steps: int, start: Array | None = None
) -> list[list[float]]:
    """Return each sampler's CPU seconds per step with one chain, in five parts of a run.

    The parts alternate between the samplers, so that other load affects all of them alike; five
    steps before them do not count.

    `steps`: of all parts. `start`: shape (D,).
    """
    part = max(1, steps // 5)
    runs = [run(target, each, steps=5 * part + 5, seed=0, start=start) for each in samplers]
    for states in runs:
        list(islice(states, 5))
    times: list[list[float]] = [[] for _ in samplers]
    for _ in range(5):
        for states, own in zip(runs, times, strict=True):
            begun = time.process_time()
            for _state in islice(states, part):
                pass
            own.append((time.process_time() - begun) / part)
    return times


def blank_figure(width: float, height: float) -> Any:
    """Return an empty figure of Matplotlib; `width` and `height` are in inches."""
    figure = extras.load_library("matplotlib.figure").Figure
    return figure(figsize=(width, height), layout="constrained")


def blank_panels(width: float, height: float, *grid: int, **more: Any) -> tuple[Any, Any]:
    """Return a figure and its panels: `grid` rows and columns, or one; `more`: see ``subplots``."""
    drawing = blank_figure(width, height)
    return drawing, drawing.subplots(*grid, **more)


def job_key(job: Job) -> str:
    """Return the text that identifies a job: its settings as JSON with sorted keys."""
    return json.dumps(job, sort_keys=True)


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """Return rows as a Markdown table; all columns but the first are aligned to the right."""
    headings = list(rows[0])
    return tables.markdown(headings, [[_cell(row[each]) for each in headings] for row in rows])


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def format_spread(values: Sequence[float] | None, digits: int = 3) -> str | None:
    """Return mean and standard error of independent values, as text; None if there are none."""
    return mean_and_error(values, digits) if values else None


def mean_and_error(values: Sequence[float], digits: int = 4) -> str:
    """Return mean and standard error of independent values, as text; no error for a single one."""
    mean, error = tables.mean_and_error(values)
    text = f"{mean:.{digits}g}"
    return text if isnan(error) else f"{text} ± {error:.2g}"
