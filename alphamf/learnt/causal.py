"""The causal refiner: a network that reads the online chain frame by frame, and nothing ahead.

It is the network of `alphamf.learnt.network`, whose taps all lie in the past. What it has read
stays in a `Memory`, so that every frame costs the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from alphamf.learnt import layers, network
from alphamf.learnt.network_file import TrainedNetwork
from alphamf.tools.arrays import Array, Floats

EDGE = (0.85, 0.9)
"""Part of the band whose mean stands for what lies above it. Most recordings were resampled once,
and end below their band; where they end differs, and says nothing of speech."""


def below_edge(features: Array, xp: Any) -> Array:
    """Return features of which those at the band's end are the mean of what lies before it.

    Parameters
    ----------
    features
        Shape (..., bins, `network.FEATURES`).
    xp
        Module of the array.
    """
    bins = features.shape[-2]
    low, high = (int(part * (bins - 1)) for part in EDGE)
    mean = features[..., low:high, :].mean(-2)[..., None, :]
    end = xp.broadcast_to(mean, (*mean.shape[:-2], bins - high, mean.shape[-1]))
    kept: Array = xp.concatenate([features[..., :high, :], end], -2)
    return kept


class Memory:
    """The newest frames of what some layer reads; before the first there is zero.

    Parameters
    ----------
    frames
        How many.
    shape
        Of one frame.
    """

    def __init__(self, frames: int, shape: tuple[int, ...]) -> None:
        self._held = np.zeros((frames, *shape), np.float32)
        self._newest = -1

    def take(self, frame: Array) -> None:
        """Hold a frame in the place of the oldest."""
        self._newest = (self._newest + 1) % len(self._held)
        self._held[self._newest] = frame

    def before(self, frames: int) -> Floats:
        """Return the frame that came so many before the newest."""
        found: Floats = self._held[self._newest - frames]
        return found


class Memories:
    """All that a causal network keeps of channels side by side.

    Parameters
    ----------
    channels, bins
        Shape of a frame.
    sizes
        Of the network.
    """

    def __init__(self, channels: int, bins: int, sizes: network.Sizes) -> None:
        reach = network.TAPS - 1
        self.blocks: list[Memory] = [
            Memory(reach * 2 ** (k % network.DILATIONS) + 1, (channels, sizes.width))
            for k in range(sizes.blocks)
        ]
        read = [network.FEATURES + sizes.maps, *[sizes.local] * (sizes.deep + 1)]
        apart = [1, *(late for late, _ in network.DEEP[: sizes.deep]), 1]
        self.cells: list[Memory] = [
            Memory(2 * late + 1, (channels, bins, count))
            for late, count in zip(apart, read, strict=True)
        ]


class CausalRefiner(TrainedNetwork):
    """A trained network whose output is a gain, frame by frame."""

    kind = "causal"

    @property
    def sizes(self) -> network.Sizes:
        """Of the network."""
        shapes = {name: value.shape for name, value in self.parameters.items()}
        return network.sizes_of(shapes, self.frame.bins)

    def memories(self, channels: int) -> Memories:
        """Return what is kept of channels that begin."""
        return Memories(channels, self.frame.bins, self.sizes)

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
        """Return the gain of the newest frame, shape (channels, bins).

        Parameters
        ----------
        memories
            From `memories`; they take in the frame.
        power, gain, gain_std, speech, noise
            As the online chain found them, the powers in units of its level, shape (channels,
            bins).
        """
        each = (np.log(values + np.float32(network.SILENT)) for values in (power, speech, noise))
        logs = [values[..., None] for values in each]
        pair = gain[..., None], gain_std[..., None]
        features = below_edge(network.features(logs[0], *pair, logs[1], logs[2], np)[:, 0], np)
        logit = network.logits(self.outputs_of(memories, features), features)
        refined: Floats = layers.logistic(logit, np) ** np.float32(self.exponent)
        return refined

    def outputs_of(self, memories: Memories, features: Floats) -> Array:
        """Return the two outputs for every cell of the newest frame, shape (channels, bins, 2).

        Parameters
        ----------
        memories
            As for `refine`.
        features
            Of the frame, shape (channels, bins, `network.FEATURES`).
        """
        p, cells = self.parameters, memories.cells
        x = _product(features.reshape(len(features), -1), p["in.weight"]) + p["in.bias"]
        for k, memory in enumerate(memories.blocks):
            x = x + self._block(k, memory, x)
        maps = _product(x, p["map.weight"]) + p["map.bias"]
        maps = maps.reshape(*features.shape[:-1], -1)
        y = np.concatenate([features, maps], -1)
        y = _rectified(self._correlated("local", cells[0], (1, 1), y))
        for k, memory in enumerate(cells[1:-1]):
            y = y + _rectified(self._correlated(f"deep{k}", memory, network.DEEP[k], y))
        out: Array = self._correlated("out", cells[-1], (1, 1), y) + maps[..., :2]
        return out

    def _block(self, k: int, memory: Memory, x: Array) -> Any:
        p = self.parameters
        u = x - x.mean(-1, keepdims=True)
        u *= 1 / np.sqrt((u * u).mean(-1, keepdims=True) + network.NORM_EPSILON)
        memory.take(u * p[f"block{k}.scale"] + p[f"block{k}.shift"])
        distance, last = 2 ** (k % network.DILATIONS), network.TAPS - 1
        taps = p[f"block{k}.taps"]
        u = sum(memory.before((last - tap) * distance) * taps[tap] for tap in range(network.TAPS))
        u = _rectified(_product(u, p[f"block{k}.up"]) + p[f"block{k}.up_bias"])
        return _product(u, p[f"block{k}.down"]) + p[f"block{k}.down_bias"]

    def _correlated(self, name: str, memory: Memory, apart: tuple[int, int], cells: Array) -> Array:
        """Do as `layers.correlate` for the newest frame, with taps in the past only."""
        memory.take(cells)
        late, high = apart
        weight, bins = self.parameters[f"{name}.weight"], cells.shape[-2]
        near = np.concatenate([memory.before(late * tap) for tap in (2, 1, 0)], -1)
        near = np.pad(near, [(0, 0), (high, high), (0, 0)])
        total: Any = self.parameters[f"{name}.bias"]
        for k in range(3):
            matrix = weight[:, k].reshape(-1, weight.shape[-1])
            total = total + near[:, k * high : k * high + bins] @ matrix
        return np.asarray(total)


def _product(rows: Array, matrix: Array) -> Array:
    """Multiply without BLAS, whose threads would cost more than this and change its last bit."""
    product: Array = np.einsum("ck,ko->co", rows, matrix)
    return product


def _rectified(x: Array) -> Array:
    return layers.rectified(x, np)
