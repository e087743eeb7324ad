"""The parameters of a causal network in the layout that the engine of low latency reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from alphamf.learnt import network
from alphamf.tools.arrays import Array, Floats

ALIGNMENT = 64
"""Bytes that every array begins at a multiple of."""

PANEL = 64
"""Columns of a panel of a matrix, as in ``_panels.h``."""


def pack(parameters: Mapping[str, Array]) -> bytes:
    """Return the parameters of a network in the order of ``struct layers`` of ``_parts.h``.

    Parameters
    ----------
    parameters
        As `network.shapes` names and shapes them, float32.
    """
    return b"".join(aligned(array.tobytes()) for array in _layers(parameters))


def aligned(data: bytes) -> bytes:
    """Return bytes with zeros behind them, up to a multiple of `ALIGNMENT`."""
    return data + bytes(-len(data) % ALIGNMENT)


def halve_precision(matrix: Floats) -> Array:
    """Return the right side of products with few rows: in half precision, in panels of columns.

    Such a product reads every number once, and that takes more time than the arithmetic. What is
    below the least normal number, 6e-5, becomes zero.

    Parameters
    ----------
    matrix
        Shape (depth, columns).
    """
    depth, columns = matrix.shape
    halves = np.zeros((depth, -(-columns // PANEL) * PANEL), np.float16)
    halves[:, :columns] = np.where(np.abs(matrix) < np.finfo(np.float16).tiny, 0, matrix)
    return np.ascontiguousarray(halves.reshape(depth, -1, PANEL).swapaxes(0, 1))


def _layers(p: Mapping[str, Array]) -> Iterator[Array]:
    sizes = network.sizes_of(network.shapes_of(p))
    yield from (halve_precision(p["in.weight"]), p["in.bias"])
    for block in network.stack(sizes):
        for name in ("scale", "shift", "taps", "up", "up_bias", "down", "down_bias"):
            value = p[f"{block.name}.{name}"]
            yield halve_precision(value) if name in ("up", "down") else value
    yield from (halve_precision(p["map.weight"]), p["map.bias"])
    for each in network.correlations(sizes):
        yield from (p[f"{each.name}.weight"], p[f"{each.name}.bias"])
