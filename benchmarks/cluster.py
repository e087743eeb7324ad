"""Time and traffic of a task of ``--cluster``, for the cost model of docs/scale.md.

    python -m benchmarks.cluster

First the bytes of a task and its result, for files named as long as here, then a row a number of
workers: tasks that only sleep, so that workers beyond the cores of this machine can stand for other
machines. Needs the extra ``cluster``.
"""

from __future__ import annotations

import argparse
import os
import pickle
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import soundfile

from alphamf.audio.inputs import plan
from alphamf.denoising.file import Request, process
from alphamf.denoising.settings import PRESETS
from alphamf.evaluation.measure import measure
from alphamf.evaluation.methods import resolve
from alphamf.evaluation.observers import Observers
from alphamf.evaluation.pairs import find_pairs
from alphamf.evaluation.runner import plan as plan_evaluation
from alphamf.tools import cluster
from alphamf.tools.stopping import stoppable
from alphamf.tools.tables import markdown
from alphamf.tools.work import Update, attempt

RATE = 8000

PAYLOAD = 700
"""Bytes in place of the names and settings of a task, and of its result."""


def asleep(job: Any, update: Update | None, seconds: float) -> Any:
    """Sleep, in place of the work on a file.

    Parameters
    ----------
    job
        Is returned.
    update
        Not used.
    seconds
        To sleep.
    """
    time.sleep(seconds)
    return job


def sizes(folder: Path) -> list[list[str]]:
    """Return a row each for ``denoise`` and ``evaluate``: bytes of a task and of its result."""
    rng = np.random.default_rng(0)
    for name in ("clean/a.wav", "noisy/car_5dB/a.wav"):
        path = folder / name
        path.parent.mkdir(parents=True)
        soundfile.write(path, 0.1 * rng.standard_normal(RATE), RATE)
    files = plan([str(folder / "noisy")], output_dir=str(folder / "out"))
    pairs = find_pairs(str(folder / "clean"), [str(folder / "noisy")])
    jobs = plan_evaluation(pairs, resolve(["fast"]), str(folder / "results"), seed=0)
    rows = []
    for command, work, job in (
        ("denoise", partial(process, request=Request(PRESETS["fast"], Observers)), files.jobs[0]),
        ("evaluate", partial(measure, stoppable=stoppable), jobs[0]),
    ):
        outcome = attempt(work, job, None)
        assert outcome.error is None, outcome.error
        task = cluster.Task(work, os.getcwd(), "0.1.0", None)
        sent = len(pickle.dumps((task, pickle.dumps(job))))
        rows.append([command, str(sent), str(len(pickle.dumps(outcome._replace(item=None))))])
    return rows


def cost(tasks: int, workers: int, seconds: float) -> list[str]:
    """Return a row of the table.

    Parameters
    ----------
    tasks
        How many tasks sleep.
    workers
        How many there are.
    seconds
        That a task sleeps.
    """
    work = partial(asleep, seconds=seconds)
    began = time.perf_counter()
    ends, sent = [], []
    items = [os.urandom(PAYLOAD) for _ in range(tasks)]
    for _ in cluster.each(work, items, workers=workers, in_order=False, address="local"):
        ends.append(time.perf_counter())
        if len(ends) in (1, tasks):
            sent.append(psutil.net_io_counters(pernic=True)["lo"].bytes_sent)
    mean = (ends[-1] - ends[0]) / (tasks - 1)
    return [
        str(workers),
        f"{1e3 * seconds:g}",
        f"{ends[0] - began - seconds:.1f}",
        f"{1e3 * mean:.1f}",
        f"{1e3 * (mean - seconds / workers):.1f}",
        f"{(sent[1] - sent[0]) / (tasks - 1):.0f}",
    ]


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--seconds", type=float, nargs="+", default=[0.0, 0.1])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(markdown(["command", "bytes of a task", "of its result"], sizes(Path(folder))))
    headings = ["workers", "ms asleep", "s before the first", "ms a task", "beyond sleep / workers"]
    rows = [cost(options.tasks, w, s) for s in options.seconds for w in options.workers]
    print(markdown([*headings, "bytes a task on the loopback"], rows))


if __name__ == "__main__":
    main()
