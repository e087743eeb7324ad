"""The network of `network.outputs` by compiled layers: for float32 on a CPU.

The layers are in ``_network.c``. Where that could not be compiled when the package was installed,
`AVAILABLE` is False and `network` does the same. Products of whole frames are left to NumPy where
the processor is not fast at bfloat16.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from alphamf.learnt import network, planes
from alphamf.learnt.memory import Memories
from alphamf.learnt.planes import PAD, stride_of
from alphamf.tools.arrays import Array, Floats

DEPTH, SIDE = 32, 16
"""Rows and columns of a tile of AMX."""

ROUNDED = "amx", "bf16"
"""Copies that round the factors of products to bfloat16."""

try:
    from alphamf.learnt import _network
except ImportError:
    AVAILABLE = False
else:
    AVAILABLE = True


def variant() -> str:
    """Return which copy of the layers runs: amx, bf16, v4, v3, unfused, default; numpy without any.

    As `alphamf.factorization.compiled.variant`, and by the same environment variable. Those of
    `ROUNDED`, for processors with AMX and AMD's with AVX512_BF16, are that of v4 otherwise.
    """
    return str(_network.VARIANT) if AVAILABLE else "numpy"


def suits(array: Array) -> bool:
    """Whether arrays like this one are for the functions of this module."""
    return AVAILABLE and isinstance(array, np.ndarray) and array.dtype == np.float32


def packed(matrix: Floats) -> Array:
    """Return the right side of products as `multiply` reads it: in tiles of bfloat16.

    Parameters
    ----------
    matrix
        Shape (depth, columns).
    """
    depth, columns = matrix.shape
    matrix = np.ascontiguousarray(matrix)
    if variant() not in ROUNDED or depth % DEPTH or columns % SIDE:
        return matrix
    right = np.empty((columns // SIDE, depth // 2, SIDE, 2), np.uint16)
    _network.pack(columns, matrix, right)
    return right


def multiply(x: Floats, right: Array, out: Floats) -> None:
    """Multiply by a matrix from `packed`.

    Parameters
    ----------
    x, out
        Shapes (rows, depth) and (rows, columns); rows may lie apart.
    right
        The matrix.
    """
    if right.dtype == np.uint16:
        _network.multiply(x, right, out)
    else:
        np.matmul(x, right, out=out)


def steps_of(
    parameters: Mapping[str, Array], sizes: network.Sizes
) -> tuple[tuple[Array, Array, int, int], ...]:
    """Return the weight and bias of every correlation, and its frames and bins between taps."""
    names = ["local", *(f"deep{k}" for k in range(sizes.deep)), "out"]
    apart = [(1, 1), *network.DEEP[: sizes.deep], (1, 1)]
    return tuple(
        (parameters[f"{name}.weight"], parameters[f"{name}.bias"], *each)
        for name, each in zip(names, apart, strict=True)
    )


class Network:
    """A network whose parameters lie as the compiled layers read them.

    Cells lie in planes: frame by frame and channel by channel, with zeros around the bins.

    Parameters
    ----------
    parameters
        As `network.shapes` names and shapes them, float32.
    bins
        Frequency bins of a frame.
    """

    def __init__(self, parameters: Mapping[str, Array], bins: int) -> None:
        self._p = p = {name: np.ascontiguousarray(value) for name, value in parameters.items()}
        self._sizes = network.sizes_of(network.shapes_of(p))
        self._inside = slice(PAD, PAD + bins)
        self._stride = stride_of(bins)
        width, maps = self._sizes.width, self._sizes.maps
        features = self._sizes.features
        self._channels = features + maps
        read = np.zeros((features, self._stride, width), np.float32)
        read[:, self._inside] = p["in.weight"].reshape(bins, -1, width).swapaxes(0, 1)
        self._given = features * self._stride
        self._read = packed(read.reshape(-1, width))
        written = np.zeros((width + 1, maps, self._stride), np.float32)
        both = np.concatenate([p["map.weight"], p["map.bias"][None]])
        written[..., self._inside] = both.reshape(width + 1, bins, maps).swapaxes(1, 2)
        self._write = packed(written[:-1].reshape(width, -1))
        self._write_bias = written[-1].reshape(-1)
        self._pairs = [
            (packed(p[f"block{k}.up"]), packed(p[f"block{k}.down"]))
            for k in range(self._sizes.blocks)
        ]
        self._steps = steps_of(p, self._sizes)

    def outputs(self, features: Floats) -> Floats:
        """Return what `network.outputs` does.

        Parameters
        ----------
        features
            Shape (..., frames, bins, features).
        """
        *outer, frames, bins, _ = features.shape
        planar = np.empty((*outer, frames, self._sizes.outputs, bins), np.float32)
        result: Floats = planar.swapaxes(-1, -2)
        for at in np.ndindex(*outer):
            flat = self.flat(features[at])
            planes = flat[:-PAD].reshape(frames, -1)
            self.write(self.blocks(self.read(planes)), planes)
            result[at] = self.correlated(flat, frames)
        return result

    def flat(self, features: Floats) -> Floats:
        """Return planes of features, and of maps still to be written; and zeros behind them.

        Parameters
        ----------
        features
            Shape (frames, bins, features).
        """
        frames = len(features)
        flat = np.zeros(frames * self._channels * self._stride + PAD, np.float32)
        planes = flat[:-PAD].reshape(frames, self._channels, self._stride)
        planes[:, : self._sizes.features, self._inside] = features.swapaxes(-1, -2)
        return flat

    def read(self, planes: Floats) -> Floats:
        """Do as `network.read`, for planes of shape (frames, floats of a frame)."""
        x = np.empty((len(planes), self._sizes.width), np.float32)
        multiply(planes[:, : self._given], self._read, x)
        x += self._p["in.bias"]
        return x

    def blocks(self, x: Floats) -> Floats:
        """Do as `network.blocks`, in place."""
        p = self._p
        u, inner = np.empty_like(x), np.empty((len(x), self._sizes.hidden), np.float32)
        for k, (up, down) in enumerate(self._pairs):
            scale, shift, taps = (p[f"block{k}.{name}"] for name in ("scale", "shift", "taps"))
            _network.mix(len(x), 2 ** (k % network.DILATIONS), x, scale, shift, taps, u)
            multiply(u, up, inner)
            _network.rectify(inner, p[f"block{k}.up_bias"])
            multiply(inner, down, u)
            _network.add(x, u, p[f"block{k}.down_bias"])
        return x

    def write(self, x: Floats, planes: Floats) -> None:
        """Do as `network.maps`, into planes of shape (frames, floats of a frame)."""
        maps = planes[:, self._given :]
        multiply(x, self._write, maps)
        maps += self._write_bias

    def correlated(self, flat: Floats, frames: int) -> Floats:
        """Do as `network.correlated`, for planes that hold both."""
        out = np.empty((frames, self._sizes.outputs, self._stride), np.float32)
        bins = self._inside.stop - self._inside.start
        _network.correlate(self._channels, bins, self._sizes.features, self._steps, flat, out)
        found: Floats = out[..., self._inside].swapaxes(-1, -2)
        return found


def halved(matrix: Array) -> Array:
    """Return a matrix as `_network.product` reads it: in half precision, in panels of columns.

    What is below the least normal number, 6e-5, becomes zero.

    Parameters
    ----------
    matrix
        Shape (depth, columns).
    """
    depth, columns = matrix.shape
    halves = np.zeros((depth, -(-columns // _network.PANEL) * _network.PANEL), np.float16)
    halves[:, :columns] = np.where(np.abs(matrix) < np.finfo(np.float16).tiny, 0, matrix)
    panels = halves.reshape(depth, -1, _network.PANEL).swapaxes(0, 1)
    return np.ascontiguousarray(panels).view(np.int16)


class Newest:
    """A causal network whose parameters lie as the compiled layers read them.

    Its matrices are in half precision, as in its file: a frame reads each of them once, and they
    take more time than the arithmetic.

    Parameters
    ----------
    parameters
        As `network.shapes` names and shapes them, float32.
    bins
        Frequency bins of a frame.
    """

    def __init__(self, parameters: Mapping[str, Array], bins: int) -> None:
        self._p = p = {name: np.ascontiguousarray(value) for name, value in parameters.items()}
        self._sizes = network.sizes_of(network.shapes_of(p))
        self._bins = bins
        self._read = halved(p["in.weight"])
        self._write = halved(p["map.weight"])
        kinds = ("scale", "shift", "taps", "up", "up_bias", "down", "down_bias")
        self._blocks = [
            [halved(p[name]) if name.endswith(("up", "down")) else p[name] for name in names]
            for names in ([f"block{k}.{kind}" for kind in kinds] for k in range(self._sizes.blocks))
        ]
        self._steps = steps_of(p, self._sizes)

    def outputs(self, memories: Memories, features: Floats) -> Floats:
        """Return the two outputs for every cell of the newest frame, shape (channels, bins, 2).

        Parameters
        ----------
        memories
            They take in the frame.
        features
            Of the frame, shape (channels, bins, `network.FEATURES`).
        """
        rows, bins = len(features), self._bins
        x = np.empty((rows, self._sizes.width), np.float32)
        _network.product(rows, np.ascontiguousarray(features), self._read, x)
        x += self._p["in.bias"]
        for block, memory in zip(self._blocks, memories.blocks, strict=True):
            memory.advance()
            _network.block(memory.newest, x, memory.frames, *block)
        maps = np.empty((rows, bins, self._sizes.maps), np.float32)
        _network.product(rows, x, self._write, maps)
        maps += self._p["map.bias"].reshape(bins, -1)
        cells = planes.bins_of(memories.cells[0].advance(), bins)
        cells[:, : network.FEATURES] = features.swapaxes(-1, -2)
        cells[:, network.FEATURES :] = maps.swapaxes(-1, -2)
        for memory in memories.cells[1:]:
            memory.advance()
        rings = tuple((memory.frames, memory.newest) for memory in memories.cells)
        out = np.empty((rows, planes.size_of(2, bins)), np.float32)
        channels = network.FEATURES + self._sizes.maps
        _network.newest(channels, bins, network.FEATURES, self._steps, rings, out)
        return planes.bins_of(out, bins).swapaxes(-1, -2)
