"""Take a recording's own hiss away, so that a network is not taught to keep it."""

from __future__ import annotations

import numpy as np

from alphamf.audio import stft
from alphamf.audio.stft import Frame
from alphamf.tools.arrays import Floats

WINDOW = 0.032
"""Length of a window in seconds; they overlap by three quarters."""

QUIET_SHARE = 0.1
"""Share of the frames whose level in a bin is that of a pause or below."""

ABOVE_FLOOR = 8.0
"""Ratio of a cell's power to the floor at which half of its amplitude is kept."""

STEEPNESS = 3.0
"""Power of the quotient of both ratios in the gain: 15 dB above the floor .14 dB are lost, 20
above .004, and at the floor 54."""

AROUND = (5, 7)
"""Bins and frames whose mean power is that of a cell: single cells of noise vary too much."""


def remove_floor(sound: Floats, rate: int) -> Floats:
    """Attenuate what is no louder than a recording's pauses, and leave the speech as it is.

    Parameters
    ----------
    sound, rate
        Clean speech with pauses, shape (samples,), and its sampling rate in Hz.

    Returns
    -------
    ndarray
        Shape (samples,), float32.
    """
    from scipy.ndimage import uniform_filter

    hop = max(1, round(WINDOW * rate / 4))
    frame = Frame(4 * hop, hop)
    spectrum = stft.forward(sound.astype(np.float32, copy=False), frame)
    # Its running sums are slightly below zero at times.
    power = uniform_filter(np.abs(spectrum) ** 2, AROUND, mode="nearest").clip(min=0)
    floor = np.quantile(power, QUIET_SHARE, axis=1, keepdims=True)
    ratio = ABOVE_FLOOR * floor / np.maximum(power, 1e-30)
    gain = 1 / (1 + np.minimum(ratio, 1e6) ** STEEPNESS)
    return stft.inverse(spectrum * gain.astype(np.float32), frame, len(sound))
