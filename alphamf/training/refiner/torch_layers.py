"""The network of `alphamf.learnt.network` in PyTorch: the same outputs, differentiable and fast."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from alphamf.learnt import network
from alphamf.learnt.network import Block, Correlation


def outputs(p: Mapping[str, Tensor], features: Tensor, causal: bool = False) -> Tensor:
    """Return the network's outputs for every cell, as `alphamf.learnt.layers.outputs` does.

    `p`: parameters, as in `network.shapes`. `features`: shape (clips, frames, bins, features).
    `causal`: no tap reads later frames. Returns: shape (clips, frames, bins, outputs), float32.
    """
    bins = features.shape[-2]
    sizes = network.sizes_of(network.shapes_of(p))
    x = features.flatten(-2) @ p["in.weight"] + p["in.bias"]
    for block in network.stack(sizes):
        x = x + _block(p, block, x, causal)
    maps = (x @ p["map.weight"] + p["map.bias"]).unflatten(-1, (bins, sizes.maps))
    y = torch.cat([features, maps.to(features.dtype)], -1).permute(0, 3, 1, 2)
    for each in network.correlations(sizes):
        z = _correlate(p, each, y, causal)
        z = _rectify(z) if each.rectify else z
        y = y + z if each.residual else z
    made = y.permute(0, 2, 3, 1)
    added = functional.pad(maps[..., : network.ADDED], (0, sizes.outputs - network.ADDED))
    return made.float() + added.float()


def _block(p: Mapping[str, Tensor], block: Block, x: Tensor, causal: bool) -> Tensor:
    scale, shift = p[f"{block.name}.scale"], p[f"{block.name}.shift"]
    u = functional.layer_norm(x.float(), scale.shape, scale, shift, network.NORM_EPSILON)
    u = _correlate_dilated(u, p[f"{block.name}.taps"], block.distance, causal)
    u = _rectify(u @ p[f"{block.name}.up"] + p[f"{block.name}.up_bias"])
    return u @ p[f"{block.name}.down"] + p[f"{block.name}.down_bias"]


def _correlate_dilated(x: Tensor, taps: Tensor, distance: int, causal: bool) -> Tensor:
    """Return `alphamf.learnt.layers.correlate_dilated` of frames, in the shape of `x`."""
    frames, reach = x.shape[-2], len(taps) // 2 * distance
    padded = functional.pad(x, (0, 0, *_ends(reach, causal)))
    total = padded[..., :frames, :] * taps[0]
    for k in range(1, len(taps)):
        total = total + padded[..., k * distance : k * distance + frames, :] * taps[k]
    return total


def _correlate(p: Mapping[str, Tensor], each: Correlation, cells: Tensor, causal: bool) -> Tensor:
    """Return `alphamf.learnt.layers.correlate` of cells, (clips, channels, frames, bins)."""
    weight, bias = p[f"{each.name}.weight"].permute(3, 2, 0, 1), p[f"{each.name}.bias"]
    late, high = each.apart
    if causal:
        cells = functional.pad(cells, (0, 0, *_ends(late, causal)))
    around = (0 if causal else late, high)
    return functional.conv2d(cells, weight, bias, padding=around, dilation=each.apart)


def _ends(reach: int, causal: bool) -> tuple[int, int]:
    """Return the numbers of zero frames to add before the first frame and after the last."""
    return (2 * reach, 0) if causal else (reach, reach)


def _rectify(x: Tensor) -> Tensor:
    return functional.leaky_relu(x, network.SLOPE)
