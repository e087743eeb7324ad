"""The noise floor of a recording: how loud its pauses are, and a gain for what is no louder."""

from __future__ import annotations

import numpy as np

from alphamf.audio import stft
from alphamf.audio.stft import Frame
from alphamf.tools.arrays import Floats

WINDOW = 0.032
"""Length of a window of `remove_floor` in seconds; they overlap by three quarters."""

QUIET_SHARE = 0.1
"""Share of the frames whose level in a bin is that of a pause or below."""

ABOVE_FLOOR = 8.0
"""Ratio of a cell's power to the floor at which `remove_floor` keeps half of its amplitude: 15 dB
above the floor .14 dB are lost, 20 above .004, and at the floor 54."""

STEEPNESS = 3
"""Power of the quotient of both ratios in the gain."""

AROUND = (5, 7)
"""Bins and frames of 8 ms whose mean power is that of a cell: single cells of noise vary too
much."""


def smoothed(power: Floats) -> Floats:
    """Return the mean power around each cell, shape (bins, frames); the ends go on as they are."""
    return mean_around(mean_around(power, AROUND[0], axis=0), AROUND[1], axis=1)


def mean_around(power: Floats, count: int, axis: int) -> Floats:
    """Return the mean of so many cells around each, an odd number; the ends go on as they are."""
    many = power.shape[axis]
    places = (np.arange(many) + k - count // 2 for k in range(count))
    found = np.zeros_like(power)
    for place in places:
        found += power.take(place, axis, mode="clip")
    found /= count
    return found


def floor_of(power: Floats) -> Floats:
    """Return the floor of each bin, shape (bins, 1), of a power as from `smoothed`."""
    found: Floats = np.quantile(power, QUIET_SHARE, axis=1, keepdims=True)
    return found


def floor_gain(power: Floats, floor: Floats, above: float) -> Floats:
    """Return a gain that is small where the power is no larger than the floor."""
    ratio = np.minimum(above * floor / np.maximum(power, 1e-30), 1e6)
    found: Floats = (1 / (1 + ratio**STEEPNESS)).astype(np.float32)
    return found


def remove_floor(sound: Floats, rate: int) -> Floats:
    """Attenuate what is no louder than a recording's pauses, and leave the speech as it is.

    So a network is not taught to keep the hiss of its targets.

    `sound`, `rate`: clean speech with pauses, shape (samples,), and its sampling rate in Hz.
    Returns: shape (samples,), float32.
    """
    hop = max(1, round(WINDOW * rate / 4))
    frame = Frame(4 * hop, hop)
    spectrum = stft.forward(sound.astype(np.float32, copy=False), frame)
    power = smoothed(np.abs(spectrum) ** 2)
    gain = floor_gain(power, floor_of(power), ABOVE_FLOOR)
    return stft.inverse(spectrum * gain, frame, len(sound))
