"""Times of the samplers' steps and of whole denoisers.

Everything that is compared is measured in turn, in one process and on one core: on a machine with
other load, ratios are reliable where times are not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from alphamf.denoising.api import denoise
from alphamf.denoising.settings import HYPERPARAMETERS, PRESETS, Settings, kernel
from alphamf.inference.chain import run
from alphamf.inference.random import generator
from alphamf.inference.samplers.hamcmc import HAMCMC
from alphamf.learnt.dictionary import Dictionary
from alphamf.research.speed import paper
from alphamf.research.speed.floor import floor
from alphamf.research.speed.naive import Naive
from alphamf.tools.arrays import Floats, module, to_host

SECONDS = 2.24
"""Length of the paper's clip."""

_WARM = 20


class Step(NamedTuple):
    """Times of one step of a sampler at the paper's size, medians in milliseconds.

    Attributes
    ----------
    sampler, cells
        Name, and cells of a minibatch: ``all`` or ``1/10``.
    alphamf, naive, floor
        This library, plain NumPy in float64, and the lower bound of the machine.
    faster, above
        Medians over the rounds of naive / alphamf and alphamf / floor.
    """

    sampler: str
    cells: str
    alphamf: float
    naive: float
    floor: float
    faster: float
    above: float


class Denoiser(NamedTuple):
    """Time of a denoiser on a clip.

    Attributes
    ----------
    name
        Of the preset or the settings.
    rate, seconds
        Sampling rate in Hz, and length of the clip.
    real_time
        Median time over the rounds, relative to the clip's length.
    """

    name: str
    rate: int
    seconds: float
    real_time: float


def steps(rounds: int, device: str = "cpu") -> Iterator[Step]:
    """Yield the times of every sampler, on all cells and on the paper's tenth of them."""
    power, basis = paper.synthetic()
    xp = module(device)
    for blocks in (1, paper.BLOCKS):
        for name in HYPERPARAMETERS:
            sampler = kernel(name)
            target = paper.target(xp.asarray(power), xp.asarray(basis), blocks)
            ours = stepper(target, sampler, device)
            naive = stepper(Naive(power, basis, 1 / blocks), sampler)
            pairs = sampler.memory - 1 if isinstance(sampler, HAMCMC) else 0
            least = floor(blocks, 2 if pairs else 1, pairs, 2 if "parts" in sampler.needs else 1)
            # In turn, so that other load affects all of them alike.
            times = np.array([(ours(40), naive(2), least()) for _ in range(rounds)]) * 1e3
            mine, plain, lowest = np.median(times, axis=0)
            yield Step(
                name,
                "all" if blocks == 1 else f"1/{blocks}",
                mine,
                plain,
                lowest,
                float(np.median(times[:, 1] / times[:, 0])),
                float(np.median(times[:, 0] / times[:, 2])),
            )


def stepper(target: Any, sampler: Any, device: str = "cpu") -> Callable[[int], float]:
    """Return a function that makes a number of steps of a chain and returns the seconds of each.

    Parameters
    ----------
    target, sampler
        Of the chain.
    device
        Where the target's arrays are.
    """
    xp = module(device)
    theta = target.start(generator(0, 0, xp=xp))

    def make(count: int) -> float:
        nonlocal theta
        with np.errstate(all="ignore"):
            start = time.perf_counter()
            for state in run(target, sampler, steps=count, seed=0, start=theta):
                theta = state.theta
            to_host(theta)  # waits for the device
            return (time.perf_counter() - start) / count

    make(_WARM)
    return make


def denoisers(rounds: int, device: str = "cpu") -> Iterator[Denoiser]:
    """Yield the times of the presets, and of the paper's settings on a model of its size."""
    for rate in (8000, 16000):
        for name in ("fast", "balanced"):
            yield _timed(
                name, synthetic_sound(8, rate), rate, PRESETS[name], "auto", rounds, device
            )
    clip = synthetic_sound(SECONDS, 8000)
    for name in ("sgld", "psgld", "hamcmc"):
        settings = replace(PRESETS["paper"], sampler=name, alpha_speech=None)
        yield _timed(f"paper, {name}", clip, 8000, settings, paper.dictionary(), rounds, device)


def synthetic_sound(seconds: float, rate: int) -> Floats:
    """Return noise with a level that varies like that of speech, shape (samples,)."""
    count = round(seconds * rate)
    envelope = np.sin(2 * np.pi * 2.0 * np.arange(count) / rate) ** 2 + 0.05
    noise = np.random.default_rng(0).standard_normal(count)
    return (0.1 * envelope * noise).astype(np.float32)


def _timed(
    name: str,
    sound: Floats,
    rate: int,
    settings: Settings,
    model: str | Dictionary,
    rounds: int,
    device: str,
) -> Denoiser:
    seconds = len(sound) / rate
    brief = replace(settings, steps=2, keep=1, warm_up=1)
    denoise(sound, rate, brief, model=model, device=device)
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        denoise(sound, rate, settings, model=model, device=device)
        times.append((time.perf_counter() - start) / seconds)
    return Denoiser(name, rate, seconds, float(np.median(times)))
