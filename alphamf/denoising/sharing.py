"""Channels that share a voice, in real time: one common gain keeps the voice's position."""

from __future__ import annotations

import numpy as np

from alphamf.audio.stft import Complexes
from alphamf.denoising.spatial import SHARED
from alphamf.factorization.forgetting import forgotten
from alphamf.tools.arrays import Floats

SECONDS = 0.5
"""Time over which the coherence is measured, as in `spatial`."""


class Sharing:
    """Gives channels whose speech is coherent with the first channel's a common gain.

    Parameters
    ----------
    channels
        Two or more.
    hop
        Distance between frames in seconds.
    """

    def __init__(self, channels: int, hop: float) -> None:
        self._share = np.float32(forgotten(hop, SECONDS))
        self._cross: Complexes | None = None
        self._power = np.zeros((channels, 1), np.float32)

    def link_gains(self, spectrum: Complexes, gain: Floats) -> Floats:
        """Return the gains, with a common gain for all channels that share a voice.

        Parameters
        ----------
        spectrum, gain
            Of a frame, shape (channels, bins).
        """
        power = np.abs(spectrum) ** 2
        weight = gain.min(axis=0)
        cross = weight * spectrum * spectrum[0].conj()
        if self._cross is None:
            self._cross, self._power = np.zeros_like(cross), np.zeros_like(power)
        self._cross += self._share * (cross - self._cross)
        self._power += self._share * (weight * power - self._power)
        most = np.sqrt(self._power * self._power[0]).sum(axis=-1)
        together = np.abs(self._cross).sum(axis=-1) >= np.float32(SHARED) * most
        together[0] = True
        total = power[together].sum(axis=0) + np.finfo(np.float32).tiny
        common = (power[together] * gain[together]).sum(axis=0) / total
        found: Floats = np.where(together[:, None], common, gain).astype(np.float32)
        return found
