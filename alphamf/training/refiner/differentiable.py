"""The network of `alphamf.learnt.network` in PyTorch: the same outputs, differentiable and fast."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from alphamf.learnt import layers, network


def outputs(p: Mapping[str, Tensor], features: Tensor, causal: bool = False) -> Tensor:
    """Return the network's outputs for every cell, as `network.outputs` does.

    Parameters
    ----------
    p
        Of the names and shapes of `network.shapes`.
    features
        Shape (clips, frames, bins, features).
    causal
        Whether all taps lie in the past, as in `alphamf.learnt.causal`.

    Returns
    -------
    Tensor
        Shape (clips, frames, bins, outputs), float32.
    """
    bins = features.shape[-2]
    sizes = network.sizes_of(network.shapes_of(p))
    x = features.flatten(-2) @ p["in.weight"] + p["in.bias"]
    for k in range(sizes.blocks):
        x = x + _block(p, k, x, causal)
    maps = (x @ p["map.weight"] + p["map.bias"]).unflatten(-1, (bins, sizes.maps))
    y = torch.cat([features, maps.to(features.dtype)], -1).permute(0, 3, 1, 2)
    y = _rectified(_correlated(p, "local", y, (1, 1), causal))
    for k in range(sizes.deep):
        y = y + _rectified(_correlated(p, f"deep{k}", y, network.DEEP[k], causal))
    found = _correlated(p, "out", y, (1, 1), causal).permute(0, 2, 3, 1)
    added = functional.pad(maps[..., : network.ADDED], (0, sizes.outputs - network.ADDED))
    return found.float() + added.float()


def _block(p: Mapping[str, Tensor], k: int, x: Tensor, causal: bool) -> Tensor:
    scale, shift = p[f"block{k}.scale"], p[f"block{k}.shift"]
    u = functional.layer_norm(x.float(), scale.shape, scale, shift, network.NORM_EPSILON)
    u = _dilated(u, p[f"block{k}.taps"], 2 ** (k % network.DILATIONS), causal)
    u = _rectified(u @ p[f"block{k}.up"] + p[f"block{k}.up_bias"])
    return u @ p[f"block{k}.down"] + p[f"block{k}.down_bias"]


def _dilated(x: Tensor, taps: Tensor, distance: int, causal: bool) -> Tensor:
    """Do as `layers.dilated`."""
    frames, reach = x.shape[-2], len(taps) // 2 * distance
    padded = functional.pad(x, (0, 0, *_ends(reach, causal)))
    total = padded[..., :frames, :] * taps[0]
    for k in range(1, len(taps)):
        total = total + padded[..., k * distance : k * distance + frames, :] * taps[k]
    return total


def _correlated(
    p: Mapping[str, Tensor], name: str, cells: Tensor, apart: tuple[int, int], causal: bool
) -> Tensor:
    """Do as `layers.correlate`, for cells of shape (clips, channels, frames, bins)."""
    weight, (late, high) = p[f"{name}.weight"].permute(3, 2, 0, 1), apart
    if causal:
        cells = functional.pad(cells, (0, 0, *_ends(late, causal)))
    around = (0 if causal else late, high)
    return functional.conv2d(cells, weight, p[f"{name}.bias"], padding=around, dilation=apart)


def _ends(reach: int, causal: bool) -> tuple[int, int]:
    """Return the frames of zero before the first and after the last."""
    return (2 * reach, 0) if causal else (reach, reach)


def _rectified(x: Tensor) -> Tensor:
    return functional.leaky_relu(x, layers.SLOPE)
