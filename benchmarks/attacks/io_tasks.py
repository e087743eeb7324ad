"""Commands whose calls to the system `benchmarks.attacks.io_failures` fails, and their inputs."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.attacks.kill_tasks import (
    Task,
    clips,
    measured,
    mixed,
    plain,
    recordings,
    trained,
    unpacked,
)

QUICK = "--preset fast --steps 3 -q"
TASKS = {
    "denoise": Task(f"denoise input/01.flac --output-dir out {QUICK} --jobs 1", plain),
    "more": Task(
        f"denoise input/00.wav -o out/x.wav --noise-output out/n.wav --uncertainty out/u.npz "
        f"--plot out/p.png --overwrite {QUICK} --jobs 1",
        unpacked,
    ),
    "jobs": Task(f"denoise input --output-dir out {QUICK} --jobs 2", plain),
    "mix": Task("mix input/clean --noise input/noise -o out --snr 0 --overwrite -q", mixed),
    "evaluate": Task(
        "evaluate --clean input/clean --noisy input/noisy --method noisy,logmmse -o out "
        "--jobs 1 -q",
        measured,
    ),
    "train": Task("train input -o out/m.npz --rank 2 --steps 3 -q", trained),
    "adapt": Task(
        "adapt --clean input/speech --noise input/noise -o out/m.npz --rate 8000 "
        "--minutes 0.001 --seed 1 --jobs 1 -q",
        trained,
    ),
}
"""Commands; a process of their own each time where they start others."""


def prepare(name: str, folder: Path) -> None:
    """Write the inputs of a command.

    Parameters
    ----------
    name
        Of the command.
    folder
        Where they go.
    """
    if name == "adapt":
        recordings(folder)
        return
    kinds = {"evaluate": ("noisy", "clean"), "mix": ("noise", "clean")}
    for kind in kinds.get(name, ("",)):
        clips(folder / kind, 2, 0.3)


def lighten(command: str, size: int = 2) -> None:
    """Take work out of this process that makes no call which could fail.

    Charts are drawn in memory, and that is three quarters of the time of `evaluate` and of `adapt`;
    the latter makes as few mixtures and steps as gain something.

    Parameters
    ----------
    command
        Its first word.
    size
        Of `adapt`: the mixtures of what is held out, and the steps.
    """
    if command in ("evaluate", "adapt"):
        from matplotlib.figure import Figure

        Figure.savefig = _nothing_drawn  # type: ignore[method-assign]
    if command == "adapt":
        from alphamf.training.refiner import adapt

        adapt.DEV_CLIPS = adapt.LEAST_STEPS = size
        adapt.TIMED = 2
        adapt._configuration = _small(adapt._configuration)


def _nothing_drawn(figure: object, target: Any, **_: object) -> None:
    target.write(
        '<svg viewBox="0 0 1 1"></svg>' if isinstance(target, io.TextIOBase) else b"a picture"
    )


def _small(whole: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that makes a configuration of short mixtures, one in a step."""

    def configuration(wish: Any) -> Any:
        made = whole(wish)
        mixtures = replace(made.mixtures, seconds=1.0)
        return replace(made, mixtures=mixtures, schedule=replace(made.schedule, batch=1))

    return configuration
