"""The parameters of a causal network in the layout that the engine of low latency reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from alphamf.learnt import network
from alphamf.tools.arrays import Array, Floats
from alphamf.tools.bfloat16 import round_to_bfloat16

ALIGNMENT = 64
"""Bytes that every array begins at a multiple of."""

PANEL = 64
"""Columns of a panel of a matrix, as in ``_panels.h``."""

MATRICES = ("in.weight", "map.weight", ".up", ".down")
"""Ends of the names of the parameters that whole frames are multiplied by."""


def pack(parameters: Mapping[str, Array]) -> bytes:
    """Return the parameters of a network in the order of ``struct layers`` of ``_parts.h``.

    Parameters
    ----------
    parameters
        As `network.shapes` names and shapes them, with matrices as of `round_matrices`.
    """
    return b"".join(aligned(array.tobytes()) for array in _layers(parameters))


def aligned(data: bytes) -> bytes:
    """Return bytes with zeros behind them, up to a multiple of `ALIGNMENT`."""
    return data + bytes(-len(data) % ALIGNMENT)


def round_matrices(parameters: Mapping[str, Array]) -> dict[str, Array]:
    """Return the parameters of a network with its matrices in bfloat16, as training rounds them.

    A product of a matrix with few rows reads every number once, and that takes more time than the
    arithmetic. The others stay as they are.

    Parameters
    ----------
    parameters
        As `network.shapes` names and shapes them, float32.

    Returns
    -------
    dict
        Name to float32 array.
    """
    return {
        name: round_to_bfloat16(value) if name.endswith(MATRICES) else value
        for name, value in parameters.items()
    }


def in_panels(matrix: Floats) -> Array:
    """Return the right side of products with few rows, in panels of columns, as in ``_panels.h``.

    Parameters
    ----------
    matrix
        Shape (depth, columns), of bfloat16 numbers.
    """
    depth, columns = matrix.shape
    halves = np.zeros((depth + depth % 2, -(-columns // PANEL) * PANEL), np.uint32)
    halves[:depth, :columns] = matrix.view(np.uint32) >> 16
    pairs = halves[::2] | halves[1::2] << 16
    return np.ascontiguousarray(pairs.reshape(len(pairs), -1, PANEL).swapaxes(0, 1))


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
        yield in_panels(p[name]) if name.endswith(MATRICES) else p[name]
