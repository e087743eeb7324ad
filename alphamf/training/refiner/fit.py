"""A training run of the refiner: make the clips that do not exist yet, then train the network."""

from __future__ import annotations

import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.learnt.dictionary import Dictionary
from alphamf.learnt.refiner import Refiner
from alphamf.tools import pool
from alphamf.tools.files import shown
from alphamf.training.refiner import shards
from alphamf.training.refiner.shards import Recipe, Shard

if TYPE_CHECKING:
    from alphamf.training.refiner.losses import Losses
    from alphamf.training.refiner.optimise import Report


def make_clips(recipe: Recipe, folder: Path, clips: int, jobs: int) -> list[Shard]:
    """Make the clips that do not exist yet.

    Parameters
    ----------
    recipe
        Of the clips.
    folder
        Where their files lie.
    clips
        How many there are to be.
    jobs
        Number of processes.

    Returns
    -------
    list of Shard
        The files of all clips.

    Raises
    ------
    AlphaMFError
        The folder holds clips of another recipe, or a file cannot be made.
    """
    planned = shards.plan(recipe, folder, clips)
    left = shards.missing(planned)
    for outcome in pool.each(_make, left, workers=jobs, in_order=False):
        outcome.value()
        _print(outcome.item)
    return planned


def _make(shard: Shard, update: object) -> None:
    shards.make(shard)


def _print(shard: Shard) -> None:
    print(f"{shown(shard.path)}: {shard.clips} mixtures", flush=True)


def train(
    planned: list[Shard],
    dictionary: Dictionary,
    output: Path,
    *,
    epochs: float,
    seed: int,
    start: Refiner | None = None,
) -> None:
    """Train the network; print reports, and save it at every validation.

    Parameters
    ----------
    planned
        The files of the clips, as from `make_clips`.
    dictionary
        That the clips were made with.
    output
        File of the network.
    epochs
        Passes over the training clips.
    seed
        Of the initial parameters, and of the order of the clips.
    start
        Network to go on from; None: a new one.

    Raises
    ------
    AlphaMFError
        There are too few clips, training diverges, or `output` cannot be written.
    """
    from alphamf.training.refiner.objective import objective
    from alphamf.training.refiner.optimise import optimise

    began = time.perf_counter()
    clips = shards.Clips(planned)
    for report in optimise(
        clips,
        dictionary.frame,
        dictionary.rate,
        epochs=epochs,
        seed=seed,
        start=start.parameters if start else None,
    ):
        print(_line(report, time.perf_counter() - began), flush=True)
        if not np.isfinite(report.training).all():
            raise AlphaMFError(f"training diverged before step {report.step}")
        if report.validation is not None:
            parameters = {name: np.asarray(value) for name, value in report.parameters.items()}
            about = _about(planned, epochs, seed, report) | {"start": start and start.name}
            frame = objective(clips[0], dictionary.frame, dictionary.rate).frame
            Refiner(parameters, dictionary.rate, frame, about=about).save(output)


def _line(report: Report, seconds: float) -> str:
    text = f"step {report.step} of {report.steps}, {seconds:.0f} s: {_shown(report.training)}"
    if report.validation is None:
        return text
    return f"{text}; validation: {_shown(report.validation)}"


def _shown(found: Losses) -> str:
    distortion = -10 / np.log(10) * found.distortion
    rest = f"{found.compression:.4f}, {1 - found.intelligibility:.3f}, {found.likelihood:.3f}"
    return f"{distortion:.2f} dB, {rest}"


def _about(planned: list[Shard], epochs: float, seed: int, report: Report) -> dict[str, Any]:
    """Return the metadata that the file keeps."""
    recipe = planned[0].recipe
    return {
        "software": f"alphamf {version('alphamf')}",
        "model": recipe.model,
        "first": recipe.first or None,
        "clips": sum(shard.clips for shard in planned),
        "seconds": recipe.seconds,
        "epochs": epochs,
        "seed": seed,
        "step": report.step,
        "held_out": report.validation._asdict() if report.validation else None,
    }
