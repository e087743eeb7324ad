"""The learnt refiner: its file, which one suits, and what it makes of a posterior."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphamf.audio.stft import Frame
from alphamf.errors import AlphaMFError
from alphamf.learnt import model_file, network
from alphamf.learnt.dictionary import Dictionary, folder
from alphamf.tools.arrays import Array, namespace
from alphamf.tools.files import shown

WINDOW = 160
"""Frames that the network reads at a time: as many as when it was taught, 2.6 s. It has never
heard what a longer stretch puts into the reach of its wide convolutions."""

MAX_BYTES = 64 * 2**20
"""Most bytes of all parameters, and of the header: checked before anything is read."""


@dataclass(frozen=True)
class Refiner:
    """A network that was learnt for spectrograms of one kind.

    Attributes
    ----------
    parameters
        As `network.shapes` names and shapes them, float32.
    rate
        Sampling rate in Hz.
    frame
        Window length and hop in samples.
    exponent
        The network's gain is raised to this power: below 1, less is taken away.
    about
        How it was made. For reading only.
    name
        What it was loaded by.
    sha256
        Of the file that it was loaded from.
    """

    parameters: dict[str, Array]
    rate: int
    frame: Frame
    exponent: float = 1.0
    about: dict[str, Any] = field(default_factory=dict)
    name: str = field(default="", compare=False)
    sha256: str = field(default="", compare=False)

    def refine(
        self, power: Array, *, gain: Array, gain_std: Array, speech: Array, noise: Array
    ) -> tuple[Array, Array]:
        """Return mean and standard deviation of the gain, given what a chain found out.

        Parameters
        ----------
        power
            |X|^2, shape (..., bins, frames), as all of these; not all zero.
        gain, gain_std
            Posterior mean and standard deviation of the speech's Wiener gain.
        speech, noise
            Posterior means of both variances, in the power's units.
        """
        xp = namespace(power)
        parameters = self.parameters
        if xp is not np:
            parameters = {name: xp.asarray(value) for name, value in parameters.items()}
        given = power, gain, gain_std, speech, noise
        return in_windows(partial(_refine, xp, parameters, self.exponent), given, WINDOW)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the refiner to an ``.npz``, its parameters in half precision.

        Raises
        ------
        AlphaMFError
            The file cannot be written.
        """
        header = {
            "rate": self.rate,
            "n_fft": self.frame.n_fft,
            "hop_length": self.frame.hop_length,
            "exponent": self.exponent,
            "names": {name: value.shape for name, value in self.parameters.items()},
            "about": self.about,
        }
        values = np.concatenate([value.ravel() for value in self.parameters.values()])
        model_file.write(path, header, {"parameters": values.astype(np.float16)})


def load(path: Path) -> Refiner:
    """Read a refiner that `Refiner.save` wrote.

    Raises
    ------
    AlphaMFError
        There is no such file, or it is not a refiner.
    """
    if not path.is_file():
        raise AlphaMFError(f"there is no refiner {shown(path)}")
    limits = {"parameters": MAX_BYTES, "header": MAX_BYTES}
    return model_file.load(path, "refiner", limits, partial(_make, path.stem))


def _make(
    name: str, header: dict[str, Any], arrays: dict[str, NDArray[Any]], digest: str
) -> Refiner:
    frame = Frame(int(header["n_fft"]), int(header["hop_length"]))
    shapes = {key: tuple(shape) for key, shape in header["names"].items()}
    if shapes != network.shapes(frame.bins, network.sizes_of(shapes, frame.bins)):
        raise AlphaMFError("its parameters are those of another network")
    values = arrays["parameters"].astype(np.float32)
    parameters, end = {}, 0
    for key, shape in shapes.items():
        first, end = end, end + int(np.prod(shape))
        parameters[key] = values[first:end].reshape(shape)
    if not np.isfinite(values).all():
        raise AlphaMFError("its parameters are not finite")
    exponent = float(header.get("exponent", 1))
    if not 0 < exponent < math.inf:
        raise AlphaMFError(f"its exponent, {exponent:g}, is not a positive number")
    return Refiner(
        parameters=parameters,
        rate=int(header["rate"]),
        frame=frame,
        exponent=exponent,
        about=dict(header["about"]),
        name=name,
        sha256=digest,
    )


def in_windows(
    look: Callable[..., tuple[Array, Array]], given: Sequence[Array], window: int
) -> tuple[Array, Array]:
    """Have a long stretch looked at in windows half of one apart, which fade into each other.

    Parameters
    ----------
    look
        Takes a window of each of `given`, and returns two arrays of its shape.
    given
        Shape (..., bins, frames) each.
    window
        Most frames of a window.
    """
    xp = namespace(given[0])
    frames, dtype = given[0].shape[-1], given[0].real.dtype
    length = min(frames, window)
    fade = 0.5 + xp.minimum(xp.arange(length), xp.arange(length)[::-1]).astype(dtype)
    total = xp.zeros((2, *given[0].shape), dtype)
    weight = xp.zeros(frames, dtype)
    for first in sorted({*range(0, frames - length, window // 2), frames - length}):
        part = slice(first, first + length)
        total[..., part] += fade * xp.stack(look(*(each[..., part] for each in given)))
        weight[part] += fade
    total /= weight
    return total[0], total[1]


def mean_level(power: Array, xp: Any) -> Array:
    """Return the mean of what is heard: silence beside it must not make it seem louder."""
    level = power.sum((-2, -1), keepdims=True)
    level = level / xp.maximum((power > 0).sum((-2, -1), keepdims=True), 1).astype(power.dtype)
    mean: Array = xp.where(level > 0, level, 1)
    return mean


def _refine(
    xp: Any,
    parameters: dict[str, Array],
    exponent: float,
    power: Array,
    gain: Array,
    gain_std: Array,
    speech: Array,
    noise: Array,
) -> tuple[Array, Array]:
    """Do as `Refiner.refine` for one window."""
    level = mean_level(power, xp)
    logs = [xp.log(each / level + network.SILENT) for each in (power, speech, noise)]
    read = network.features(logs[0], gain, gain_std, logs[1], logs[2], xp)
    logit, log_std = network.forward(parameters, read, xp)
    refined = network.logistic(logit, xp) ** exponent
    # The geometric mean of what the network says and of the most that a gain of this mean can have
    # is the more honest (docs/quality.md).
    most = xp.sqrt(refined * (1 - refined))
    std = xp.sqrt(xp.exp(log_std) * most)
    return xp.swapaxes(refined, -1, -2), xp.swapaxes(std, -1, -2)


def shipped() -> dict[str, Path]:
    """Return the refiners in the package: name to file."""
    return {path.stem: path for path in sorted(folder().glob("refiner-*.npz"))}


def find(name: str) -> Path:
    """Return the file of a shipped refiner, or the one that is named."""
    return shipped().get(name, Path(name))


def choose(dictionary: Dictionary) -> Refiner | None:
    """Return the shipped refiner for spectrograms of a dictionary's kind, None if there is none."""
    path = shipped().get(f"refiner-{dictionary.rate // 1000}k")
    found = _loaded(path) if path else None
    if found and (found.rate, found.frame) == (dictionary.rate, dictionary.frame):
        return found
    return None


def choose_fine(dictionary: Dictionary) -> Refiner | None:
    """Return the shipped network for second looks after that of `choose`, None if there is none."""
    path = shipped().get(f"refiner-{dictionary.rate // 1000}k-fine")
    return _loaded(path) if path and choose(dictionary) else None


_loaded = cache(load)
