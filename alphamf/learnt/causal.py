"""Causal networks: the refiner of the online chain, its second stage, and that of the wide bands.

They are networks as in `alphamf.learnt.network` whose taps all lie in the past. The engine of low
latency runs them, frame by frame (``native/_network.c``).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

from alphamf.audio.stft import Frame
from alphamf.learnt import bands, packed
from alphamf.learnt.network_file import TrainedNetwork
from alphamf.tools.arrays import Array

EDGE = (0.85, 0.9)
"""Part of the band whose mean replaces everything above it. Most recordings were resampled once and
end below their band; where they end varies, and is unrelated to the speech."""


def fill_band_end(features: Array, xp: Any) -> Array:
    """Replace the features at the end of the band by the mean of those just below.

    `features`: shape (..., bins, `network.FEATURES`).
    """
    bins = features.shape[-2]
    low, high = (int(part * (bins - 1)) for part in EDGE)
    mean = features[..., low:high, :].mean(-2)[..., None, :]
    end = xp.broadcast_to(mean, (*mean.shape[:-2], bins - high, mean.shape[-1]))
    kept: Array = xp.concatenate([features[..., :high, :], end], -2)
    return kept


class CausalNetwork(TrainedNetwork):
    """A trained network that runs frame by frame."""

    causal = True

    @cached_property
    def packed(self) -> bytes:
        """Their bytes as the engine reads them."""
        return packed.pack(self.parameters)


class CausalRefiner(CausalNetwork):
    """A trained network that predicts the gain frame by frame."""

    kind = "causal"


class CausalSecondStage(CausalNetwork):
    """A trained network that corrects the speech of low latency in windows of 16 ms.

    As `second_stage.SecondStage`, it reads the sound and the speech, and predicts coefficients of
    both; these are real, and of the frame itself.
    """

    kind = "causal-second-stage"


class CausalHighBand(CausalRefiner):
    """A trained network that predicts the gains of wide bands frame by frame.

    Its cells are those of `alphamf.learnt.bands`; only the gains above 7.5 kHz are used.
    """

    kind = "causal-high-band"

    @classmethod
    def cells(cls, frame: Frame) -> int:
        """Return the number of cells per frame: the bands, whatever the window."""
        return bands.COUNT


class CausalNetworks(NamedTuple):
    """The networks of low latency, each of which may be absent."""

    refiner: CausalRefiner | None = None  # Predicts the gain; None: the gain is the chain's.
    second_stage: CausalSecondStage | None = None  # Corrects the speech in short windows
    # Predicts the gains of wide bands above the dictionary's; None: they are that at its top.
    high_band: CausalHighBand | None = None


CHAIN_ALONE = CausalNetworks()
"""No network."""
