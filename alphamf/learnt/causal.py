"""Causal networks: the refiner of the online chain, the second stage, and the high-band network.

They are networks as in `alphamf.learnt.network` whose taps reach no later frames. The engine of low
latency runs them, frame by frame (``native/_network.c``).
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from alphamf.audio.stft import Frame
from alphamf.learnt import bands, network
from alphamf.learnt.network_file import TrainedNetwork
from alphamf.tools.arrays import Array, Floats

ALIGNMENT = 64
"""Alignment in bytes of every array in the weights of an engine."""

PANEL = 64
"""Number of columns in a panel of a matrix, as in ``native/_panels.h``."""

BIAS = 128
"""Number that is added to the entries of a matrix, which lie between -127 and 127."""

FAINTEST = 1e-30
"""A matrix column becomes zero if its largest absolute value does not exceed this number."""

MATRICES = ("in.weight", "map.weight", ".up", ".down")
"""Ends of the names of the parameters that whole frames are multiplied by."""


def pack(parameters: Mapping[str, Array]) -> bytes:
    """Return the parameters of a network in the order of ``struct layers`` of ``_parts.h``.

    `parameters`: as `network.shapes` names and shapes them, float32.
    """
    return b"".join(aligned(array.tobytes()) for array in _layers(parameters))


def aligned(data: bytes) -> bytes:
    """Return `data` with zeros appended, up to a multiple of `ALIGNMENT` bytes."""
    return data + bytes(-len(data) % ALIGNMENT)


def in_panels(matrix: Floats) -> tuple[Array, Floats]:
    """Return a matrix in panels of columns, as in ``_panels.h``, and the unit of each column.

    `matrix`: shape (depth, columns).
    """
    numbers, units = in_bytes(matrix)
    depth, columns = matrix.shape
    whole = np.full((-(-depth // 4) * 4, -(-columns // PANEL) * PANEL), BIAS, np.uint32)
    whole[:depth, :columns] = numbers + BIAS
    words = whole[::4] | whole[2::4] << 8 | whole[1::4] << 16 | whole[3::4] << 24
    return np.ascontiguousarray(words.reshape(len(words), -1, PANEL).swapaxes(0, 1)), units


def in_bytes(matrix: Floats) -> tuple[Floats, Floats]:
    """Return a matrix as whole numbers from -127 to 127, and the unit of each of its columns.

    In a product with few rows, reading the matrix takes longer than the arithmetic; numbers of
    one byte are read faster.
    """
    most = np.abs(matrix).max(0)
    units = np.where(most > FAINTEST, most, 1).astype(np.float32) / np.float32(127)
    return np.rint(matrix / units), units


def _layers(p: Mapping[str, Array]) -> Iterator[Array]:
    sizes = network.sizes_of(network.shapes_of(p))
    names = ["in.weight", "in.bias"]
    for block in network.stack(sizes):
        own = ("scale", "shift", "taps", "up", "up_bias", "down", "down_bias")
        names += [f"{block.name}.{name}" for name in own]
    names += ["map.weight", "map.bias"]
    for each in network.correlations(sizes):
        names += [f"{each.name}.weight", f"{each.name}.bias"]
    for name in names:
        yield from in_panels(p[name]) if name.endswith(MATRICES) else (p[name],)


EDGE = (0.85, 0.9)
"""Fractions of the band: features above the second become the mean of those between both. Most
recordings were resampled, so their sound ends below the top, at a frequency unrelated to speech."""


def fill_band_end(features: Array, xp: Any) -> Array:
    """Return features in which those of the band's upper end are the mean of those just below.

    `features`: shape (..., bins, `network.FEATURES`).
    """
    bins = features.shape[-2]
    low, high = (int(part * (bins - 1)) for part in EDGE)
    mean = features[..., low:high, :].mean(-2)[..., None, :]
    end = xp.broadcast_to(mean, (*mean.shape[:-2], bins - high, mean.shape[-1]))
    return xp.concatenate([features[..., :high, :], end], -2)


class CausalNetwork(TrainedNetwork):
    """A trained network that runs frame by frame."""

    causal = True

    @cached_property
    def packed(self) -> bytes:
        """The parameters as bytes, in the order in which the engine reads them."""
        return pack(self.parameters)


class CausalRefiner(CausalNetwork):
    """A trained network that predicts the gain frame by frame."""

    kind = "causal"


class CausalSecondStage(CausalNetwork):
    """A trained network that corrects the speech at low latency in windows of 16 ms.

    As `second_stage.SecondStage`, it reads the sound and the speech, and predicts coefficients of
    both; these are real, and there are none for other frames.
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
    """The networks for low latency, each of which may be absent."""

    refiner: CausalRefiner | None = None  # Predicts the gain; None: the gain is the chain's
    second_stage: CausalSecondStage | None = None  # Corrects the speech in short windows
    # Predicts gains of wide bands above the dictionary's band; None: the gain at its top is used.
    high_band: CausalHighBand | None = None


CHAIN_ALONE = CausalNetworks()
"""Low latency without any network: the gain is the chain's."""
