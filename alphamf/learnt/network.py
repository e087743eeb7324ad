"""The networks' architecture: input features of a cell, and outputs for it.

Two parts. A stack of residual blocks reads whole frames, wide apart in time through dilated
convolutions (as Conv-TasNet does), and makes a few feature maps; small convolutions over time and
frequency combine them with the features of a cell and its neighbours. A refiner's first output
is a correction of the posterior mean on the logistic scale; its second is not used.

Training has the same layers in PyTorch (`alphamf.training.refiner.differentiable`), and the very
features and gains of here.

References
----------
Luo and Mesgarani, "Conv-TasNet", IEEE/ACM TASLP 27 (2019), for the dilated stack.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from alphamf.learnt import layers
from alphamf.tools.arrays import Array

FEATURES, OUTPUTS = 5, 2
"""Input features and outputs of a cell, where a network's class has no others."""
ADDED = 2
"""Feature maps that are added to the first outputs."""
TAPS = 5
DILATIONS = 7
"""Blocks until the distance of the taps, doubled in every block, is one frame again."""
DEEP = ((1, 4), (1, 16), (8, 1))
"""Frames and bins between the taps of the deep convolutions: a voice's harmonics lie some 5 to 20
bins apart at 16 kHz, and a knock is over after 8 frames, an eighth of a second."""
LOGIT = 3.0
"""Scale of the gain's feature; `logits` starts from that feature, so both must know it."""
NORM_EPSILON = 1e-5
"""Added to a frame's variance in the blocks' normalisation."""
NARROWEST = 1e-3
"""Least distance of a gain from 0 and 1 before its logit is taken."""
SILENT = 1e-10
"""Power, in units of the mean, below which a cell counts as silent."""


class Sizes(NamedTuple):
    """How large a network is.

    Attributes
    ----------
    width, hidden
        Channels of a frame, between the blocks and within them.
    blocks
        Of the stack.
    maps
        Feature maps per time-frequency cell; the first two are added to the first two outputs.
    local
        Channels between the small convolutions.
    deep
        How many of the residual ones of `DEEP` there are, between the first and the last.
    features, outputs
        Per time-frequency cell.
    """

    width: int
    hidden: int
    blocks: int
    maps: int
    local: int
    deep: int
    features: int = FEATURES
    outputs: int = OUTPUTS


def shapes(bins: int, sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """Return the name and the shape of every parameter of a network for frames of `bins` bins."""
    width, hidden, blocks, maps, local, deep, features, outputs = sizes
    found: dict[str, tuple[int, ...]] = {"in.weight": (features * bins, width), "in.bias": (width,)}
    for k in range(blocks):
        found |= {
            f"block{k}.taps": (TAPS, width),
            f"block{k}.scale": (width,),
            f"block{k}.shift": (width,),
            f"block{k}.up": (width, hidden),
            f"block{k}.up_bias": (hidden,),
            f"block{k}.down": (hidden, width),
            f"block{k}.down_bias": (width,),
        }
    found |= {"map.weight": (width, maps * bins), "map.bias": (maps * bins,)}
    found |= {"local.weight": (3, 3, features + maps, local), "local.bias": (local,)}
    for k in range(min(deep, len(DEEP))):  # a file with more has names that are none of these
        found |= {f"deep{k}.weight": (3, 3, local, local), f"deep{k}.bias": (local,)}
    return found | {"out.weight": (3, 3, local, outputs), "out.bias": (outputs,)}


def shapes_of(parameters: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the name and the shape of every parameter, of arrays of any kind."""
    return {name: tuple(value.shape) for name, value in parameters.items()}


def sizes_of(found: Mapping[str, tuple[int, ...]]) -> Sizes:
    """Return the sizes of the network whose parameters have these names and shapes.

    Raises
    ------
    KeyError
        One is missing.
    """
    bins, (width, hidden) = bins_of(found), found["block0.up"]
    maps, local = found["map.bias"][0] // bins, found["local.bias"][0]
    features, outputs = found["in.weight"][0] // bins, found["out.bias"][0]
    return Sizes(width, hidden, _blocks(found), maps, local, _deep(found), features, outputs)


def bins_of(found: Mapping[str, tuple[int, ...]]) -> int:
    """Return the bins of the network whose parameters have these names and shapes."""
    return (found["in.weight"][0] + found["map.bias"][0]) // found["local.weight"][2]


def start(rng: np.random.Generator, bins: int, sizes: Sizes) -> dict[str, Array]:
    """Draw the parameters that training starts from.

    Parameters
    ----------
    rng
        Where they are drawn from.
    bins
        Frequency bins of a frame.
    sizes
        Of the network.

    Returns
    -------
    dict
        Name to float32 array.
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

    Parameters
    ----------
    log_power, log_speech, log_noise
        Logs of |X|^2 and of the posterior means of both variances, in units of the mean power;
        shape (..., bins, frames), as all of these.
    gain, gain_std
        Posterior mean and standard deviation of the gain.
    xp
        The module of the arrays.

    Returns
    -------
    ndarray
        Shape (..., frames, bins, `FEATURES`), of order one.
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
    """Return arrays of shape (..., bins, frames) as features: a view, whose bins lie side by side.

    Returns
    -------
    ndarray
        Shape (..., frames, bins, features).
    """
    *outer, bins, frames = each[0].shape
    planes: Array = xp.empty((*outer, frames, len(each), bins), dtype=each[0].dtype)
    for k, feature in enumerate(each):
        planes[..., k, :] = xp.swapaxes(feature, -1, -2)
    found: Array = xp.swapaxes(planes, -1, -2)
    return found


def logits(found: Array, features: Array) -> Array:
    """Return the logit of the refined gain of every cell, shape (..., frames, bins).

    Parameters
    ----------
    found
        As from `outputs`, shape (..., frames, bins, 2).
    features
        What it was found from.
    """
    logit: Array = found[..., 0] + LOGIT * features[..., 1]
    return logit


def outputs(
    parameters: Mapping[str, Array],
    features: Array,
    xp: Any,
) -> Array:
    """Return the network's outputs for every cell.

    Parameters
    ----------
    parameters
        Of the names and shapes of `start`.
    features
        Shape (..., frames, bins, features).
    xp
        Module of the arrays.

    Returns
    -------
    ndarray
        Shape (..., frames, bins, outputs).
    """
    x = blocks(parameters, read(parameters, features), xp)
    return correlated(parameters, features, maps(parameters, x, features.shape[-2]), xp)


def read(p: Mapping[str, Array], features: Array) -> Array:
    """Return channels of whole frames, shape (..., frames, width), for `features` of `outputs`."""
    return features.reshape(*features.shape[:-2], -1) @ p["in.weight"] + p["in.bias"]


def blocks(p: Mapping[str, Array], x: Array, xp: Any) -> Array:
    """Return the channels after the residual blocks; shape (..., frames, width), as before."""
    for k in range(_blocks(p)):
        u = x - x.mean(-1, keepdims=True)
        u = u / xp.sqrt((u * u).mean(-1, keepdims=True) + NORM_EPSILON)
        u = u * p[f"block{k}.scale"] + p[f"block{k}.shift"]
        u = layers.dilated(u, p[f"block{k}.taps"], 2 ** (k % DILATIONS), xp)
        u = layers.rectified(u @ p[f"block{k}.up"] + p[f"block{k}.up_bias"], xp)
        x = x + u @ p[f"block{k}.down"] + p[f"block{k}.down_bias"]
    return x


def maps(p: Mapping[str, Array], x: Array, bins: int) -> Array:
    """Return the feature maps that the blocks make, shape (..., frames, bins, maps)."""
    return (x @ p["map.weight"] + p["map.bias"]).reshape(*x.shape[:-1], bins, -1)


def correlated(
    p: Mapping[str, Array],
    features: Array,
    maps: Array,
    xp: Any,
) -> Array:
    """Return the outputs that the small convolutions make of features and maps.

    Parameters
    ----------
    p, features, xp
        As `parameters` and the others of `outputs`.
    maps
        Shape (..., frames, bins, maps).
    """
    y = xp.concatenate([features, maps], -1)
    y = layers.rectified(layers.correlate(y, p["local.weight"], p["local.bias"], (1, 1), xp), xp)
    for k in range(_deep(p)):
        z = layers.correlate(y, p[f"deep{k}.weight"], p[f"deep{k}.bias"], DEEP[k], xp)
        y = y + layers.rectified(z, xp)
    out: Array = layers.correlate(y, p["out.weight"], p["out.bias"], (1, 1), xp)
    out[..., :ADDED] += maps[..., :ADDED]
    return out


def _blocks(names: Iterable[str]) -> int:
    return sum(name.endswith(".taps") for name in names)


def _deep(names: Iterable[str]) -> int:
    return sum(name.startswith("deep") and name.endswith(".bias") for name in names)
