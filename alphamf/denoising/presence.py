"""Voice activity in real time, relative to the loudest speech so far; see `activity`."""

from __future__ import annotations

import numpy as np

from alphamf.denoising.activity import BAND, LEVEL, RATIO, SPAN, WEIGHTS
from alphamf.denoising.grids import Grid
from alphamf.factorization.forgetting import forgotten
from alphamf.tools.arrays import Floats

LOUD_SECONDS = 10.0
"""Time in which the loudest speech so far is forgotten."""


class Presence:
    """Computes the probability of speech frame by frame.

    Parameters
    ----------
    grid
        Of the frames.
    hop
        Distance between frames in seconds.
    """

    def __init__(self, grid: Grid, hop: float) -> None:
        spacing = grid.rate / grid.frame.n_fft
        self._bins = slice(int(BAND[0] / spacing), int(BAND[1] / spacing) + 1)
        self._share, self._decay = forgotten(hop, SPAN / 2), 1 - forgotten(hop, LOUD_SECONDS)
        self._loud = 0.0
        self._ratio, self._level = RATIO[0], LEVEL[0]

    def probability(self, power: Floats, gain: Floats) -> float:
        """Return the probability of speech in a frame, in the channel where it is highest.

        Parameters
        ----------
        power, gain
            Shape (channels, bins).
        """
        power, gain = power[:, self._bins], gain[:, self._bins]
        parts = (gain * power).sum(axis=-1), ((1 - gain) * power).sum(axis=-1)
        best = int(np.argmax(parts[0]))
        speech, noise = (float(max(part[best], 0)) for part in parts)
        if not speech + noise:
            return 0.0
        tiny = 1e-9 * (speech + noise)
        self._loud = max(self._loud * self._decay, speech)
        ratio = float(np.clip(np.log((speech + tiny) / (noise + tiny)), *RATIO))
        level = float(np.clip(np.log((speech + tiny) / (self._loud + tiny)), *LEVEL))
        self._ratio += self._share * (ratio - self._ratio)
        self._level += self._share * (level - self._level)
        logit = WEIGHTS[0] * self._ratio + WEIGHTS[1] * self._level + WEIGHTS[2]
        return float(1 / (1 + np.exp(-logit)))
