"""Dictionaries of speech spectra: contents, file format, and automatic choice."""

import os
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from alphamf.audio.stft import Frame
from alphamf.errors import AlphaMFError
from alphamf.factorization.stable import check_alpha
from alphamf.learnt import bands, model_file
from alphamf.tools.arguments import (
    check_instance,
    file_name,
    replace_numbers,
    shown_value,
    whole_number,
)
from alphamf.tools.arrays import Floats
from alphamf.tools.files import is_file

MAX_BYTES = {"basis": 64 * 2**20, "above": 4 * 2**20, "header": 4 * 2**20}
"""Maximum sizes of the arrays of a model file in bytes, checked before an array is read: W in half
precision with about 7000 columns at 48 kHz, and a header of a million characters."""

MAX_CELLS = 1_000_000
"""Maximum number of cells of the stacked spectrogram per second of sound, ten times as many as at
16 kHz: the memory grows with it, up to 1 GB."""

MAX_RATE = 384_000


@dataclass(frozen=True)
class Dictionary:
    """Spectra of clean speech, learned with alpha-MF.

    Attributes
    ----------
    basis
        W, floats >= 0, shape (context * bins, rank) with ``bins = n_fft // 2 + 1 + bands``; each
        column of a loaded dictionary sums to one, without bands.
    alpha
        Index of the stable law with which it was learned.
    rate
        Sampling rate in Hz.
    frame
        Window length and hop in samples; the window is sqrt-Hann.
    context
        Number of frames stacked in a column.
    about
        How it was made: attribution, settings, command; for information only.
    above
        Rows of the bands above (`alphamf.learnt.bands`) that belong to the columns of W, shape
        (context * bands.ABOVE, rank); None if it has none.
    bands
        How many rows of bands follow the bins of each frame in W (`with_bands`).
    name
        Name or path from which it was loaded.
    origin
        The file that it was loaded from.

    Raises
    ------
    AlphaMFError
        A value has a wrong type or is out of range, or the parts do not fit each other.

    Examples
    --------
    >>> dictionary = load("speech-8k")
    >>> dictionary.rank, dictionary.context, dictionary.basis.shape
    (60, 3, (771, 60))
    """

    basis: Floats
    alpha: float
    rate: int
    frame: Frame
    context: int = 1
    about: dict[str, Any] = field(default_factory=dict)
    above: Floats | None = None
    bands: int = 0
    name: str = field(default="", compare=False)
    origin: model_file.Origin | None = field(default=None, compare=False, repr=False)

    def __repr__(self) -> str:
        name = f"{self.name!r}, " if self.name else ""
        return f"Dictionary({name}{self.rate} Hz, {self.rank} columns, alpha {self.alpha:g})"

    def __post_init__(self) -> None:
        self._check_kinds()
        n_fft, hop_length = self.frame
        if n_fft < 2 or not 1 <= hop_length <= n_fft // 2:
            raise AlphaMFError(
                "n_fft must be at least 2 and hop_length from 1 to n_fft / 2, not "
                f"{n_fft} and {hop_length}"
            )
        if n_fft % 2 or n_fft % hop_length:
            raise AlphaMFError(
                f"n_fft must be even and a multiple of hop_length, not {n_fft} with {hop_length}"
            )
        rows = self.context * self.bins
        if n_fft > self.rate or rows * self.rate > MAX_CELLS * hop_length:
            raise AlphaMFError(
                f"windows of {n_fft} samples every {hop_length} at {self.rate} Hz, "
                f"{self.context} in a column, are too large: a window may last at most one "
                f"second, and a second may have at most {MAX_CELLS} cells"
            )
        if self.basis.ndim != 2 or self.basis.shape[0] != rows or not self.basis.shape[1]:
            raise AlphaMFError(
                f"a basis of {self.context} frames of {self.bins} bins needs {rows} rows and at "
                f"least one column, not the shape {self.basis.shape}"
            )
        if not (np.isfinite(self.basis).all() and (self.basis >= 0).all()):
            raise AlphaMFError("the basis must be finite and not negative")
        if not self.basis.any(axis=0).all():
            raise AlphaMFError("the basis has a column that is all zero")
        if self.above is not None:
            self._check_above(self.above)

    def _check_kinds(self) -> None:
        check_alpha(self.alpha)
        check_instance("frame", self.frame, Frame, "a Frame")
        for name, value in self.frame._asdict().items():
            whole_number(f"the frame's {name}", value, 1, MAX_RATE)
        numbers = {
            "rate": whole_number("rate", self.rate, 1, MAX_RATE, unit=" Hz"),
            "context": whole_number("context", self.context, 1, MAX_CELLS),
            "bands": whole_number("bands", self.bands, 0, bands.ABOVE),
        }
        object.__setattr__(self, "frame", Frame(*map(int, self.frame)))
        replace_numbers(self, numbers)
        check_instance("about", self.about, dict, "a dict")
        check_instance("name", self.name, str, "a str")
        _check_array("basis", self.basis)
        if self.above is not None:
            _check_array("above", self.above)

    def _check_above(self, above: Floats) -> None:
        wanted = (self.context * bands.ABOVE, self.rank)
        if above.shape != wanted:
            raise AlphaMFError(
                f"the rows above the band must have the shape {wanted}, not {above.shape}"
            )
        if not (np.isfinite(above).all() and (above >= 0).all()):
            raise AlphaMFError("the rows above the band must be finite and not negative")

    @property
    def sha256(self) -> str:
        """SHA-256 of its file; empty if it has none, or the file has changed or cannot be read."""
        return self.origin.sha256 if self.origin else ""

    @property
    def bins(self) -> int:
        """Number of rows per frame: its frequency bins, and the wide bands above them."""
        return self.frame.bins + self.bands

    @property
    def rank(self) -> int:
        """Number of columns."""
        return int(self.basis.shape[1])

    def with_bands(self, count: int) -> Self:
        """Return the dictionary with the lowest `count` wide bands appended to each frame.

        Parameters
        ----------
        count
            From 0 to 18; others raise an AlphaMFError, as do those above 0 if `above` is None.

        Examples
        --------
        >>> load("speech-16k").with_bands(18).bins
        531
        """
        if not whole_number("count", count, 0, bands.ABOVE):
            return self
        if self.above is None:
            raise AlphaMFError(f"the dictionary {self.name} has no rows above its band")
        below = self.basis.reshape(self.context, self.frame.bins, -1)
        above = self.above.reshape(self.context, bands.ABOVE, -1)[:, :count]
        basis = np.concatenate([below, above], axis=1).reshape(-1, self.rank)
        return replace(self, basis=basis, above=None, bands=count)

    def save(self, path: str | os.PathLike[str], *, replace: bool = True) -> None:
        """Save a dictionary without `bands` as an ``.npz`` file, with W in half precision.

        Parameters
        ----------
        path
            The file.
        replace
            Whether a file that exists is replaced.

        Raises
        ------
        AlphaMFError
            The file cannot be written, or exists and may not be replaced.
        """
        header = {
            "alpha": self.alpha,
            "rate": self.rate,
            "n_fft": self.frame.n_fft,
            "hop_length": self.frame.hop_length,
            "context": self.context,
            "about": self.about,
        }
        # Columns scaled to a maximum of one keep clear of half precision's subnormal numbers.
        scale = self.basis.max(axis=0)
        arrays = {"basis": (self.basis / scale).astype(np.float16)}
        if self.above is not None:  # far softer than the bins below: half precision is too coarse
            arrays["above"] = (self.above / scale).astype(np.float32)
        model_file.write(path, header, arrays, replace=replace)


def _check_array(name: str, array: Floats) -> None:
    kind = getattr(getattr(array, "dtype", None), "kind", "")
    if not isinstance(array, np.ndarray) or kind != "f" or np.ma.is_masked(array):
        raise AlphaMFError(
            f"{name} must be an array of floating-point numbers, not {shown_value(array)}"
        )


def load(model: str | os.PathLike[str]) -> Dictionary:
    """Load a dictionary: a shipped one by its name, or a file written by `Dictionary.save`.

    Raises
    ------
    AlphaMFError
        There is no such model, or its file cannot be used.

    Examples
    --------
    >>> load("speech-16k").rate
    16000
    """
    model = file_name("model", model, "a file or the name of a shipped dictionary")
    path = shipped_dictionaries().get(model, Path(model))
    if not is_file(path):
        names = ", ".join(shipped_dictionaries())
        raise AlphaMFError(f"unknown model {model!r}; give a file name, or one of {names}")
    name = path.stem if path in shipped_dictionaries().values() else str(path)
    return model_file.load(path, "model", MAX_BYTES, partial(_make, name), optional=("above",))


def _make(
    name: str, header: dict[str, Any], arrays: dict[str, NDArray[Any]], origin: model_file.Origin
) -> Dictionary:
    basis = arrays["basis"]
    for array in (basis, arrays.get("above", basis)):
        if array.dtype.kind != "f":
            raise AlphaMFError(f"its basis has the type {array.dtype}, not float")
    with np.errstate(all="ignore"):  # what is not finite is refused by the dictionary
        basis = basis.astype(np.float32)
        unit = np.maximum(basis.sum(axis=0), np.finfo(np.float32).tiny)
        basis /= unit
        above = arrays.get("above")
        above = None if above is None else above.astype(np.float32) / unit
    return Dictionary(
        basis=basis,
        above=above,
        alpha=float(header["alpha"]),
        rate=int(header["rate"]),
        frame=Frame(int(header["n_fft"]), int(header["hop_length"])),
        context=int(header["context"]),
        about=dict(header["about"]),
        name=name,
        origin=origin,
    )


def folder() -> Path:
    """Return the folder of the dictionaries and networks in the package."""
    package = Path(__file__).parents[1]
    beside = package / "models"
    # In an editable install, models/ lies beside the package.
    return beside if beside.is_dir() else package.parent / "models"


def shipped_dictionaries() -> dict[str, Path]:
    """Return the dictionaries in the package: name to file."""
    return {path.stem: path for path in sorted(folder().glob("speech-*.npz"))}


def choose(model: str | os.PathLike[str], rate: int) -> Dictionary:
    """Return the dictionary `model`, or for ``"auto"`` the shipped one for audio at `rate` Hz.

    At rates above 8 kHz, this is the one for 16 kHz: half of a sibilant's sound lies above 4 kHz.
    """
    if str(model) != "auto":
        return load(model)
    return load("speech-16k" if rate > 8000 else "speech-8k")
