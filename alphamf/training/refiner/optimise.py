"""Training of the refiner's networks in JAX: the optimiser and the loop over steps.

Needs JAX and optax, the extra ``learn``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from alphamf.audio.stft import Frame
from alphamf.errors import AlphaMFError
from alphamf.learnt import network
from alphamf.tools.arrays import Array, Floats
from alphamf.training.refiner.clips import TrainingClip
from alphamf.training.refiner.losses import Losses
from alphamf.training.refiner.objective import Objective, equaliser, objective

BATCH = 8
"""Clips of a step."""

STEP_SIZE = (1e-5, 1e-3, 1e-5)
"""At the start, after the warm-up, and at the end."""

WARM_UP = 100
"""Steps in which the step size rises."""

WEIGHT_DECAY = 1e-3
MAX_GRADIENT_NORM = 1.0

VALIDATION = (25, 80)
"""Every 25th clip is held out for validation, 80 at most."""

AVERAGE_DECAY = 0.998
"""Of the exponential moving average of the parameters, which is what is validated and saved."""

REPORT_EVERY, VALIDATE_EVERY = 100, 500
"""Steps between reports, and between reports with validation losses."""


class Report(NamedTuple):
    """State of a training run.

    Attributes
    ----------
    step, steps
        Steps made, and in all.
    training
        Mean losses over the steps since the last report.
    validation
        Losses of the clips held out; None where they were not computed.
    parameters
        Moving average of the network's parameters.
    """

    step: int
    steps: int
    training: Losses
    validation: Losses | None
    parameters: dict[str, Array]


def optimise(
    clips: Sequence[TrainingClip],
    frame: Frame,
    rate: int,
    *,
    epochs: float,
    seed: int,
    start: Mapping[str, Array] | None = None,
) -> Iterator[Report]:
    """Train a network by AdamW, with a warm-up and a cosine decay of the step size.

    Parameters
    ----------
    clips
        All of one shape; those of `VALIDATION` are held out.
    frame, rate
        STFT frame and sampling rate in Hz of the dictionary.
    epochs
        Passes over the training clips.
    seed
        Of the initial parameters, and of the order of the clips.
    start
        Initial parameters; None: drawn.

    Yields
    ------
    Report
        Every `REPORT_EVERY` steps, and after the last.

    Raises
    ------
    AlphaMFError
        There are too few clips, or too few epochs for a single step.
    """
    length = clips[0][0].shape[-1]
    goal = objective(clips[0], frame, rate)
    training, validation = _split(len(clips), epochs)
    steps = int(epochs * len(training) / BATCH)
    if start is None:
        start = network.start(np.random.default_rng(seed), goal.frame.bins, goal.sizes)
    parameters = {name: jnp.asarray(value) for name, value in start.items()}
    optimiser = _optimiser(steps)
    average, state = parameters, optimiser.init(parameters)
    advance, validate = jax.jit(_step(goal, optimiser)), jax.jit(goal.losses)
    rng = np.random.default_rng(seed + 1)
    part = min(goal.longest, length)  # of a clip in a step
    recent: list[Losses] = []
    for step, which in enumerate(_batches(rng, training, steps), 1):
        begin = int(rng.integers(length - part + 1))
        batch = _stacked(clips, which, slice(begin, begin + part))
        levels = equaliser(rng, BATCH, goal.frame.bins)
        rate_of_average = max(1 - AVERAGE_DECAY, 9 / (9 + step))  # forgets the start
        parameters, average, state, found = advance(
            parameters, average, state, batch, levels, rate_of_average
        )
        recent.append(found)
        if step % REPORT_EVERY == 0 or step == steps:
            held_out = None
            if step % VALIDATE_EVERY == 0 or step == steps:
                each = [validate(average, _stacked(clips, [k], slice(part))) for k in validation]
                held_out = _mean(each)
            yield Report(step, steps, _mean(recent), held_out, average)
            recent = []


def _split(count: int, epochs: float) -> tuple[Array, Array]:
    """Return the indices of the training and of the validation clips."""
    every, most = VALIDATION
    validation = np.arange(count)[::every][:most]
    training = np.setdiff1d(np.arange(count), validation)
    if len(training) < BATCH or int(epochs * len(training) / BATCH) < 1:
        raise AlphaMFError(
            f"there are too few clips to train on: {count}, of which {len(validation)} are held "
            f"out, for {epochs:g} epochs make no step of {BATCH} clips"
        )
    return training, validation


def _optimiser(steps: int) -> optax.GradientTransformation:
    first, highest, last = STEP_SIZE
    schedule = optax.warmup_cosine_decay_schedule(
        first, highest, min(WARM_UP, steps // 2), steps, last
    )
    return optax.chain(
        optax.clip_by_global_norm(MAX_GRADIENT_NORM),
        optax.adamw(schedule, weight_decay=WEIGHT_DECAY),
    )


def _step(goal: Objective, optimiser: optax.GradientTransformation) -> Callable[..., Any]:
    """Return a function that makes a step: of the parameters, their average and the state."""

    def weighted(parameters: Array, batch: TrainingClip, levels: Floats) -> tuple[Array, Losses]:
        found = goal.losses(parameters, batch, levels)
        total: Any = sum(weight * each for weight, each in zip(goal.weights, found, strict=True))
        return total, found

    def step(
        parameters: Array,
        average: Array,
        state: Any,
        batch: TrainingClip,
        levels: Floats,
        rate_of_average: float,
    ) -> tuple[Any, Any, Any, Losses]:
        gradient, found = jax.grad(weighted, has_aux=True)(parameters, batch, levels)
        updates, state = optimiser.update(gradient, state, parameters)
        parameters = optax.apply_updates(parameters, updates)
        average = optax.incremental_update(parameters, average, rate_of_average)
        return parameters, average, state, found

    return step


def _batches(rng: np.random.Generator, training: Array, steps: int) -> Iterator[Array]:
    """Yield the indices of the clips of every step, in a new order for every epoch."""
    left = steps
    while left:
        order = rng.permutation(training)
        for first in range(0, len(order) - BATCH + 1, BATCH)[:left]:
            yield np.sort(order[first : first + BATCH])
            left -= 1


def _stacked(clips: Sequence[TrainingClip], which: Iterable[int], part: slice) -> TrainingClip:
    """Stack clips: each array has them as its first axis."""
    chosen = [[each[..., part] for each in clips[k]] for k in which]
    return type(clips[0])(*(np.stack(each) for each in zip(*chosen, strict=True)))


def _mean(found: list[Losses]) -> Losses:
    return Losses(*np.mean([list(map(float, each)) for each in found], axis=0).tolist())
