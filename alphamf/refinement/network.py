"""The refiner's network: what it reads of a cell, and what it makes of it.

Two parts. A stack of residual blocks reads whole frames, wide apart in time through dilated
convolutions (as Conv-TasNet does), and says a few numbers about every cell; two small
convolutions over time and frequency set them beside what the cell and its neighbours show. The
answer is a correction of the posterior mean on the logistic scale, and a standard deviation.

All of it is NumPy-like code, so that learning can differentiate the very lines that denoise.

References
----------
Luo and Mesgarani, "Conv-TasNet", IEEE/ACM TASLP 27 (2019), for the dilated stack.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from alphamf.arrays import Array

FEATURES = 5
WIDTH, BLOCKS, TAPS = 128, 7, 5
MAPS, LOCAL = 3, 12
SLOPE = 0.1
"""Of the leaky rectifiers."""
LOGIT = 3.0
"""Scale of the gain's feature; `forward` starts from that feature, so both must know it."""
LOG_STD = (-7.0, math.log(0.5))
"""Range of the log standard deviation: no gain from 0 to 1 has more than 0.5."""
NARROWEST = 1e-3
"""Least distance of a gain from 0 and 1 before its logit is taken."""
SILENT = 1e-10
"""Power, in units of the mean, below which a cell counts as silent."""
CHUNK = 1 << 15
"""Cells whose neighbourhoods are laid out at once: a few MB."""


def start(rng: np.random.Generator, bins: int) -> dict[str, Array]:
    """Draw the parameters that learning starts from.

    Parameters
    ----------
    bins
        Frequency bins of a frame.

    Returns
    -------
    dict
        Name to float32 array.
    """

    def dense(rows: int, columns: int, scale: float = 1.0) -> Array:
        return rng.standard_normal((rows, columns)) * scale / np.sqrt(rows)

    both = FEATURES + MAPS
    parameters = {"in.weight": dense(FEATURES * bins, WIDTH), "in.bias": np.zeros(WIDTH)}
    for k in range(BLOCKS):
        taps = rng.standard_normal((TAPS, WIDTH)) * 0.3
        taps[TAPS // 2] += 0.5
        parameters |= {
            f"block{k}.taps": taps,
            f"block{k}.scale": np.ones(WIDTH),
            f"block{k}.shift": np.zeros(WIDTH),
            f"block{k}.up": dense(WIDTH, 2 * WIDTH),
            f"block{k}.up_bias": np.zeros(2 * WIDTH),
            f"block{k}.down": dense(2 * WIDTH, WIDTH, 0.3),
            f"block{k}.down_bias": np.zeros(WIDTH),
        }
    parameters |= {
        "map.weight": dense(WIDTH, MAPS * bins, 0.3),
        "map.bias": np.zeros(MAPS * bins),
        "local.weight": dense(9 * both, LOCAL).reshape(3, 3, both, LOCAL),
        "local.bias": np.zeros(LOCAL),
        "out.weight": dense(9 * LOCAL, 2, 0.1).reshape(3, 3, LOCAL, 2),
        "out.bias": np.array([0.0, -2.0]),
    }
    return {name: np.asarray(value, np.float32) for name, value in parameters.items()}


def correlate(cells: Array, weight: Array, bias: Array, xp: Any) -> Array:
    """Correlate with a 3 x 3 kernel over frames and bins; beyond the edges there is zero.

    Parameters
    ----------
    cells
        Shape (..., frames, bins, channels).
    weight, bias
        Shapes (3, 3, channels, outputs) and (outputs,).

    Returns
    -------
    ndarray
        Shape (..., frames, bins, outputs).
    """
    *outer, frames, bins, channels = cells.shape
    outputs = weight.shape[-1]
    padded = xp.pad(cells, [*[(0, 0)] * len(outer), (1, 1), (1, 1), (0, 0)])
    matrix = weight.reshape(9 * channels, outputs)
    result = xp.empty((*outer, frames, bins, outputs), cells.dtype)
    step = max(1, CHUNK // bins)
    for first in range(0, frames, step):
        last = min(first + step, frames)
        near = [
            padded[..., first + i : last + i, j : j + bins, :] for i in range(3) for j in range(3)
        ]
        result[..., first:last, :, :] = xp.concatenate(near, -1) @ matrix + bias
    return result


def features(
    log_power: Array, gain: Array, gain_std: Array, log_speech: Array, log_noise: Array, xp: Any
) -> Array:
    """Lay side by side what the network reads of every cell.

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
    return xp.swapaxes(xp.stack(each, -1), -3, -2)


def forward(
    parameters: Mapping[str, Array],
    features: Array,
    xp: Any,
    convolve: Callable[[Array, Array, Array, Any], Array] = correlate,
) -> tuple[Array, Array]:
    """Say the logit of the refined gain of every cell, and the log of its standard deviation.

    Parameters
    ----------
    parameters
        Of the names and shapes of `start`.
    features
        Shape (..., frames, bins, `FEATURES`).
    convolve
        `correlate`, or what does its work elsewhere.

    Returns
    -------
    tuple of ndarray
        Both of shape (..., frames, bins).
    """
    p = parameters
    bins = features.shape[-2]
    x = features.reshape(*features.shape[:-2], -1) @ p["in.weight"] + p["in.bias"]
    for k in range(BLOCKS):
        u = x - x.mean(-1, keepdims=True)
        u = u / xp.sqrt((u * u).mean(-1, keepdims=True) + 1e-5)
        u = u * p[f"block{k}.scale"] + p[f"block{k}.shift"]
        u = _dilated(u, p[f"block{k}.taps"], 2**k, xp)
        u = _rectified(u @ p[f"block{k}.up"] + p[f"block{k}.up_bias"], xp)
        x = x + u @ p[f"block{k}.down"] + p[f"block{k}.down_bias"]
    maps = (x @ p["map.weight"] + p["map.bias"]).reshape(*x.shape[:-1], bins, MAPS)
    y = xp.concatenate([features, maps], -1)
    y = _rectified(convolve(y, p["local.weight"], p["local.bias"], xp), xp)
    y = convolve(y, p["out.weight"], p["out.bias"], xp) + maps[..., :2]
    logit = y[..., 0] + LOGIT * features[..., 1]
    return logit, xp.clip(y[..., 1], *LOG_STD)


def logistic(logit: Array, xp: Any) -> Array:
    """Return the gain of a logit, without the overflow that there would be in exp."""
    return 0.5 * (1 + xp.tanh(logit / 2))


def _rectified(x: Array, xp: Any) -> Array:
    return xp.maximum(x, SLOPE * x)


def _dilated(x: Array, taps: Array, distance: int, xp: Any) -> Array:
    """Correlate each channel over frames with its taps, `distance` frames apart."""
    frames = x.shape[-2]
    reach = len(taps) // 2 * distance
    padded = xp.pad(x, [*[(0, 0)] * (x.ndim - 2), (reach, reach), (0, 0)])
    return sum(
        padded[..., k * distance : k * distance + frames, :] * tap for k, tap in enumerate(taps)
    )
