"""Gains above the dictionary's band at low latency: wide bands, frame by frame.

They correspond to `high_bands`. In place of the posterior, the network reads the power of each band
above 7.5 kHz and an online estimate of its noise; below, what the gains leave and what they remove.
"""

from __future__ import annotations

import numpy as np

from alphamf.denoising.grids import Grid
from alphamf.denoising.high_bands import high_pooling, low_pooling, spread_band_gains
from alphamf.factorization.forgetting import NoiseVariance
from alphamf.learnt import bands
from alphamf.learnt.causal import CausalHighBand
from alphamf.tools.arrays import Floats

TINY = np.float32(1e-20)


class BandReader:
    """Computes what the network reads of each frame."""

    def __init__(self, grid: Grid, channels: int) -> None:
        self._low, self._high = low_pooling(grid), high_pooling(grid)
        self.count: int = self._high.inside
        hop = grid.frame.hop_length / grid.rate
        self._noise = NoiseVariance(channels, self.count, hop)

    def read(self, power: Floats, gain: Floats, level: Floats) -> list[Floats]:
        """Return power, gain, its deviation, and powers of the speech and of the noise.

        `power`, `gain`: |X|^2 and gain of a frame's bins, shape (channels, bins). `level`: of the
        online chain, shape (channels, 1). Returns: shape (channels, bands.COUNT), the powers in
        units of the level.
        """
        left, removed = gain**2 * power, (1 - gain) ** 2 * power
        below = [self._low(each.T).T for each in (power, left, removed)]
        above = [np.zeros((len(power), bands.ABOVE), np.float32) for _ in range(3)]
        heard = self._high(power.T).T[:, : self.count]
        self._noise.learn(heard)
        noise = self._noise.power
        for each, found in zip(above, (heard, heard - noise, noise), strict=True):
            each[:, : self.count] = np.maximum(found, 0)
        kept = np.sqrt(below[1] / (below[0] + TINY))
        wiener = above[1] / (above[0] + TINY)
        gains = np.minimum(np.concatenate([kept, wiener], axis=1), 1)
        whole, speech, rest = (
            np.concatenate(pair, axis=1) / level for pair in zip(below, above, strict=True)
        )
        return [whole, gains, np.zeros_like(whole), speech, rest]


class OnlineBands:
    """Predicts the gains above the dictionary's band frame by frame."""

    def __init__(self, network: CausalHighBand, grid: Grid, channels: int) -> None:
        self._network, self._grid = network, grid
        self._reader = BandReader(grid, channels)
        self._memories = network.memories(channels)

    def extend_gains(self, power: Floats, gain: Floats, level: Floats) -> Floats:
        """Return the gains of a frame's bins, with those of the bands above."""
        whole, wiener, deviation, speech, noise = self._reader.read(power, gain, level)
        found = self._network.refine(
            self._memories, whole, gain=wiener, gain_std=deviation, speech=speech, noise=noise
        )
        own = found[:, bands.BELOW : bands.BELOW + self._reader.count]
        extended: Floats = spread_band_gains(own.T, gain.T, self._grid).T
        return extended
