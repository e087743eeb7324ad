"""Run an experiment: resume its jobs, and write its results, table and figure.

Each job's numbers are kept as a JSON line, so that a stopped run continues with missing jobs.
"""

import csv
import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from alphamf.errors import AlphaMFError
from alphamf.inference.blocks.ranks import Ranks, launched_ranks
from alphamf.research.corpora import find
from alphamf.research.experiments.base import (
    Experiment,
    Job,
    JobRecord,
    Numbers,
    job_key,
    markdown,
)
from alphamf.tools import jobs, pool
from alphamf.tools.files import atomic_file, printable_name, refuse_links

Each = Callable[[Experiment, Sequence[Job]], Iterable[JobRecord]]
"""Function that runs jobs of an experiment, and yields each job's record as soon as it ends."""

Progress = Callable[[int, int], None]
"""Function that is called with the number of jobs done, and the number of all jobs."""


def run_in_turn(experiment: Experiment, todo: Sequence[Job]) -> Iterator[JobRecord]:
    """Run jobs one after the other in this process, and yield their records."""
    return (JobRecord(job, experiment.work(job)) for job in todo)


def in_processes(
    experiment: Experiment, todo: Sequence[Job], *, workers: int, report: Any
) -> Iterator[JobRecord]:
    """Run jobs in parallel processes with one thread each, and yield their records."""
    work = partial(_work, name=experiment.name)
    yield from pool.results(work, todo, workers=workers, in_order=False, report=report)


def _work(job: Job, name: str) -> JobRecord:
    from alphamf.research.experiments.catalogue import EXPERIMENTS

    return JobRecord(job, EXPERIMENTS[name].work(job))


def run(
    experiment: Experiment,
    output: Path,
    *,
    full: bool = False,
    seed: int = 0,
    each: Each = run_in_turn,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Run the jobs without a result in `output`; write table and figure; return the table's rows.

    Writes ``NAME.jsonl``, ``NAME.csv``, ``NAME.md`` and ``NAME.png``, or ``NAME-full.*`` with
    `full`; results of other versions of alphamf are not used. Ranks of ``mpiexec`` run a job
    together (`each` is unused), or raise AlphaMFError; only rank 0 writes these and returns rows.
    """
    stem = output / (f"{experiment.name}-full" if full else experiment.name)
    ranks = launched_ranks()
    if ranks is None:
        return _run(experiment, stem, experiment.jobs(full, seed), each, progress)
    with ranks.abort_on_error():
        if experiment.over_ranks is None:
            raise AlphaMFError(f"{experiment.name} runs in one process; start it without mpiexec")
        checkpoints = stem.with_name(f"{stem.name}.checkpoint")
        if ranks.rank == 0:
            lead = partial(_lead, ranks=ranks, checkpoints=checkpoints)
            return _run(experiment, stem, experiment.jobs(full, seed), lead, progress)
        _follow(experiment, ranks, checkpoints)
    return []


def _run(
    experiment: Experiment,
    stem: Path,
    todo: Sequence[Job],
    each: Each,
    progress: Progress | None,
) -> list[dict[str, Any]]:
    """Run the jobs without results, write the files `stem` with a suffix, and return the rows."""

    def do(left: Sequence[Job]) -> Iterator[JobRecord]:
        if left:
            # Downloaded here, so that worker processes find the files.
            for name in experiment.data:
                find(name)
        done = len(todo) - len(left)
        if progress is not None:
            progress(done, len(todo))
        for count, record in enumerate(each(experiment, left), done + 1):
            yield record
            if progress is not None:
                progress(count, len(todo))

    file = results_file(stem)
    made = [stem.with_name(f"{stem.name}.{ending}") for ending in ("csv", "md", "png")]
    with file.lock(f"another run is writing to {printable_name(file.path)}", made):
        for _ in jobs.run(file, todo, do, key=job_key, known=file.last_results()):
            pass
        # Read from the file, so that a resumed run has the same numbers: JSON turns inf into null.
        records = file.last_results()
        return _write(experiment, stem, [records[job_key(job)] for job in todo])


def results_file(stem: Path) -> jobs.ResultsFile[JobRecord]:
    """Return the results file `stem` with ``.jsonl``; lines of other versions are ignored."""

    def encode(record: JobRecord) -> dict[str, Any]:
        return {"version": version("alphamf"), **record._asdict()}

    def decode(item: Mapping[str, Any]) -> JobRecord:
        if item["version"] != version("alphamf"):
            raise KeyError("version")
        return JobRecord(item["job"], item["numbers"])

    path = stem.with_name(f"{stem.name}.jsonl")
    return jobs.ResultsFile(path, lambda record: job_key(record.job), encode, decode)


def _write(experiment: Experiment, stem: Path, records: list[JobRecord]) -> list[dict[str, Any]]:
    """Write table and figure, and return the table's rows."""
    rows = experiment.table(records)
    _write_csv(stem.with_name(f"{stem.name}.csv"), rows)
    with atomic_file(stem.with_name(f"{stem.name}.md"), within=stem.parent) as part:
        part.write_text(markdown(rows) + "\n", encoding="utf-8")
    with atomic_file(stem.with_name(f"{stem.name}.png"), within=stem.parent) as part:
        experiment.figure(records).savefig(part, format="png", dpi=110)
    return rows


def _write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    with (
        atomic_file(path, within=path.parent) as part,
        part.open("w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _lead(
    experiment: Experiment, jobs: Sequence[Job], ranks: Ranks, checkpoints: Path
) -> Iterator[JobRecord]:
    """Run jobs with the ranks that call `_follow`, yield records, and delete the checkpoints."""
    lost = (
        "a rank was lost or the run was stopped; run the same command again to "
        f"continue from the last checkpoint in {printable_name(checkpoints)}"
    )
    with ranks.report_loss(lost):
        for job in jobs:
            ranks.broadcast(job)
            yield JobRecord(job, _work_over_ranks(experiment, job, ranks, checkpoints))
            shutil.rmtree(checkpoints, ignore_errors=True)
    ranks.broadcast(None)


def _follow(experiment: Experiment, ranks: Ranks, checkpoints: Path) -> None:
    """Run this rank's part of the jobs that rank 0 broadcasts."""
    while (job := ranks.broadcast(None)) is not None:
        _work_over_ranks(experiment, job, ranks, checkpoints)


def _work_over_ranks(experiment: Experiment, job: Job, ranks: Ranks, checkpoints: Path) -> Numbers:
    assert experiment.over_ranks is not None
    name = hashlib.sha256(job_key(job).encode()).hexdigest()[:16]
    refuse_links(checkpoints / name, checkpoints.parent)
    return experiment.over_ranks(job, ranks, checkpoints / name)
