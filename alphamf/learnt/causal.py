"""The causal refiner: a network that reads the online chain frame by frame, and nothing ahead.

It is the network of `alphamf.learnt.network`, whose taps all lie in the past. What it has read
stays in memory, so that every frame costs the same.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from alphamf.learnt import compiled, layers, network, planes
from alphamf.learnt.memory import Memories, Memory
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


class CausalRefiner(TrainedNetwork):
    """A trained network whose output is a gain, frame by frame."""

    kind = "causal"

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
        if compiled.suits(features):
            return self._newest.outputs(memories, features)
        p, bins = self.parameters, features.shape[-2]
        x = _product(features.reshape(len(features), -1), p["in.weight"]) + p["in.bias"]
        for k, memory in enumerate(memories.blocks):
            x = x + self._block(k, memory, x)
        maps = _product(x, p["map.weight"]) + p["map.bias"]
        cells = np.concatenate([features, maps.reshape(len(x), bins, -1)], -1).swapaxes(-1, -2)
        y = cells
        steps = compiled.steps_of(p, self.sizes)
        for k, (memory, step) in enumerate(zip(memories.cells, steps, strict=True)):
            planes.bins_of(memory.advance(), bins)[...] = y
            z = _correlated(memory, bins, *step)
            if k + 1 < len(steps):
                z = _rectified(z) + (y if k else 0)
            y = z
        out: Array = y + cells[:, network.FEATURES : network.FEATURES + 2]
        return out.swapaxes(-1, -2)

    def _block(self, k: int, memory: Memory, x: Array) -> Any:
        p = self.parameters
        u = x - x.mean(-1, keepdims=True)
        u *= 1 / np.sqrt((u * u).mean(-1, keepdims=True) + network.NORM_EPSILON)
        memory.advance()[...] = u * p[f"block{k}.scale"] + p[f"block{k}.shift"]
        distance, last = 2 ** (k % network.DILATIONS), network.TAPS - 1
        taps = p[f"block{k}.taps"]
        u = sum(memory.before((last - tap) * distance) * taps[tap] for tap in range(network.TAPS))
        u = _rectified(_product(u, p[f"block{k}.up"]) + p[f"block{k}.up_bias"])
        return _product(u, p[f"block{k}.down"]) + p[f"block{k}.down_bias"]

    @cached_property
    def _newest(self) -> compiled.Newest:
        return compiled.Newest(self.parameters, self.frame.bins)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what was made for this processor: another process may run on another one."""
        return {name: value for name, value in vars(self).items() if name != "_newest"}


def _correlated(
    memory: Memory, bins: int, weight: Array, bias: Array, late: int, high: int
) -> Array:
    """Do as `layers.correlate` for the newest frame of planes, with taps in the past only."""
    rows = [planes.padded(memory.before(late * tap), bins) for tap in (2, 1, 0)]
    near = np.pad(np.concatenate(rows, -2), [(0, 0), (0, 0), (0, planes.PAD)])
    total: Any = bias[:, None]
    for k in range(3):
        first = planes.PAD + (k - 1) * high
        matrix = weight[:, k].reshape(-1, weight.shape[-1])
        total = total + matrix.T @ near[..., first : first + bins]
    return np.asarray(total)


def _product(rows: Array, matrix: Array) -> Array:
    """Multiply without BLAS, whose threads would cost more than this and change its last bit."""
    product: Array = np.einsum("ck,ko->co", rows, matrix)
    return product


def _rectified(x: Array) -> Array:
    return layers.rectified(x, np)
