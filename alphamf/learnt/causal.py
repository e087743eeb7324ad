"""Causal networks: the refiner of the online chain, its second stage, and that of the wide bands.

They process frame by frame, without lookahead: networks as in `alphamf.learnt.network` whose taps
all lie in the past. They store the frames that they still need, so that every frame costs the same.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from alphamf.audio.stft import Frame
from alphamf.learnt import bands, high_band, layers, network, packed, pauses, second_stage
from alphamf.learnt.memory import Memories
from alphamf.learnt.network_file import TrainedNetwork
from alphamf.tools.arrays import Array, Floats

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
    def rounded(self) -> dict[str, Array]:
        """The parameters that run: the matrices are rounded, as the engine has them."""
        return packed.round_matrices(self.parameters)

    @cached_property
    def packed(self) -> bytes:
        """Their bytes as the engine reads them."""
        return packed.pack(self.parameters)

    def outputs(self, features: Array, xp: Any, memories: Memories | None = None) -> Array:
        """Return `layers.outputs` for these parameters, as `TrainedNetwork.outputs`."""
        return layers.outputs(self.rounded, features, xp, memories)

    def memories(self, channels: int) -> Memories:
        """Return empty memories for new channels."""
        return Memories(channels, self.cells(self.frame), self.sizes)


class CausalRefiner(CausalNetwork):
    """A trained network that predicts the gain frame by frame."""

    kind = "causal"
    fills_band_end: ClassVar[bool] = True
    """Whether the features at the end of the band are replaced, as by `fill_band_end`."""
    used: ClassVar[slice] = slice(None)
    """Cells whose gains are used."""
    in_pauses: ClassVar[float] = pauses.IN_PAUSES
    """Power of the gain in pauses."""

    def refine(
        self,
        memories: Memories,
        power: Floats,
        *,
        gain: Floats,
        gain_std: Floats,
        speech: Floats,
        noise: Floats,
    ) -> Floats:
        """Predict the gain of the newest frame, shape (channels, cells).

        `power`, `gain`, `gain_std`, `speech`, `noise`: as the online chain found them, the powers
        in units of its level, shape (channels, cells).
        """
        each = (np.log(values + np.float32(network.SILENT)) for values in (power, speech, noise))
        logs = [values[..., None] for values in each]
        pair = gain[..., None], gain_std[..., None]
        features = network.features(logs[0], *pair, logs[1], logs[2], np)
        if self.fills_band_end:
            features = fill_band_end(features, np)
        logit = network.logits(self.outputs(features, np, memories), features)[:, 0]
        found = layers.logistic(logit, np)
        used = self.used
        share = memories.largest_share(pauses.speech_share(found.T[used], power.T[used]))
        exponents = pauses.exponents(share, self.exponent, np, self.in_pauses).astype(np.float32)
        refined: Floats = found ** exponents[:, None]
        return refined


class CausalSecondStage(CausalNetwork):
    """A trained network that corrects the speech of low latency in windows of 16 ms.

    As `second_stage.SecondStage`, it reads the sound and the speech, and predicts coefficients of
    both; these are real, and of the frame itself.
    """

    kind = "causal-second-stage"
    change: ClassVar[float] = second_stage.CHANGE

    def coefficients(self, memories: Memories, noisy: Array, first: Array) -> tuple[Array, Array]:
        """Predict the coefficients of sound and speech in the newest frame, (channels, bins) each.

        `noisy`, `first`: spectra of the sound and of the refiner's speech, in units of the sound's
        level; complex, shape (channels, bins).
        """
        read = second_stage.features(noisy[..., None], first[..., None], 0.0, np)
        made = self.outputs(read[..., : network.FEATURES], np, memories)
        found = second_stage.coefficients(made, np)
        sound, speech = found.sound[..., 0], found.speech[..., 0]
        return self.change * sound, self.change * speech + (1 - self.change)


class CausalHighBand(CausalRefiner):
    """A trained network that predicts the gains of wide bands frame by frame.

    Its cells are those of `alphamf.learnt.bands`; only the gains above 7.5 kHz are used.
    """

    kind = "causal-high-band"
    fills_band_end = False
    used: ClassVar[slice] = slice(bands.BELOW, None)
    in_pauses: ClassVar[float] = high_band.IN_PAUSES

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
