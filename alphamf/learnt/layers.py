"""The layers of `alphamf.learnt.network`, in code that NumPy and CuPy run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from alphamf.learnt import network
from alphamf.learnt.network import ADDED, Block
from alphamf.tools.arrays import Array

CHUNK = 1 << 13
"""Cells whose neighbourhoods are copied at once: about what the second-level cache holds."""


def outputs(parameters: Mapping[str, Array], features: Array, xp: Any) -> Array:
    """Return the network's outputs for every cell.

    `parameters`: as `network.shapes` names and shapes them. `features`: shape (..., frames, bins,
    features). Returns: shape (..., frames, bins, outputs).
    """
    x = read_frames(parameters, features)
    x = run_blocks(parameters, x, xp)
    maps = feature_maps(parameters, x, features.shape[-2])
    return correlate_cells(parameters, features, maps, xp)


def read_frames(p: Mapping[str, Array], features: Array) -> Array:
    """Return the channels of whole frames, shape (..., frames, width), given the features."""
    return features.reshape(*features.shape[:-2], -1) @ p["in.weight"] + p["in.bias"]


def run_blocks(p: Mapping[str, Array], x: Array, xp: Any) -> Array:
    """Return the channels after the residual blocks; shape (..., frames, width), as before."""
    for block in network.stack(network.sizes_of(network.shapes_of(p))):
        x = x + _block(p, block, x, xp)
    return x


def feature_maps(p: Mapping[str, Array], x: Array, bins: int) -> Array:
    """Return the feature maps that the blocks make, shape (..., frames, bins, maps)."""
    return (x @ p["map.weight"] + p["map.bias"]).reshape(*x.shape[:-1], bins, -1)


def correlate_cells(p: Mapping[str, Array], features: Array, maps: Array, xp: Any) -> Array:
    """Return the outputs that the correlations make of features and maps.

    `maps`: shape (..., frames, bins, maps).
    """
    y: Array = xp.concatenate([features, maps], -1)
    for each in network.correlations(network.sizes_of(network.shapes_of(p))):
        weight, bias = p[f"{each.name}.weight"], p[f"{each.name}.bias"]
        z = correlate(y, weight, bias, each.apart, xp)
        z = leaky_rectify(z, xp) if each.rectify else z
        y = y + z if each.residual else z
    y[..., :ADDED] += maps[..., :ADDED]
    return y


def _block(p: Mapping[str, Array], block: Block, x: Array, xp: Any) -> Array:
    scale, shift, taps, up, up_bias, down, down_bias = (
        p[f"{block.name}.{name}"]
        for name in ("scale", "shift", "taps", "up", "up_bias", "down", "down_bias")
    )
    u = x - x.mean(-1, keepdims=True)
    u = u / xp.sqrt((u * u).mean(-1, keepdims=True) + network.NORM_EPSILON)
    u = correlate_dilated(u * scale + shift, taps, block.distance, xp)
    product: Array = leaky_rectify(u @ up + up_bias, xp) @ down
    return product + down_bias


def correlate(
    cells: Array,
    weight: Array,
    bias: Array,
    apart: tuple[int, int],
    xp: Any,
) -> Array:
    """Correlate with a 3 x 3 kernel over frames and bins; the edges are padded with zeros.

    `cells`: shape (..., frames, bins, channels). `weight`, `bias`: shapes (3, 3, channels, outputs)
    and (outputs,). Returns: shape (..., frames, bins, outputs).
    """
    *outer, frames, bins, channels = cells.shape
    late, high = apart
    taps = frames_at_taps(cells, 3, late, -3, xp)
    # Only the taps over frames are copied side by side, and each of the three over bins has a
    # product of its own: copying all nine would take longer than the products.
    below, here, above = weight.swapaxes(0, 1).reshape(3, 3 * channels, -1)
    result: Array = xp.empty((*outer, frames, bins, len(bias)), cells.dtype)
    step = max(1, CHUNK // bins)
    for first in range(0, frames, step):
        last = min(first + step, frames)
        near = xp.concatenate([tap[..., first:last, :, :] for tap in taps], -1)
        total = near @ here
        total[..., high:, :] += near[..., :-high, :] @ below
        total[..., :-high, :] += near[..., high:, :] @ above
        total += bias
        result[..., first:last, :, :] = total
    return result


def correlate_dilated(x: Array, taps: Array, distance: int, xp: Any) -> Array:
    """Correlate each channel with its taps over frames; the ends are padded with zeros.

    `x`: shape (..., frames, channels). `taps`: shape (taps, channels).
    """
    near = frames_at_taps(x, len(taps), distance, -2, xp)
    total: Array = sum(frames * tap for frames, tap in zip(near, taps, strict=True))
    return total


def frames_at_taps(x: Array, taps: int, distance: int, axis: int, xp: Any) -> list[Array]:
    """Return what each tap of a kernel over frames reads, in arrays of the shape of `x`."""
    frames, reach = x.shape[axis], taps // 2 * distance
    padded = xp.pad(x, [(reach, reach) if k == x.ndim + axis else (0, 0) for k in range(x.ndim)])
    others = (slice(None),) * (-1 - axis)
    starts = (k * distance for k in range(taps))
    return [padded[(..., slice(start, start + frames), *others)] for start in starts]


def leaky_rectify(x: Array, xp: Any) -> Array:
    """Leaky ReLU: return max(x, SLOPE x)."""
    rectified: Array = xp.maximum(x, network.SLOPE * x)
    return rectified


def logistic(logit: Array, xp: Any) -> Array:
    """Convert a logit to a gain; uses tanh, because exp would overflow."""
    gain: Array = 0.5 * (1 + xp.tanh(logit / 2))
    return gain
