"""Objectives of both networks: weighted losses, and random filters of the input."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from alphamf.audio.stft import Frame
from alphamf.learnt import network, second_stage
from alphamf.learnt.refiner import WINDOW
from alphamf.tools.arrays import Floats
from alphamf.training.refiner.clips import SecondStageClip, TrainingClip
from alphamf.training.refiner.losses import Losses, first_stage_losses, second_stage_losses
from alphamf.training.refiner.shaping import TELEPHONE_RATE

FIRST_STAGE_WEIGHTS, SECOND_STAGE_WEIGHTS = (1.5, 0.7, 20.0, 0.1), (1.5, 0.7, 40.0, 0.0)
"""Weights of the four `Losses` in the objective."""


class Objective(NamedTuple):
    """What is minimised for a kind of clips.

    Attributes
    ----------
    frame
        STFT frame of the spectra that the network reads.
    sizes
        Of the network.
    longest
        Most of a clip that a step uses, along the last axis of its arrays.
    losses
        ``losses(parameters, clips, levels)`` returns the `Losses`.
    weights
        Of the losses in their sum.
    """

    frame: Frame
    sizes: network.Sizes
    longest: int
    losses: Callable[..., Losses]
    weights: tuple[float, ...]


def objective(clip: TrainingClip, frame: Frame, rate: int) -> Objective:
    """Return the objective for clips of this kind.

    Parameters
    ----------
    clip
        Any of them.
    frame
        STFT frame of the first stage, the dictionary's.
    rate
        Sampling rate in Hz.

    Returns
    -------
    Objective
    """
    if isinstance(clip, SecondStageClip):
        short = second_stage.frame(rate)
        longest = (second_stage.WINDOW - 1) * short.hop_length
        losses = partial(second_stage_losses, frame=short, rate=rate)
        return Objective(short, network.SECOND_STAGE_SIZES, longest, losses, SECOND_STAGE_WEIGHTS)
    sizes = network.WIDE_SIZES if rate > TELEPHONE_RATE else network.NARROW_SIZES
    losses = partial(first_stage_losses, frame=frame, rate=rate)
    return Objective(frame, sizes, WINDOW, losses, FIRST_STAGE_WEIGHTS)


def equaliser(rng: np.random.Generator, clips: int, bins: int) -> Floats:
    """Draw filters that make the network independent of the recordings' frequency responses.

    Parameters
    ----------
    rng
        Source of random numbers.
    clips, bins
        Number of filters, and of their frequencies.

    Returns
    -------
    ndarray
        Log powers, linear between 8 frequencies, shape (clips, bins, 1), float32.
    """
    knots = rng.normal(0, 1.0, (clips, 8))
    knots += rng.normal(0, 0.5, (clips, 1))
    places = np.linspace(0, 7, bins)
    curves = [np.interp(places, np.arange(8), each) for each in knots]
    return np.stack(curves).astype(np.float32)[..., None]
