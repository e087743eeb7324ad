"""Architecture of the networks, and their input features and outputs per cell.

A network has two parts. A stack of residual blocks reads whole frames over a long time through
dilated convolutions (as in Conv-TasNet), and computes a few feature maps; small convolutions over
time and frequency combine them with the features of a cell and its neighbours. A refiner's first
output is added to the logit of the gain's posterior mean; its second is not used.

This module describes the layers once: their order, names, shapes, distances and rectifiers. They
run in `alphamf.learnt.layers` (array code and C), `alphamf.training.refiner.torch_layers` (PyTorch,
for training) and, at low latency, ``native/_network.c``.

References
----------
Luo and Mesgarani, "Conv-TasNet", IEEE/ACM TASLP 27 (2019), for the dilated stack.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from alphamf.tools.arrays import Array

FEATURES, OUTPUTS = 5, 2
"""Numbers of input features and outputs per cell, unless a network's class defines others."""
ADDED = 2
"""Number of feature maps that are added to the first outputs."""
TAPS = 5
DILATIONS = 7
"""Number of blocks after which the distance of taps, doubled in each, is one frame again."""
DEEP = ((1, 4), (1, 16), (8, 1))
"""Frames and bins between the taps of the deep convolutions: a voice's harmonics lie some 5 to 20
bins apart at 16 kHz, and a knock is over after 8 frames, an eighth of a second."""
LOGIT = 3.0
"""Number by which the gain's logit is divided to be a feature; `logits` multiplies by it again."""
SLOPE = 0.1
"""Slope of the leaky rectifiers below zero."""
NORM_EPSILON = 1e-5
"""Number added to a frame's variance in the blocks' normalisation."""
NARROWEST = 1e-3
"""Minimum distance of a gain from 0 and 1 before its logit is taken."""
SILENT = 1e-10
"""Number that is added to a cell's power, in units of the mean, before its logarithm is taken."""


class Sizes(NamedTuple):
    """The sizes of a network's layers."""

    # width, hidden: channels of a frame, between the blocks and within them.
    width: int
    hidden: int
    blocks: int  # Number of blocks of the stack
    # Feature maps per time-frequency cell; the first two are added to the first two outputs.
    maps: int
    local: int  # Channels between the small convolutions
    deep: int  # Number of residual convolutions (`DEEP`) between the first and the last
    # features, outputs: numbers of each per time-frequency cell.
    features: int = FEATURES
    outputs: int = OUTPUTS


class Block(NamedTuple):
    """A residual block of the stack.

    It normalises every frame, multiplies it by `scale` and adds `shift`; correlates each channel
    over frames with its `taps`; multiplies by ``up``, adds a bias and rectifies; multiplies by
    ``down`` and adds a bias; and adds the result to its input.
    """

    name: str  # Prefix of its parameters' names
    distance: int  # Frames from one tap to the next


class Correlation(NamedTuple):
    """A correlation of the cells with a 3 x 3 kernel over frames and bins."""

    # Prefix of its parameters' names: ``.weight``, shape (3, 3, inputs, outputs), and ``.bias``.
    name: str
    apart: tuple[int, int]  # Frames and bins from one tap to the next
    # inputs, outputs: channels of a cell before and after.
    inputs: int
    outputs: int
    rectify: bool  # Whether a leaky rectifier follows
    residual: bool  # Whether the result is added to the correlation's input


def stack(sizes: Sizes) -> tuple[Block, ...]:
    """Return the blocks of a network, in their order; they read whole frames."""
    return tuple(Block(f"block{k}", 2 ** (k % DILATIONS)) for k in range(sizes.blocks))


def correlations(sizes: Sizes) -> tuple[Correlation, ...]:
    """Return the correlations of a network, in their order.

    The first one reads the features of a cell and its feature maps. The first `ADDED` feature maps
    are added to the first outputs of the last one.
    """
    read, local, near = sizes.features + sizes.maps, sizes.local, (1, 1)
    deep = (
        Correlation(f"deep{k}", apart, local, local, rectify=True, residual=True)
        for k, apart in enumerate(DEEP[: sizes.deep])
    )
    return (
        Correlation("local", near, read, local, rectify=True, residual=False),
        *deep,
        Correlation("out", near, local, sizes.outputs, rectify=False, residual=False),
    )


def shapes(bins: int, sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """Return name and shape of each parameter of a network for frames of `bins` bins."""
    width, hidden, maps = sizes.width, sizes.hidden, sizes.maps
    named: dict[str, tuple[int, ...]] = {
        "in.weight": (sizes.features * bins, width),
        "in.bias": (width,),
    }
    for block in stack(sizes):
        named |= {
            f"{block.name}.taps": (TAPS, width),
            f"{block.name}.scale": (width,),
            f"{block.name}.shift": (width,),
            f"{block.name}.up": (width, hidden),
            f"{block.name}.up_bias": (hidden,),
            f"{block.name}.down": (hidden, width),
            f"{block.name}.down_bias": (width,),
        }
    named |= {"map.weight": (width, maps * bins), "map.bias": (maps * bins,)}
    # A file with more correlations than `DEEP` has names that are none of these.
    for each in correlations(sizes):
        named[f"{each.name}.weight"] = (3, 3, each.inputs, each.outputs)
        named[f"{each.name}.bias"] = (each.outputs,)
    return named


def shapes_of(parameters: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return name and shape of each parameter, for arrays of any type."""
    return {name: tuple(value.shape) for name, value in parameters.items()}


def sizes_of(shapes: Mapping[str, tuple[int, ...]]) -> Sizes:
    """Return the sizes of a network, given the names and shapes of its parameters."""
    bins, (width, hidden) = bins_of(shapes), shapes["block0.up"]
    maps, local = shapes["map.bias"][0] // bins, shapes["local.bias"][0]
    blocks = len([name for name in shapes if name.endswith(".taps")])
    deep = len([name for name in shapes if name.startswith("deep") and name.endswith(".bias")])
    features, outputs = shapes["in.weight"][0] // bins, shapes["out.bias"][0]
    return Sizes(width, hidden, blocks, maps, local, deep, features, outputs)


def bins_of(shapes: Mapping[str, tuple[int, ...]]) -> int:
    """Return the number of bins of a network, given the names and shapes of its parameters."""
    return (shapes["in.weight"][0] + shapes["map.bias"][0]) // shapes["local.weight"][2]


def start(rng: np.random.Generator, bins: int, sizes: Sizes) -> dict[str, Array]:
    """Draw initial parameters for training.

    Returns: name to float32 array.
    """
    # The stack and the last layer contribute little at first: the posterior mean comes through.
    scales = {"block.down": 0.3, "map.weight": 0.3, "deep.weight": 0.3, "out.weight": 0.1}
    parameters = {}
    for name, shape in shapes(bins, sizes).items():
        kind = re.sub(r"\d+", "", name)
        if kind == "block.taps":
            values = rng.standard_normal(shape) * 0.3
            values[TAPS // 2] += 0.5
        elif kind == "block.scale":
            values = np.ones(shape)
        elif len(shape) > 1:
            inputs = np.prod(shape[:-1])
            values = rng.standard_normal(shape) * scales.get(kind, 1.0) / np.sqrt(inputs)
        else:
            values = np.zeros(shape)
        parameters[name] = values.astype(np.float32)
    return parameters


def features(
    log_power: Array, gain: Array, gain_std: Array, log_speech: Array, log_noise: Array, xp: Any
) -> Array:
    """Return the network's input features of every cell.

    `log_power`, `log_speech`, `log_noise`: logs of |X|^2 and of the posterior means of both
    variances, in units of the mean power. Shape of all arrays: (..., bins, frames). Returns:
    shape (..., frames, bins, `FEATURES`), of order one.
    """
    gain = xp.clip(gain, NARROWEST, 1 - NARROWEST)
    each = [
        log_power / 4,
        xp.log(gain / (1 - gain)) / LOGIT,
        gain_std * 4,
        xp.clip(log_noise, -12, 12) / 4,
        xp.clip(log_speech, -14, 12) / 4,
    ]
    return cells_of(each, xp)


def cells_of(each: Sequence[Array], xp: Any) -> Array:
    """Copy arrays of shape (..., bins, frames) into one, as the features of cells.

    Returns: shape (..., frames, bins, features).
    """
    *outer, bins, frames = each[0].shape
    planes: Array = xp.empty((*outer, frames, len(each), bins), dtype=each[0].dtype)
    for k, feature in enumerate(each):
        planes[..., k, :] = xp.swapaxes(feature, -1, -2)
    return xp.swapaxes(planes, -1, -2)


def logits(found: Array, features: Array) -> Array:
    """Return the logit of the refined gain of every cell, shape (..., frames, bins).

    `found`: outputs, shape (..., frames, bins, 2). `features`: as from `network.features`.
    """
    return found[..., 0] + LOGIT * features[..., 1]
