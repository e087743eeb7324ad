"""Voice activity and the common gain of linked channels, frame by frame, for low latency.

They correspond to `activity` and `spatial`, with averages over the past in place of a segment.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from alphamf.audio.stft import Complexes
from alphamf.denoising.activity import BAND, LEVEL, RATIO, SPAN, WEIGHTS
from alphamf.denoising.grids import Grid
from alphamf.denoising.spatial import SHARED
from alphamf.factorization.forgetting import forgetting_factor
from alphamf.tools.arrays import Floats

LOUD_SECONDS = 10.0
"""Time constant with which the loudest speech so far is forgotten."""

COHERENCE_SECONDS = 0.5
"""Time over which the coherence of channels is measured, as in `spatial`."""


class Presence:
    """Computes the probability of speech frame by frame.

    `hop`: distance between frames in seconds.
    """

    def __init__(self, grid: Grid, hop: float) -> None:
        spacing = grid.rate / grid.frame.n_fft
        self._bins = slice(int(BAND[0] / spacing), int(BAND[1] / spacing) + 1)
        self._share = forgetting_factor(hop, SPAN / 2)
        self._decay = 1 - forgetting_factor(hop, LOUD_SECONDS)
        self._loud = 0.0
        self._ratio, self._level = RATIO[0], LEVEL[0]

    def probability(self, power: Floats, gain: Floats) -> float:
        """Return the probability of speech in a frame, in the channel where it is highest.

        `power`, `gain`: shape (channels, bins).
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


class Sharing:
    """Gives channels whose speech is coherent with the first channel's a common gain.

    `hop`: distance between frames in seconds. `together`: which channels had the common gain in the
    last frame, shape (channels,).
    """

    def __init__(self, channels: int, hop: float) -> None:
        self.together: NDArray[np.bool_] = np.zeros(channels, bool)
        self._share = np.float32(forgetting_factor(hop, COHERENCE_SECONDS))
        self._cross: Complexes | None = None
        self._power = np.zeros((channels, 1), np.float32)

    def link_gains(self, spectrum: Complexes, gain: Floats) -> Floats:
        """Return the gains, with a common gain for all channels that share a voice.

        `spectrum`, `gain`: spectrum and gain of a frame, shape (channels, bins).
        """
        power = np.abs(spectrum) ** 2
        weight = gain.min(axis=0)
        cross = weight * spectrum * spectrum[0].conj()
        if self._cross is None:
            self._cross, self._power = np.zeros_like(cross), np.zeros_like(power)
        self._cross += self._share * (cross - self._cross)
        self._power += self._share * (weight * power - self._power)
        most = (np.sqrt(self._power) * np.sqrt(self._power[0])).sum(axis=-1)
        together = np.abs(self._cross).sum(axis=-1) >= np.float32(SHARED) * most
        together[0] = True
        self.together = together
        total = power[together].sum(axis=0) + np.finfo(np.float32).tiny
        common = (power[together] * gain[together]).sum(axis=0) / total
        found: Floats = np.where(together[:, None], common, gain).astype(np.float32)
        return found
