"""Voice activity: the probability of speech per frame, and the time ranges with speech."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from alphamf.denoising.grids import Grid
from alphamf.errors import AlphaMFError
from alphamf.tools.arguments import shown_value
from alphamf.tools.arrays import Floats, Reals

BAND = (150.0, 4000.0)
"""Range of frequencies in Hz that is used."""

SPAN = 0.14
"""Seconds over which both features of a frame are averaged."""

RATIO = (-3.0, 3.0)
"""Range of the log of speech over noise in a frame."""

LEVEL = (-8.0, 0.0)
"""Range of the log of a frame's speech over that of the loudest fifth of the segment's frames."""

WEIGHTS = (0.72, 0.40, 1.99)
"""Weights of both features, and a constant: a logistic regression on ten voices of LibriSpeech,
in noise of 5 and 15 dB and in none (docs/quality.md)."""

LEAST = 0.5
"""Minimum probability of a frame that counts as speech."""

PAUSE, SHORTEST = 0.3, 0.1
"""Seconds: shorter pauses belong to the speech, and shorter speech is ignored."""


class SpeechRange(NamedTuple):
    """A time range with speech: `start` and `end` in seconds, and its mean `probability`.

    Examples
    --------
    >>> SpeechRange(start=0.5, end=2.0, probability=0.9).end
    2.0
    """

    start: float
    end: float
    probability: float


def probability(power: Floats, gain: Floats, grid: Grid) -> Floats:
    """Return the probability of speech in each frame of a segment, shape (frames,).

    `power`: |X|^2, shape (bins, frames). `gain`: gain of the speech without a limit, of the same
    shape.
    """
    spacing = grid.rate / grid.frame.n_fft
    bins = slice(int(BAND[0] / spacing), int(BAND[1] / spacing) + 1)
    power, gain = power[bins].astype(float), gain[bins]
    tiny = 1e-9 * power.sum(axis=0).mean()
    if not tiny:
        return np.zeros(power.shape[1], np.float32)
    speech = (gain * power).sum(axis=0) + tiny
    noise = ((1 - gain) * power).sum(axis=0).clip(0) + tiny
    loud = np.sort(speech)[-max(1, len(speech) // 5) :].mean()
    ratio = _averaged(np.log(speech / noise).clip(*RATIO), grid)
    level = _averaged(np.log(speech / loud).clip(*LEVEL), grid)
    logit = WEIGHTS[0] * ratio + WEIGHTS[1] * level + WEIGHTS[2]
    found: Floats = (1 / (1 + np.exp(-logit))).astype(np.float32)
    return found


def _averaged(values: Reals, grid: Grid) -> Reals:
    reach = round(SPAN / 2 * grid.rate / grid.frame.hop_length)
    total = np.cumsum(np.pad(values, (reach + 1, reach), mode="edge"))
    width = 2 * reach + 1
    averaged: Reals = (total[width:] - total[:-width]) / width
    return averaged


def _checked(name: str, values: Floats) -> Floats:
    try:
        array = np.asarray(values)
    except ValueError:  # rows of several lengths
        array = np.asarray(None)
    if (
        array.ndim != 1
        or array.dtype.kind not in "fiu"
        or np.ma.is_masked(values)
        or not np.isfinite(array).all()
    ):
        raise AlphaMFError(
            f"{name} must be an array of finite numbers, shape (frames,), not {shown_value(values)}"
        )
    return array


def speech_ranges(activity: Floats, frame_times: Floats) -> list[SpeechRange]:
    """Return the time ranges of a recording that contain speech.

    Parameters
    ----------
    activity
        Probability of speech in every frame, shape (frames,), as `Denoised.activity`.
    frame_times
        The middle of every frame in seconds, of the same shape.

    Returns
    -------
    list of SpeechRange
        In order. Pauses of less than 0.3 s are part of the speech around them.

    Raises
    ------
    AlphaMFError
        One is not an array of finite numbers, or their lengths differ.

    Examples
    --------
    >>> import numpy as np
    >>> activity = np.repeat([0.1, 0.9, 0.2], 50)
    >>> speech_ranges(activity, np.arange(150) * 0.02)
    [SpeechRange(start=0.99, end=1.99, probability=0.9)]
    """
    activity, frame_times = (
        _checked(name, values)
        for name, values in (("activity", activity), ("frame_times", frame_times))
    )
    if activity.shape != frame_times.shape:
        raise AlphaMFError(
            f"activity and frame_times must be of one length, not {len(activity)} and "
            f"{len(frame_times)}"
        )
    if len(activity) < 2:
        return []
    half = (frame_times[1] - frame_times[0]) / 2
    on = np.flatnonzero(activity >= LEAST)
    if not len(on):
        return []
    breaks = np.flatnonzero(np.diff(frame_times[on]) - 2 * half >= PAUSE)
    firsts, lasts = on[np.r_[0, breaks + 1]], on[np.r_[breaks, len(on) - 1]]
    return [
        SpeechRange(
            float(max(0.0, frame_times[first] - half)),
            float(frame_times[last] + half),
            float(activity[first : last + 1].mean()),
        )
        for first, last in zip(firsts, lasts, strict=True)
        if frame_times[last] - frame_times[first] + 2 * half >= SHORTEST
    ]
