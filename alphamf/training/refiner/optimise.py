"""How the refiner's network is learnt, in JAX: what it is to minimise, and the steps that do it.

Needs JAX and optax, the extra ``learn``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from alphamf.audio.stft import Floats, Frame
from alphamf.errors import AlphaMFError
from alphamf.learnt import network, second_stage
from alphamf.learnt.refiner import WINDOW
from alphamf.tools.arrays import Array
from alphamf.training.refiner.losses import Losses, fine_losses, losses
from alphamf.training.refiner.mixtures import Clip, Look
from alphamf.training.refiner.shaping import NARROW

BATCH = 8
STEP_SIZE = (1e-5, 1e-3, 1e-5)
"""At the start, after the warm-up, and at the end."""

WARM_UP = 100
WEIGHT_DECAY = 1e-3
LONGEST = 1.0
"""Norm that a longer gradient is shortened to."""

HELD_OUT = (25, 80)
"""Every 25th clip is held out and never learnt from, 80 at most."""

MEMORY = 0.998
"""Of the running mean of the parameters, which is what is reported: single steps are noisy."""

WEIGHTS, FINE_WEIGHTS = (1.5, 0.7, 20.0, 0.1), (1.5, 0.7, 40.0, 0.0)
"""Of the losses in what is minimised, for first and for second looks."""

NEWS, CHECK = 100, 500
"""Steps between two reports, and between two that include the clips held out."""


class Report(NamedTuple):
    """How far learning is.

    Attributes
    ----------
    step, steps
        Steps made, and in all.
    learnt
        Mean losses over the steps since the last report.
    held_out
        Losses of the clips held out; None where they were not looked at.
    parameters
        Of the network: their running mean.
    """

    step: int
    steps: int
    learnt: Losses
    held_out: Losses | None
    parameters: dict[str, Array]


class Task(NamedTuple):
    """What there is to learn.

    Attributes
    ----------
    frame
        Of the spectra that the network reads.
    sizes
        Of the network.
    longest
        Most of a clip, along the last axis of its arrays, that a step hears.
    losses, weights
        Of parameters, clips and levels; and their weights in what is minimised.
    """

    frame: Frame
    sizes: network.Sizes
    longest: int
    losses: Callable[..., Losses]
    weights: tuple[float, ...]


def task(clip: Clip | Look, frame: Frame, rate: int) -> Task:
    """Return what is to be learnt from such clips; `frame` is that of the first look."""
    if isinstance(clip, Look):
        short = second_stage.frame(rate)
        longest = (second_stage.WINDOW - 1) * short.hop_length
        reckon = partial(fine_losses, frame=short, rate=rate)
        return Task(short, network.SECOND_STAGE_SIZES, longest, reckon, FINE_WEIGHTS)
    sizes = network.WIDE_SIZES if rate > NARROW else network.NARROW_SIZES
    return Task(frame, sizes, WINDOW, partial(losses, frame=frame, rate=rate), WEIGHTS)


def equaliser(rng: np.random.Generator, clips: int, bins: int) -> Floats:
    """Draw filters: log powers, linear between 8 frequencies, shape (clips, bins, 1).

    With them the network learns to do without the frequency responses of the recordings.
    """
    knots = rng.normal(0, 1.0, (clips, 8))
    knots += rng.normal(0, 0.5, (clips, 1))
    places = np.linspace(0, 7, bins)
    curves = [np.interp(places, np.arange(8), each) for each in knots]
    return np.stack(curves).astype(np.float32)[..., None]


def learn(
    clips: Sequence[Clip | Look],
    frame: Frame,
    rate: int,
    *,
    epochs: float,
    seed: int,
    start: Mapping[str, Array] | None = None,
) -> Iterator[Report]:
    """Learn the network by AdamW, with a warm-up and a cosine decay of its step size.

    Parameters
    ----------
    clips
        All of one shape; those that `HELD_OUT` says are not learnt from.
    frame, rate
        Of the dictionary.
    epochs
        How often each clip is heard.
    seed
        Of the parameters at the start, and of the order of the clips.
    start
        Parameters to go on from.

    Yields
    ------
    Report
        Every `NEWS` steps, and after the last.

    Raises
    ------
    AlphaMFError
        There are too few clips, or too few epochs for a single step.
    """
    count = len(clips)
    length = clips[0][0].shape[-1]
    given = task(clips[0], frame, rate)
    bins = given.frame.bins
    every, most = HELD_OUT
    held = np.arange(count)[::every][:most]
    heard = np.setdiff1d(np.arange(count), held)
    steps = int(epochs * len(heard) / BATCH)
    if len(heard) < BATCH or steps < 1:
        raise AlphaMFError(
            f"there is too little to learn from: {count} clips, of which {len(held)} are held out, "
            f"for {epochs:g} epochs make no step of {BATCH} clips"
        )
    if start is None:
        start = network.start(np.random.default_rng(seed), bins, given.sizes)
    parameters = {name: jnp.asarray(value) for name, value in start.items()}
    first, highest, last = STEP_SIZE
    schedule = optax.warmup_cosine_decay_schedule(
        first, highest, min(WARM_UP, steps // 2), steps, last
    )
    optimiser = optax.chain(
        optax.clip_by_global_norm(LONGEST), optax.adamw(schedule, weight_decay=WEIGHT_DECAY)
    )
    mean, state = parameters, optimiser.init(parameters)

    def weighted(parameters: Array, batch: Clip | Look, levels: Floats) -> tuple[Array, Losses]:
        found = given.losses(parameters, batch, levels)
        return sum(weight * each for weight, each in zip(given.weights, found, strict=True)), found

    def move(
        parameters: Array, mean: Array, state: Any, batch: Clip | Look, levels: Floats, share: float
    ) -> tuple[Any, Any, Any, Losses]:
        slopes, found = jax.grad(weighted, has_aux=True)(parameters, batch, levels)
        updates, state = optimiser.update(slopes, state, parameters)
        parameters = optax.apply_updates(parameters, updates)
        return parameters, optax.incremental_update(parameters, mean, share), state, found

    advance, check = jax.jit(move), jax.jit(given.losses)
    rng = np.random.default_rng(seed + 1)
    part = min(given.longest, length)  # of a clip in a step
    news: list[Losses] = []
    for step, which in enumerate(_batches(rng, heard, steps), 1):
        begin = int(rng.integers(length - part + 1))
        batch = _some(clips, which, slice(begin, begin + part))
        levels = equaliser(rng, BATCH, bins)
        share = max(1 - MEMORY, 9 / (9 + step))  # at first the memory is short: it starts nowhere
        parameters, mean, state, found = advance(parameters, mean, state, batch, levels, share)
        news.append(found)
        if step % NEWS == 0 or step == steps:
            held_out = None
            if step % CHECK == 0 or step == steps:
                held_out = _mean([check(mean, _some(clips, [k], slice(part))) for k in held])
            yield Report(step, steps, _mean(news), held_out, mean)
            news = []


def _batches(rng: np.random.Generator, heard: Array, steps: int) -> Iterator[Array]:
    """Yield the clips of every step, in an order of their own in every epoch."""
    left = steps
    while left:
        order = rng.permutation(heard)
        for first in range(0, len(order) - BATCH + 1, BATCH)[:left]:
            yield np.sort(order[first : first + BATCH])
            left -= 1


def _some(clips: Sequence[Clip | Look], which: Iterable[int], part: slice) -> Clip | Look:
    """Lay clips side by side: each array has them as its first axis."""
    chosen = [[each[..., part] for each in clips[k]] for k in which]
    return type(clips[0])(*(np.stack(each) for each in zip(*chosen, strict=True)))


def _mean(found: list[Losses]) -> Losses:
    return Losses(*np.mean([list(map(float, each)) for each in found], axis=0).tolist())
