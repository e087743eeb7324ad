"""Processor time of the presets and of other denoisers, on the same clips, in one run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from alphamf.denoising.settings import PRESETS
from alphamf.errors import AlphaMFError
from alphamf.evaluation.baselines.base import Clip
from alphamf.evaluation.baselines.registry import METHODS
from alphamf.evaluation.cost import timed
from alphamf.research.speed.measure import synthetic_sound

RATES = (8000, 16000, 48000)
LENGTHS = (2, 10)
"""Seconds of the two clips. What a method takes for a second is what the longer one takes more, so
that processes and networks that are started for each clip do not count."""

SLOW = ("paper",)
"""Presets that take minutes."""

UNIT = ("rnnoise", "logmmse")
"""The first of these that runs is the unit of the ratios."""


class Peer(NamedTuple):
    """Processor time of a method, medians over the rounds.

    Attributes
    ----------
    name
        Of the method.
    cost
        Sampling rate in Hz to seconds of processor time a second of sound; NaN where it failed.
    ratio
        Likewise, to the median of its time over that of the unit in the same round.
    """

    name: str
    cost: dict[int, float]
    ratio: dict[int, float]


def names() -> list[str]:
    """Return the methods that can run here: the presets after the others."""
    others = [
        name
        for name, method in METHODS.items()
        if method.available() is None and name not in ("noisy", "oracle-mask", "is-nmf", "kl-nmf")
    ]
    return [*others, *(name for name in PRESETS if name not in SLOW)]


def peers(rounds: int) -> Iterator[Peer]:
    """Measure all methods that are installed, in turn on this core, at every rate."""
    methods = names()
    unit = methods.index(next(name for name in UNIT if name in methods))
    costs = {rate: np.array([_round(methods, rate) for _ in range(rounds)]) for rate in RATES}
    with np.errstate(all="ignore"):
        ratios = {rate: found / found[:, unit, None] for rate, found in costs.items()}
    for k, name in enumerate(methods):
        yield Peer(
            name,
            {rate: float(np.median(found[:, k])) for rate, found in costs.items()},
            {rate: float(np.median(found[:, k])) for rate, found in ratios.items()},
        )


def _round(methods: list[str], rate: int) -> list[float]:
    """Return the processor time of every method for a second of sound."""
    return [_marginal(name, rate) for name in methods]


def _marginal(name: str, rate: int) -> float:
    times = []
    for seconds in LENGTHS:
        sound = synthetic_sound(seconds, rate)
        with suppress(AlphaMFError):
            times.append(timed(name, Clip(sound, rate, sound))[1].cpu)
    if len(times) < len(LENGTHS):
        return float("nan")
    return (times[1] - times[0]) / (LENGTHS[1] - LENGTHS[0])
