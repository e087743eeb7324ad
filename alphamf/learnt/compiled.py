"""The layers of `alphamf.learnt.network` in C: for float32 on a CPU.

They are in ``_network.c``. If it could not be compiled when the package was installed, `AVAILABLE`
is False and `alphamf.learnt.layers` does the same. NumPy computes products for whole recordings on
processors without fast bfloat16.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from alphamf.learnt import network, planes
from alphamf.learnt.planes import PAD
from alphamf.tools.arrays import Array, Floats

DEPTH, SIDE = 32, 16
"""Rows and columns of a tile of AMX."""

ROUNDED = "amx", "bf16"
"""Copies that round the factors of products to bfloat16."""

try:
    import alphamf.learnt._network as _network
except ImportError:
    AVAILABLE = False
else:
    AVAILABLE = True


def variant() -> str:
    """Return the compiled variant: amx, bf16, v4, v3, unfused or default; else numpy.

    As `alphamf.factorization.compiled.variant`, and by the same environment variable. Those of
    `ROUNDED`, for processors with AMX and AMD's with AVX512_BF16, are that of v4 otherwise.
    """
    return str(_network.VARIANT) if AVAILABLE else "numpy"


def supports(array: Array) -> bool:
    """Return whether the functions of this module support this kind of array."""
    return AVAILABLE and isinstance(array, np.ndarray) and array.dtype == np.float32


def pack_matrix(matrix: Floats) -> Array:
    """Return the right side of products with many rows, for `multiply`: in tiles of bfloat16.

    The matrix is returned unchanged if the processor is not fast at that, or if the matrix does not
    fit.

    `matrix`: shape (depth, columns).
    """
    depth, columns = matrix.shape
    matrix = np.ascontiguousarray(matrix)
    if variant() not in ROUNDED or depth % DEPTH or columns % SIDE:
        return matrix
    right = np.empty((columns // SIDE, depth // 2, SIDE, 2), np.uint16)
    _network.pack(columns, matrix, right)
    return right


def multiply(x: Floats, right: Array, out: Floats) -> None:
    """Multiply by a matrix from `pack_matrix`.

    `x`, `out`: shapes (rows, depth) and (rows, columns); rows may lie apart, but not with the
    latter.
    """
    if right.dtype == np.uint16:
        _network.multiply(x, right, out)
    else:
        np.matmul(x, right, out=out)


class CompiledNetwork:
    """A network whose parameters are stored in the layout of the compiled layers.

    It runs a window of a recording, frame after frame, whose cells lie in planes
    (`alphamf.learnt.planes`); a causal network runs in the engine of low latency.

    `parameters`: as `network.shapes` names and shapes them, float32.
    """

    def __init__(self, parameters: Mapping[str, Array], bins: int) -> None:
        self._p = p = {name: np.ascontiguousarray(value) for name, value in parameters.items()}
        self._sizes = sizes = network.sizes_of(network.shapes_of(p))
        self._bins = bins
        self._channels = sizes.features + sizes.maps
        self._given = sizes.features * planes.stride_of(bins)
        self._read = pack_matrix(self._planar(p["in.weight"].T).T)
        self._write = pack_matrix(self._planar(p["map.weight"]))
        self._write_bias = self._planar(p["map.bias"])
        self._blocks = [
            (
                block.distance,
                (p[f"{block.name}.scale"], p[f"{block.name}.shift"], p[f"{block.name}.taps"]),
                (pack_matrix(p[f"{block.name}.up"]), p[f"{block.name}.up_bias"]),
                (pack_matrix(p[f"{block.name}.down"]), p[f"{block.name}.down_bias"]),
            )
            for block in network.stack(sizes)
        ]
        self._steps = tuple(
            (p[f"{each.name}.weight"], p[f"{each.name}.bias"], *each.apart)
            for each in network.correlations(sizes)
        )

    def outputs(self, features: Floats) -> Floats:
        """See `layers.outputs`.

        `features`: shape (..., frames, bins, features).
        """
        *outer, frames, bins, _ = features.shape
        result: Floats = np.empty((*outer, frames, self._sizes.outputs, bins), np.float32)
        result = result.swapaxes(-1, -2)
        for at in np.ndindex(*outer):
            result[at] = self._run(features[at], self.empty_cells(frames))
        return result

    def _run(self, features: Floats, cells: Floats) -> Floats:
        """Run all layers; `cells` are planes that receive features and maps."""
        x = self.run_blocks(self.read_frames(features, cells))
        self.write_maps(x, cells)
        return self.correlate_cells(cells)

    def empty_cells(self, frames: int) -> Floats:
        """Return planes of zeros for the features and maps of so many frames."""
        return np.zeros((frames, planes.size_of(self._channels, self._bins)), np.float32)

    def read_frames(self, features: Floats, cells: Floats) -> Floats:
        """Compute `layers.read_frames`, and write the features, shape (frames, bins, features)."""
        planes.cells_of(cells, self._bins)[..., : self._sizes.features] = features
        x = np.empty((len(features), self._sizes.width), np.float32)
        multiply(cells[:, : self._given], self._read, x)
        x += self._p["in.bias"]
        return x

    def run_blocks(self, x: Floats) -> Floats:
        """Compute `layers.run_blocks`, in place."""
        u, inner = np.empty_like(x), np.empty((len(x), self._sizes.hidden), np.float32)
        frames = np.empty_like(x)
        for distance, taps, (up, up_bias), (down, down_bias) in self._blocks:
            _network.mix(distance, x, *taps, frames, u)
            multiply(u, up, inner)
            _network.rectify(inner, up_bias)
            multiply(inner, down, u)
            _network.add(x, u, down_bias)
        return x

    def write_maps(self, x: Floats, cells: Floats) -> None:
        """Compute `layers.feature_maps`, into planes."""
        maps = cells[:, self._given : -PAD]
        multiply(x, self._write, maps)
        maps += self._write_bias

    def correlate_cells(self, cells: Floats) -> Floats:
        """Compute `layers.correlate_cells`, for planes that hold features and maps."""
        sizes, bins = self._sizes, self._bins
        out = np.empty((len(cells), planes.size_of(sizes.outputs, bins)), np.float32)
        _network.correlate(self._channels, bins, sizes.features, self._steps, cells, out)
        return planes.cells_of(out, bins)

    def _planar(self, matrix: Array) -> Floats:
        """Return the columns of every bin and channel as those of planes."""
        *rows, columns = matrix.shape
        bins = self._bins
        made = np.zeros((*rows, columns // bins, planes.stride_of(bins)), np.float32)
        made[..., PAD : PAD + bins] = matrix.reshape(*rows, bins, -1).swapaxes(-1, -2)
        return made.reshape(*rows, -1)
