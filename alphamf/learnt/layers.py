"""The layers of `alphamf.learnt.network` in NumPy and CuPy, and compiled for a CPU."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from alphamf.learnt import network
from alphamf.learnt.network import ADDED, Block
from alphamf.tools.arrays import Array, Floats

PAD, TILE = 16, 48
"""Number of zeros before the bins of each channel and after the last channel; the number of floats
that a channel's bins take is a multiple of the second number. As in ``_row.h``."""


def stride_of(bins: int) -> int:
    """Return the number of floats per channel of a frame, zeros included."""
    return PAD + -(-bins // TILE) * TILE


def size_of(channels: int, bins: int) -> int:
    """Return the number of floats per frame, zeros included."""
    return channels * stride_of(bins) + PAD


def cells_of(frames: Array, bins: int) -> Array:
    """Return the cells of frames, without the zeros around them: a view.

    `frames`: shape (..., floats of a frame). Returns: shape (..., bins, channels).
    """
    channels: Array = frames[..., :-PAD].reshape(*frames.shape[:-1], -1, stride_of(bins))
    return channels[..., PAD : PAD + bins].swapaxes(-1, -2)


DEPTH, SIDE = 32, 16
"""Rows and columns of a tile of AMX."""

ROUNDED = "amx", "bf16"
"""Compiled variants that round the factors of products to bfloat16."""

try:
    import alphamf.learnt._network as _network
except ImportError:
    AVAILABLE = False
else:
    AVAILABLE = True


def variant() -> str:
    """Return the compiled variant: amx, bf16, v4, v3, unfused or default; else numpy.

    Chosen as in `alphamf.factorization.compiled.variant`. amx is for processors with AMX, bf16 for
    those of AMD with AVX512_BF16; both differ from v4 in products only, whose factors they round.
    """
    return str(_network.VARIANT) if AVAILABLE else "numpy"


def supports(array: Array) -> bool:
    """Return whether compiled layers exist and `array` is a NumPy array of float32."""
    return AVAILABLE and isinstance(array, np.ndarray) and array.dtype == np.float32


def pack_matrix(matrix: Floats) -> Array:
    """Return a matrix as the right side of `multiply`: in tiles of bfloat16.

    The matrix stays in float32 if `variant` returns none of `ROUNDED`, or if its sizes are no
    multiples of a tile's.

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
    """Write the product of `x` and a matrix from `pack_matrix` to `out`.

    `x`, `out`: shapes (rows, depth) and (rows, columns); each row is contiguous in memory, but rows
    need not follow each other.
    """
    if right.dtype == np.uint16:
        _network.multiply(x, right, out)
    else:
        np.matmul(x, right, out=out)


class CompiledNetwork:
    """A network whose parameters are stored in the layout of the compiled layers.

    It processes a window of a recording, whose cells lie in one plane per channel (`cells_of`).
    Causal networks run in the engine of low latency instead.

    `parameters`: as `network.shapes` names and shapes them, float32.
    """

    def __init__(self, parameters: Mapping[str, Array], bins: int) -> None:
        self._p = p = {name: np.ascontiguousarray(value) for name, value in parameters.items()}
        self._sizes = sizes = network.sizes_of(network.shapes_of(p))
        self._bins = bins
        self._channels = sizes.features + sizes.maps
        self._given = sizes.features * stride_of(bins)
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
        """Return the outputs for every cell, shape (..., frames, bins, outputs).

        `features`: shape (..., frames, bins, features).
        """
        *outer, frames, bins, _ = features.shape
        result: Floats = np.empty((*outer, frames, self._sizes.outputs, bins), np.float32)
        result = result.swapaxes(-1, -2)
        for at in np.ndindex(*outer):
            cells = self.empty_cells(frames)
            x = self.run_blocks(self.read_frames(features[at], cells))
            self.write_maps(x, cells)
            result[at] = self.correlate_cells(cells)
        return result

    def empty_cells(self, frames: int) -> Floats:
        """Return planes of zeros for the features and maps of `frames` frames."""
        return np.zeros((frames, size_of(self._channels, self._bins)), np.float32)

    def read_frames(self, features: Floats, cells: Floats) -> Floats:
        """Compute `layers.read_frames`; copy features, (frames, bins, features), into `cells`."""
        cells_of(cells, self._bins)[..., : self._sizes.features] = features
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
        """Compute `layers.feature_maps`, and write them into the planes of `cells`."""
        maps = cells[:, self._given : -PAD]
        multiply(x, self._write, maps)
        maps += self._write_bias

    def correlate_cells(self, cells: Floats) -> Floats:
        """Compute `layers.correlate_cells`, for planes that hold features and maps."""
        sizes, bins = self._sizes, self._bins
        out = np.empty((len(cells), size_of(sizes.outputs, bins)), np.float32)
        _network.correlate(self._channels, bins, sizes.features, self._steps, cells, out)
        return cells_of(out, bins)

    def _planar(self, matrix: Array) -> Floats:
        """Return a matrix with its columns, one per bin and channel, laid out in padded planes."""
        *rows, columns = matrix.shape
        bins = self._bins
        made = np.zeros((*rows, columns // bins, stride_of(bins)), np.float32)
        made[..., PAD : PAD + bins] = matrix.reshape(*rows, bins, -1).swapaxes(-1, -2)
        return made.reshape(*rows, -1)


CHUNK = 1 << 13
"""Number of cells whose neighbourhoods are copied at once, as many as the level-2 cache holds."""


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
    and (outputs,). `apart`: frames and bins from tap to tap. Returns: (..., frames, bins, outputs).
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

    `x`: shape (..., frames, channels). `taps`: shape (taps, channels), `distance` frames apart.
    """
    near = frames_at_taps(x, len(taps), distance, -2, xp)
    return sum(frames * tap for frames, tap in zip(near, taps, strict=True))


def frames_at_taps(x: Array, taps: int, distance: int, axis: int, xp: Any) -> list[Array]:
    """Return what each tap of a kernel along `axis`, a negative number, reads: arrays like `x`."""
    frames, reach = x.shape[axis], taps // 2 * distance
    padded = xp.pad(x, [(reach, reach) if k == x.ndim + axis else (0, 0) for k in range(x.ndim)])
    others = (slice(None),) * (-1 - axis)
    starts = (k * distance for k in range(taps))
    return [padded[(..., slice(start, start + frames), *others)] for start in starts]


def leaky_rectify(x: Array, xp: Any) -> Array:
    """Leaky ReLU: return max(x, SLOPE x)."""
    return xp.maximum(x, network.SLOPE * x)


def logistic(logit: Array, xp: Any) -> Array:
    """Return the number from 0 to 1 with this logit; it uses tanh, because exp could overflow."""
    return 0.5 * (1 + xp.tanh(logit / 2))
