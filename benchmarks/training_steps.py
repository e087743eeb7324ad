r"""Time steps of training, with freed memory given back to the system, and with freed memory kept.

For example::

    python -m benchmarks.training_steps models/causal-16k.toml --mixtures mixtures

The mixtures of the first steps are made if they are absent. Each line is of a process of its own,
and they take turns; all have the same loss.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from pathlib import Path

from alphamf.learnt.dictionary import load
from alphamf.tools import allocator, tables
from alphamf.training.refiner import configured
from alphamf.training.refiner.run import Run, prepared

STEPS = 10
TURNS = 2


def timed(run: Run, kept: bool) -> list[str]:
    """Return a line of the table: times of a step in s, memory in MB, and the last loss."""
    import torch

    from alphamf.training.refiner.optimise import Fit

    torch.set_num_threads(run.jobs)
    clips, _ = prepared(run, STEPS)
    fit = Fit(run.config, load(run.config.network.model), None)
    with allocator.freed_kept() if kept else nullcontext():
        fit.advance(clips)  # the first step is slower
        began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF)
        for _ in range(STEPS):
            found = fit.advance(clips)
        after, clock = resource.getrusage(resource.RUSAGE_SELF), time.monotonic() - began
    spent = [clock, after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime]
    shares = [f"{each / STEPS:.2f}" for each in spent]
    name = "kept" if kept else "given back"
    return [name, *shares, f"{after.ru_maxrss // 1024}", f"{found['loss']:.6f}"]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("config", type=Path)
    parser.add_argument("--mixtures", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    run = Run(configured.load(asked.config), Path(), asked.mixtures, asked.jobs, print)
    prepared(run, STEPS)
    lines = []
    for kept in TURNS * [False, True]:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            lines.append(pool.submit(timed, run, kept).result())
    headings = ["freed memory", "s a step", "of it in the process", "in the system", "MB", "loss"]
    print(tables.markdown(headings, lines))


if __name__ == "__main__":
    main()
