"""Run an experiment over MPI ranks: rank 0 broadcasts the jobs, all ranks work on each."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from alphamf.inference.blocks.ranks import Ranks
from alphamf.research.experiments.base import Experiment, Job, JobRecord, Numbers, job_key
from alphamf.tools.files import printable_name, refuse_links


def lead(
    experiment: Experiment, jobs: Sequence[Job], ranks: Ranks, checkpoints: Path
) -> Iterator[JobRecord]:
    """Run jobs with the ranks that call `follow`; delete each job's checkpoint after it."""
    lost = (
        "a rank was lost or the run was stopped; run the same command again to "
        f"continue from the last checkpoint in {printable_name(checkpoints)}"
    )
    with ranks.report_loss(lost):
        for job in jobs:
            ranks.broadcast(job)
            yield JobRecord(job, _work(experiment, job, ranks, checkpoints))
            shutil.rmtree(checkpoints, ignore_errors=True)
    ranks.broadcast(None)


def follow(experiment: Experiment, ranks: Ranks, checkpoints: Path) -> None:
    """Run this rank's part of the jobs that rank 0 broadcasts."""
    while (job := ranks.broadcast(None)) is not None:
        _work(experiment, job, ranks, checkpoints)


def _work(experiment: Experiment, job: Job, ranks: Ranks, checkpoints: Path) -> Numbers:
    assert experiment.over_ranks is not None
    name = hashlib.sha256(job_key(job).encode()).hexdigest()[:16]
    refuse_links(checkpoints / name, checkpoints.parent)
    return experiment.over_ranks(job, ranks, checkpoints / name)
