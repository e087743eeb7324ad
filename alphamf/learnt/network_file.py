"""Trained networks: their file format, and the files in the package."""

from __future__ import annotations

import math
import os
import zipfile
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from alphamf.audio.stft import Frame
from alphamf.errors import AlphaMFError
from alphamf.learnt import layers, model_file, network
from alphamf.learnt.dictionary import Dictionary, folder
from alphamf.tools.arrays import Array
from alphamf.tools.files import is_file, printable, printable_name

MAX_BYTES = 64 * 2**20
"""Maximum number of bytes of all parameters, and of the header: each checked before it is read."""

ANOTHER = "its parameters do not fit this kind of network"


@dataclass(frozen=True)
class TrainedNetwork:
    """A trained network for spectrograms with a given rate and window."""

    kind: ClassVar[str] = "network"
    """First part of the names of shipped files of this class: KIND-RATE.npz."""

    cell_shapes: ClassVar[tuple[tuple[int, int], ...]] = ((network.FEATURES, network.OUTPUTS),)
    """Numbers of input features and outputs per cell that a network of this class may have."""

    causal: ClassVar[bool] = False
    """Whether no tap reads later frames, so that the network can run frame by frame."""

    parameters: dict[str, Array]  # As `network.shapes` names and shapes them, float32
    rate: int  # Sampling rate in Hz
    frame: Frame  # Window length and hop in samples
    # A gain that the network predicts is raised to this exponent: below 1, less is removed. It may
    # be larger in pauses (`alphamf.learnt.refiner`).
    exponent: float = 1.0
    about: dict[str, Any] = field(default_factory=dict)  # How it was made; information only
    name: str = field(default="", compare=False)  # Name or path from which it was loaded
    # The file that it was loaded from.
    origin: model_file.Origin | None = field(default=None, compare=False, repr=False)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.rate} Hz)"

    @classmethod
    def cells(cls, frame: Frame) -> int:
        """Return the number of cells per frame that the network processes: one per bin."""
        return frame.bins

    @property
    def sha256(self) -> str:
        """SHA-256 of its file; empty if it has none, or the file has changed or cannot be read."""
        return self.origin.sha256 if self.origin else ""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every parameter."""
        return network.shapes_of(self.parameters)

    @property
    def sizes(self) -> network.Sizes:
        """Sizes of the network, found from the shapes of its parameters."""
        return network.sizes_of(self.shapes)

    def to_module(self, xp: Any) -> Self:
        """Return a copy with the parameters on the device of the array module `xp`."""
        moved = {name: xp.asarray(value) for name, value in self.parameters.items()}
        return replace(self, parameters=moved)

    def outputs(self, features: Array, xp: Any) -> Array:
        """Return the outputs for every cell, shape (..., frames, bins, outputs).

        `features`: shape (..., frames, bins, features).
        """
        if layers.supports(features):
            return self._compiled.outputs(features)
        return layers.outputs(self.parameters, features, xp)

    @cached_property
    def _compiled(self) -> layers.CompiledNetwork:
        return layers.CompiledNetwork(self.parameters, self.cells(self.frame))

    def __getstate__(self) -> dict[str, Any]:
        """Return all attributes but those that were computed from the parameters and cached."""
        made = ("_compiled", "packed")
        return {k: value for k, value in vars(self).items() if k not in made}

    def save(self, path: str | os.PathLike[str], *, replace: bool = True) -> None:
        """Save the network as an ``.npz`` file, with parameters in half precision."""
        header = {
            "rate": self.rate,
            "n_fft": self.frame.n_fft,
            "hop_length": self.frame.hop_length,
            "exponent": self.exponent,
            "names": self.shapes,
            "about": self.about,
        }
        values = np.concatenate([value.ravel() for value in self.parameters.values()])
        arrays = {"parameters": values.astype(np.float16)}
        model_file.write(path, header, arrays, replace=replace)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Load a network that `save` wrote; raise an AlphaMFError if there is no usable one."""
        if not is_file(path):
            raise AlphaMFError(f"the {cls.kind} {printable_name(path)} does not exist")
        limits = {"parameters": MAX_BYTES, "header": MAX_BYTES}
        return model_file.load(path, cls.kind, limits, partial(cls._make, path.stem))

    @classmethod
    def _make(
        cls,
        name: str,
        header: dict[str, Any],
        arrays: dict[str, NDArray[Any]],
        origin: model_file.Origin,
    ) -> Self:
        frame = Frame(int(header["n_fft"]), int(header["hop_length"]))
        exponent = float(header.get("exponent", 1))
        if not 0 < exponent < math.inf:
            raise AlphaMFError(f"its exponent, {exponent:g}, is not a positive number")
        found = cls(
            parameters=_unpacked(header, arrays["parameters"].astype(np.float32)),
            rate=int(header["rate"]),
            frame=frame,
            exponent=exponent,
            about=dict(header["about"]),
            name=name,
            origin=origin,
        )
        if cls is not TrainedNetwork and not cls.supports(found):
            raise AlphaMFError(ANOTHER)
        return found

    @classmethod
    def supports(cls, other: TrainedNetwork) -> bool:
        """Return whether the numbers of cells, features and outputs of a network fit this class."""
        cells = cls.cells(other.frame) == network.bins_of(other.shapes)
        return cells and (other.sizes.features, other.sizes.outputs) in cls.cell_shapes


def _unpacked(header: dict[str, Any], values: Array) -> dict[str, Array]:
    """Return the flat parameters as arrays with the header's names and shapes, after checks."""
    shapes = {key: tuple(shape) for key, shape in header["names"].items()}
    if shapes != network.shapes(network.bins_of(shapes), network.sizes_of(shapes)):
        raise AlphaMFError(ANOTHER)
    parameters, end = {}, 0
    for key, shape in shapes.items():
        first, end = end, end + int(np.prod(shape))
        parameters[key] = values[first:end].reshape(shape)
    if not np.isfinite(values).all():
        raise AlphaMFError("its parameters are not finite")
    return parameters


def holds_network(path: Path) -> bool:
    """Return whether a file is an ``.npz`` with a network; False if it cannot be read."""
    if path.suffix != ".npz":
        return False  # a pipe, for example, could be read only once
    try:
        with zipfile.ZipFile(path) as file:
            return "parameters.npy" in file.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def shipped_networks() -> dict[str, Path]:
    """Return the networks in the package: name to file."""
    whole = "refiner", "second-stage", "dereverberator", "high-band"
    kinds = (*whole, "causal", "causal-second-stage", "causal-high-band")
    paths = [path for kind in kinds for path in folder().glob(f"{kind}-*.npz")]
    return {path.stem: path for path in sorted(paths)}


def find(name: str) -> Path:
    """Return the file of the shipped network of this name, or else `name` as a path."""
    return shipped_networks().get(name, Path(name))


def summary(model: Dictionary | TrainedNetwork) -> str:
    """Return a line: a model's rate, and a network's window or a dictionary's size and alpha."""
    if isinstance(model, TrainedNetwork):
        window = f"{1000 * model.frame.n_fft / model.rate:g} ms"
        return f"{model.rate} Hz, network for windows of {window}"
    frames = f"{model.context} frames" if model.context > 1 else "1 frame"
    return f"{model.rate} Hz, {model.rank} columns of {frames}, alpha {model.alpha:g}"


def details(model: Dictionary | TrainedNetwork) -> dict[str, str]:
    """Return the properties of a model, and the training details in `about`, as text.

    Unprintable characters, such as terminal escapes, are escaped.
    """
    rate, (n_fft, hop_length) = model.rate, model.frame
    lines = {
        "rate": f"{rate} Hz",
        "window": f"{n_fft} samples ({1000 * n_fft / rate:g} ms)",
        "hop": f"{hop_length} samples ({1000 * hop_length / rate:g} ms)",
    }
    if isinstance(model, Dictionary):
        lines |= {
            "columns": str(model.rank),
            "frames": f"{model.context} in a column",
            "alpha": f"{model.alpha:g}",
        }
    return {
        **lines,
        **{printable(str(key)): printable(str(value)) for key, value in model.about.items()},
    }


def facts(model: Dictionary | TrainedNetwork) -> dict[str, Any]:
    """Return a model's name, properties, SHA-256 and training details as values for JSON."""
    rate, (n_fft, hop_length) = model.rate, model.frame
    found = {"name": model.name, "rate": rate, "n_fft": n_fft, "hop_length": hop_length}
    if isinstance(model, Dictionary):
        found |= {"columns": model.rank, "frames": model.context, "alpha": model.alpha}
    return {**found, "sha256": model.sha256, "about": dict(model.about)}
