"""The network of `network.outputs` by compiled layers: for float32 on a CPU.

The layers are in ``_network.c``. Where that could not be compiled when the package was installed,
`AVAILABLE` is False and `network` does the same. What multiplies whole frames is left to NumPy.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from alphamf.learnt import network
from alphamf.tools.arrays import Array, Floats

try:
    from alphamf.learnt import _network
except ImportError:
    AVAILABLE = False
else:
    AVAILABLE = True


def variant() -> str:
    """Return which copy of the layers runs: v4, v3, unfused or default; numpy where there is none.

    As `alphamf.factorization.compiled.variant`, and by the same environment variable.
    """
    return str(_network.VARIANT) if AVAILABLE else "numpy"


def suits(array: Array) -> bool:
    """Whether arrays like this one are for the functions of this module."""
    return AVAILABLE and isinstance(array, np.ndarray) and array.dtype == np.float32


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
        self._sizes = network.sizes_of({name: value.shape for name, value in p.items()}, bins)
        self._inside = slice(_network.PAD, _network.PAD + bins)
        self._stride = _network.PAD + -(-bins // _network.TILE) * _network.TILE
        width, maps = self._sizes.width, self._sizes.maps
        read = np.zeros((network.FEATURES, self._stride, width), np.float32)
        read[:, self._inside] = p["in.weight"].reshape(bins, -1, width).swapaxes(0, 1)
        self._read = read.reshape(-1, width)
        written = np.zeros((width + 1, maps, self._stride), np.float32)
        both = np.concatenate([p["map.weight"], p["map.bias"][None]])
        written[..., self._inside] = both.reshape(width + 1, bins, maps).swapaxes(1, 2)
        self._write = written.reshape(width + 1, -1)
        names = ["local", *(f"deep{k}" for k in range(self._sizes.deep)), "out"]
        apart = [(1, 1), *network.DEEP[: self._sizes.deep], (1, 1)]
        self._steps = tuple(
            (p[f"{name}.weight"], p[f"{name}.bias"], *each)
            for name, each in zip(names, apart, strict=True)
        )

    def outputs(self, features: Floats) -> Floats:
        """Return what `network.outputs` does.

        Parameters
        ----------
        features
            Shape (..., frames, bins, `network.FEATURES`).
        """
        *outer, frames, bins, _ = features.shape
        result = np.empty((*outer, frames, bins, 2), np.float32)
        for at in np.ndindex(*outer):
            result[at] = self._window(features[at])
        return result

    def _window(self, features: Floats) -> Floats:
        """Do as `outputs` for features of shape (frames, bins, `network.FEATURES`)."""
        frames, bins, given = features.shape
        channels = given + self._sizes.maps
        flat = np.zeros(frames * channels * self._stride + _network.PAD, np.float32)
        planes = flat[: -_network.PAD].reshape(frames, channels * self._stride)
        each = planes.reshape(frames, channels, self._stride)
        each[:, :given, self._inside] = features.swapaxes(-1, -2)
        x = self._stack(planes[:, : given * self._stride])
        planes[:, given * self._stride :] = x @ self._write[:-1] + self._write[-1]
        out = np.empty((frames, 2, self._stride), np.float32)
        _network.correlate(channels, bins, given, self._steps, flat, out)
        found: Floats = out[..., self._inside].swapaxes(-1, -2)
        return found

    def _stack(self, cells: Floats) -> Floats:
        """Return the residual blocks' output for planes of features."""
        p = self._p
        x: Floats = cells @ self._read
        x += p["in.bias"]
        u, inner = np.empty_like(x), np.empty((len(x), self._sizes.hidden), np.float32)
        for k in range(self._sizes.blocks):
            scale, shift, taps = (p[f"block{k}.{name}"] for name in ("scale", "shift", "taps"))
            _network.mix(len(x), 2 ** (k % network.DILATIONS), x, scale, shift, taps, u)
            np.matmul(u, p[f"block{k}.up"], out=inner)
            _network.rectify(inner, p[f"block{k}.up_bias"])
            np.matmul(inner, p[f"block{k}.down"], out=u)
            _network.add(x, u, p[f"block{k}.down_bias"])
        return x
