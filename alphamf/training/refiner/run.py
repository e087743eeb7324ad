"""A training run: mixtures, steps, checkpoints, scores and the network file, in one folder."""

from __future__ import annotations

import csv
import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from alphamf.denoising.weights import frame_for
from alphamf.errors import AlphaMFError
from alphamf.learnt.causal import CausalRefiner
from alphamf.learnt.dictionary import Dictionary
from alphamf.learnt.dictionary import load as load_dictionary
from alphamf.learnt.network import shapes
from alphamf.learnt.network_file import TrainedNetwork, find
from alphamf.learnt.refiner import Refiner
from alphamf.learnt.second_stage import SecondStage
from alphamf.tools import machine
from alphamf.tools.arrays import Array
from alphamf.tools.extras import install_torch
from alphamf.tools.files import (
    atomic_file,
    current_folder,
    exclusive_lock,
    file_errors,
    make_folder,
    printable_name,
    refuse_links,
)
from alphamf.training.refiner import shards
from alphamf.training.refiner.config import (
    CausalHighBandKind,
    CausalSecondStageKind,
    Config,
    Kind,
)
from alphamf.training.refiner.shards import Clips

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alphamf.training.refiner.optimise import Fit

CHECKPOINT, NETWORK, CONFIGURATION = "checkpoint.pt", "network.npz", "config.json"
TABLE = "curves.csv"
"""Names of the files in a run's folder."""

Tell = Callable[[str], None]
"""A function that receives a line about the progress of the run."""


class Run(NamedTuple):
    """Configuration, folders and resources of a run."""

    config: Config  # Configuration of the training
    folder: Path  # Folder of the run
    mixtures: Path  # Folder of the mixtures, which several runs may share
    # Number of processes that make mixtures, and of threads of a training step. The last bits of
    # sums depend on the number of threads.
    jobs: int
    tell: Tell  # Called with a line about the progress of the run
    # PyTorch's device to train on: ``cpu`` or ``cuda``. With cuda the mixtures for later steps are
    # made while the network is trained.
    device: str = "cpu"


def check_installed(device: str = "cpu") -> None:
    """Raise an AlphaMFError if PyTorch, its device or the current folder is missing."""
    current_folder()
    try:
        import torch
    except ImportError as error:
        raise AlphaMFError(
            f"training a network needs PyTorch; install it with {install_torch('learn')}"
        ) from error
    if device != "cpu" and not torch.cuda.is_available():
        raise AlphaMFError(f"PyTorch finds no device {device} on this machine")


def train(run: Run, until: int | None = None) -> list[dict[str, float]]:
    """Train the network of a configuration, or resume a stopped run; return the rows of the log.

    The folder then holds the checkpoint, a table of the losses and, after a first score, the
    ``network.npz`` of the last score. `until` is the step to stop at; None: the last.
    """
    check_installed(run.device)
    config = run.config
    last = config.schedule.steps if until is None else until
    dictionary = load_dictionary(config.network.model)
    start = _start(config, dictionary)
    with _claimed(run):
        clips, dev = prepare_clips(run, last)
        import torch

        from alphamf.training.refiner.optimise import Fit

        torch.set_num_threads(run.jobs)
        with machine.keep_freed_memory():
            return _steps(run, Fit(config, dictionary, start, run.device), (clips, dev), last)


def _steps(run: Run, fit: Fit, sets: tuple[Clips, Clips], last: int) -> list[dict[str, float]]:
    """Run the remaining steps, from the checkpoint if there is one; return the rows of the log."""
    clips, dev = sets
    checkpoint = run.folder / CHECKPOINT
    rows = fit.load(checkpoint) if checkpoint.exists() else []
    while fit.step < last:
        rows.append(_stretch(run, fit, clips, dev, rows))
        fit.save(checkpoint, rows)
        _write_table(run.folder, rows)
    return rows


def _write_table(folder: Path, rows: Sequence[Mapping[str, float]]) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    with (
        atomic_file(folder / TABLE, within=folder) as part,
        part.open("w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.DictWriter(file, names, restval="")
        writer.writeheader()
        writer.writerows(rows)


def check(run: Run) -> str:
    """Train to the step of the `Ladder`; return its loss in words, or raise an AlphaMFError."""
    ladder = run.config.ladder
    if ladder is None:
        raise AlphaMFError("the configuration has no [ladder] section to compare with")
    row = next(row for row in train(run, ladder.step) if row["step"] == ladder.step)
    found = f"the loss at step {ladder.step} is {row['loss']:.4f}"
    if np.isnan(ladder.loss):
        return f"{found}, but the configuration has no loss to compare it with"
    recorded = f"{ladder.loss:.4f} ± {ladder.within:.4f} is recorded"
    if abs(row["loss"] - ladder.loss) > ladder.within:
        raise AlphaMFError(f"{found}, and {recorded}")
    return f"{found}, as {recorded}"


def network_of(
    config: Config, dictionary: Dictionary, parameters: Mapping[str, Array], about: dict[str, Any]
) -> TrainedNetwork:
    """Return the network of a configuration with these parameters, in the class for denoising."""
    values = {name: np.asarray(value) for name, value in parameters.items()}
    wanted = config.network
    frame = wanted.kind.frame(dictionary)
    return wanted.kind.network(values, dictionary.rate, frame, wanted.exponent, about=about)


def _start(config: Config, dictionary: Dictionary) -> dict[str, Array] | None:
    """Check the networks; return the parameters to start from, or None for a new network."""
    empty = network_of(config, dictionary, {}, {})
    cells, bands = empty.cells(empty.frame), config.network.bands
    if bands >= cells:
        raise AlphaMFError(f"[network] bands must be fewer than the {cells} bins, not {bands}")
    _check_before(config.network.kind, dictionary)
    if not config.network.start:
        return None
    found = type(empty).load(find(config.network.start))
    if found.rate > empty.rate:
        found = keep_lowest_bins(found, empty)
    same = found.shapes == shapes(cells, config.network.sizes)
    if not same or (found.rate, found.frame) != (empty.rate, empty.frame):
        raise AlphaMFError(
            f"the network {found.name} does not have the rate and sizes of the configuration"
        )
    if not bands:
        return found.parameters
    from alphamf.training.refiner import weight_tying

    return weight_tying.fit_tied(found.parameters, cells, bands)


def _check_before(trained: Kind, dictionary: Dictionary) -> None:
    """Raise an AlphaMFError if an earlier network's rate or window does not fit `dictionary`."""
    wanted: list[type[TrainedNetwork]] = [Refiner, SecondStage]
    if isinstance(trained, CausalHighBandKind | CausalSecondStageKind):
        wanted = [CausalRefiner]
    for name, kind in zip(trained.earlier_networks, wanted, strict=False):
        found = kind.load(find(name))
        if (found.rate, found.frame) != (dictionary.rate, frame_for(kind, dictionary)):
            raise AlphaMFError(
                f"the {kind.kind} {found.name} has another rate or window than {dictionary.name}"
            )


def keep_lowest_bins(found: TrainedNetwork, wanted: TrainedNetwork) -> TrainedNetwork:
    """Return a network cut to the bins of a lower rate, or as it is if window durations differ."""
    if found.frame.n_fft * wanted.rate != wanted.frame.n_fft * found.rate:
        return found
    p, bins, known = found.parameters, wanted.frame.bins, found.sizes
    lowest = {
        "in.weight": p["in.weight"][: bins * known.features],
        "map.weight": p["map.weight"][:, : bins * known.maps],
        "map.bias": p["map.bias"][: bins * known.maps],
    }
    return replace(found, parameters=p | lowest, rate=wanted.rate, frame=wanted.frame)


@contextmanager
def _claimed(run: Run) -> Iterator[None]:
    """Lock the run's folder against other processes; refuse a folder of another configuration."""
    text = json.dumps(run.config.as_dict(), indent=1) + "\n"
    written = run.folder / CONFIGURATION
    make_folder(written)
    sentence = f"another run is training in {printable_name(run.folder)}"
    with exclusive_lock(run.folder, sentence, folder=True):
        others = [run.folder / name for name in (CHECKPOINT, NETWORK, TABLE)]
        for path in (written, *others):
            refuse_links(path, run.folder)
        with file_errors(written, "read", UnicodeDecodeError):
            known = written.read_text(encoding="utf-8") if written.exists() else None
        if known is None:
            for path in others:
                if path.exists():
                    raise AlphaMFError(
                        f"{printable_name(path)} does not belong to a run; choose another folder"
                    )
            with atomic_file(written, within=run.folder) as part:
                part.write_text(text, encoding="utf-8")
        elif known != text:
            raise AlphaMFError(
                f"{printable_name(run.folder)} contains a run with another configuration; "
                "choose another "
                "folder"
            )
        yield


def prepare_clips(run: Run, last: int) -> tuple[Clips, Clips]:
    """Make dev clips, and training clips up to step `last`, in a thread for a GPU; return both."""
    config = run.config
    count = min(config.mixtures.clips, last * config.schedule.batch)
    sets = {"train": config.mixtures.clips, "dev": config.mixtures.dev_clips}
    planned = {
        split: shards.plan(config, run.mixtures, split, clips) for split, clips in sets.items()
    }
    needed = [*planned["dev"], *(each for each in planned["train"] if each.first < count)]
    making = shards.Making(needed, run.jobs, run.tell)
    if run.device == "cpu":  # it has no cores to spare for both
        making.run()
        making.check()
    else:
        making.start()
    return Clips(planned["train"], making), Clips(planned["dev"], making)


def _stretch(
    run: Run, fit: Fit, clips: Clips, dev: Clips, rows: Sequence[Mapping[str, float]]
) -> dict[str, float]:
    """Run the steps up to the next row of the log; return this row; score and save when due."""
    schedule = run.config.schedule
    began, before = time.perf_counter(), rows[-1]["seconds"] if rows else 0.0
    recent = [fit.advance(clips)]
    while fit.step % schedule.report_every and fit.step < schedule.steps:
        recent.append(fit.advance(clips))
    row = {"step": fit.step, "seconds": 0.0} | {
        name: sum(each[name] for each in recent) / len(recent) for name in recent[0]
    }
    if fit.step % schedule.score_every == 0 or fit.step == schedule.steps:
        found, scored = fit.validate(dev)
        scores = {} if scored is None else scored._asdict()
        row |= {f"dev {name}": value for name, value in (found | scores).items()}
        _save(run, fit, row)
    row["seconds"] = round(before + time.perf_counter() - began, 1)
    run.tell(_line(row, schedule.steps))
    return row


def _save(run: Run, fit: Fit, row: Mapping[str, float]) -> None:
    """Save the network with its configuration, and with the scores in a row of the log."""
    parameters = {name: value.numpy() for name, value in fit.result().items()}
    packed = np.concatenate([value.ravel() for value in parameters.values()]).astype(np.float16)
    about = {
        "software": f"alphamf {version('alphamf')}",
        "step": fit.step,
        "dev": {key.removeprefix("dev "): row[key] for key in row if key.startswith("dev ")},
        "sha256 of parameters": hashlib.sha256(packed.tobytes()).hexdigest(),
        "config": run.config.as_dict(),
    }
    dictionary = load_dictionary(run.config.network.model)
    refuse_links(run.folder / NETWORK, run.folder)
    network_of(run.config, dictionary, parameters, about).save(run.folder / NETWORK)


def _line(row: Mapping[str, float], steps: int) -> str:
    """Format a row of the log as a line of text."""
    numbers = [f"{name} {row[name]:.4g}" for name in row if name not in ("step", "seconds")]
    return f"step {row['step']} of {steps}, {row['seconds']:.0f} s: {', '.join(numbers)}"
