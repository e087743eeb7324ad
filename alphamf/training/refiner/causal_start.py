"""Initialise a causal network from one for whole recordings with the same windows.

Both read the same spectra of a voice. Where the other network looks ahead, this one reads the
newest frame; frames come twice as often here, so that each block gets the taps of the block before
it. The first block is new. Of a second stage, frames come as often here as there.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from alphamf.learnt import network
from alphamf.learnt.network import Sizes
from alphamf.tools.arrays import Array
from alphamf.training.refiner import weight_tying

SEED = 4
"""Purpose of the random numbers, as the second part of their seed; see `optimise`."""

FIRST = 0.1
"""Fraction of a random block's output with which the first block starts."""


def start(
    rng: np.random.Generator, known: Mapping[str, Array], bins: int, sizes: Sizes, bands: int
) -> dict[str, Array]:
    """Return the initial parameters of a causal refiner."""
    found = network.start(rng, bands or bins, sizes)
    ends = weight_tying.fit_tied(known, bins, bands) if bands else known
    made = {name: ends[name] for name in ("in.weight", "in.bias", "map.weight", "map.bias")}
    made |= _blocks(known, sizes) | _convolutions(known, sizes)
    found["block0.down"] *= np.float32(FIRST)
    for name, value in made.items():
        if found[name].shape != value.shape:
            raise ValueError(f"{name} has the shape {value.shape}, not {found[name].shape}")
        found[name] = np.ascontiguousarray(value, np.float32)
    return found


def _blocks(known: Mapping[str, Array], sizes: Sizes) -> dict[str, Array]:
    made = {}
    for k in range(1, sizes.blocks):
        for name in ("scale", "shift", "up", "up_bias", "down", "down_bias"):
            made[f"block{k}.{name}"] = known[f"block{k - 1}.{name}"]
        taps = known[f"block{k - 1}.taps"]
        none = np.zeros_like(taps[0])
        made[f"block{k}.taps"] = np.stack([none, none, taps[0], taps[1], taps[2:].sum(0)])
    return made


def _convolutions(known: Mapping[str, Array], sizes: Sizes) -> dict[str, Array]:
    made = {}
    for name in (each.name for each in network.correlations(sizes)):
        before, now, ahead = known[f"{name}.weight"]
        made[f"{name}.weight"] = np.stack([before, np.zeros_like(now), now + ahead])
        made[f"{name}.bias"] = known[f"{name}.bias"]
    return made


def start_second_stage(known: Mapping[str, Array], sizes: Sizes) -> dict[str, Array]:
    """Return the initial parameters of a causal second stage."""
    found = network.sizes_of(network.shapes_of(known))
    more = slice(sizes.features, found.features)
    read = known["in.weight"].reshape(-1, found.features, found.width)
    made = dict(known) | {
        "in.weight": np.delete(read, more, axis=1).reshape(-1, found.width),
        "local.weight": np.delete(known["local.weight"], more, axis=2),
        "out.weight": known["out.weight"][..., : sizes.outputs],
        "out.bias": known["out.bias"][: sizes.outputs],
    }
    for block in network.stack(found):
        taps = known[f"{block.name}.taps"]
        none = np.zeros_like(taps[0])
        made[f"{block.name}.taps"] = np.stack([none, none, taps[0], taps[1], taps[2:].sum(0)])
    for each in network.correlations(found):
        before, now, ahead = made[f"{each.name}.weight"]
        made[f"{each.name}.weight"] = np.stack([np.zeros_like(now), before, now + ahead])
    return {name: np.ascontiguousarray(value, np.float32) for name, value in made.items()}
