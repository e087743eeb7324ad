"""The parameters of a causal network in the layout that the engine of low latency reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from alphamf.learnt import network
from alphamf.tools.arrays import Array, Floats

ALIGNMENT = 64
"""Bytes that every array begins at a multiple of."""

PANEL = 64
"""Columns of a panel of a matrix, as in ``native/_panels.h``."""

BIAS = 128
"""What is added to the numbers of a matrix, which lie between -127 and 127."""

FAINTEST = 1e-30
"""A column whose largest number is smaller counts as zero, as its unit could become zero."""

MATRICES = ("in.weight", "map.weight", ".up", ".down")
"""Ends of the names of the parameters that whole frames are multiplied by."""


def pack(parameters: Mapping[str, Array]) -> bytes:
    """Return the parameters of a network in the order of ``struct layers`` of ``_parts.h``.

    `parameters`: as `network.shapes` names and shapes them, float32.
    """
    return b"".join(aligned(array.tobytes()) for array in _layers(parameters))


def aligned(data: bytes) -> bytes:
    """Return bytes with zeros behind them, up to a multiple of `ALIGNMENT`."""
    return data + bytes(-len(data) % ALIGNMENT)


def in_panels(matrix: Floats) -> tuple[Array, Floats]:
    """Return the right side of products with few rows, in panels of columns, as in ``_panels.h``.

    `matrix`: shape (depth, columns).
    """
    numbers, units = in_bytes(matrix)
    depth, columns = matrix.shape
    whole = np.full((-(-depth // 4) * 4, -(-columns // PANEL) * PANEL), BIAS, np.uint32)
    whole[:depth, :columns] = numbers + BIAS
    words = whole[::4] | whole[2::4] << 8 | whole[1::4] << 16 | whole[3::4] << 24
    return np.ascontiguousarray(words.reshape(len(words), -1, PANEL).swapaxes(0, 1)), units


def in_bytes(matrix: Floats) -> tuple[Floats, Floats]:
    """Return whole numbers between -127 and 127, and the unit of each column of them.

    A product with few rows reads every number of a matrix once, which takes longer than the
    arithmetic.
    """
    most = np.abs(matrix).max(0)
    units = np.where(most > FAINTEST, most, 1).astype(np.float32) / np.float32(127)
    return np.rint(matrix / units), units


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
        yield from in_panels(p[name]) if name.endswith(MATRICES) else (p[name],)
