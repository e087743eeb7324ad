"""Jobs of an experiment over MPI ranks: rank 0 runs the frame, and the others do their share."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from alphamf.inference.blocks.ranks import Ranks
from alphamf.research.experiments.base import Experiment, Job, Numbers, Record
from alphamf.tools.files import shown


def lead(
    experiment: Experiment, jobs: list[Job], ranks: Ranks, checkpoints: Path
) -> Iterator[Record]:
    """Do jobs together with the ranks that `follow`; the checkpoint of each goes after it."""
    lost = (
        "a rank was lost, or the run was stopped: the same command goes on from the last "
        f"checkpoint, in {shown(checkpoints)}"
    )
    with ranks.watched(lost):
        for job in jobs:
            ranks.broadcast(job)
            yield Record(job, _work(experiment, job, ranks, checkpoints))
            shutil.rmtree(checkpoints, ignore_errors=True)
    ranks.broadcast(None)


def follow(experiment: Experiment, ranks: Ranks, checkpoints: Path) -> None:
    """Do this rank's share of the jobs that rank 0 names."""
    while (job := ranks.broadcast(None)) is not None:
        _work(experiment, job, ranks, checkpoints)


def _work(experiment: Experiment, job: Job, ranks: Ranks, checkpoints: Path) -> Numbers:
    assert experiment.over_ranks is not None
    name = hashlib.sha256(json.dumps(job, sort_keys=True).encode()).hexdigest()[:16]
    return experiment.over_ranks(job, ranks, checkpoints / name)
