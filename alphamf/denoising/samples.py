"""Checks and conversions of sample arrays: several dtypes, channels last or first."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from alphamf.audio.survey import RATES
from alphamf.errors import AlphaMFError
from alphamf.tools.arguments import sampling_rate, shown_value, whole_number
from alphamf.tools.arrays import Floats

Samples = NDArray[Any]
"""Samples of float32, or of the integers that came in."""

FULL_SCALE = {"int8": 2.0**7, "uint8": 2.0**7, "int16": 2.0**15, "int32": 2.0**31}
"""Integer dtypes of sound, and their full scale; in uint8 128 is silence."""

_FEW = 8
"""No recording of many channels is as short as this, in samples."""

_REMEDY = "give x.T, or channels_first=True"


def check_rate(rate: float) -> int:
    """Return a sampling rate as an int; a float is accepted if it is whole, such as 16000.0."""
    return sampling_rate("the rate", rate, *RATES)


def describe_samples(audio: Samples, channels: int, rate: int | None = None) -> str:
    """Describe samples in a few words, for a repr.

    `rate`: sampling rate in Hz.

    Examples
    --------
    >>> describe_samples(np.zeros((32000, 2), np.int16), 2, 16000)
    '2.00 s, 16000 Hz, 2 channels, int16'
    """
    samples = audio.size // channels
    length = f"{samples} samples" if rate is None else f"{samples / rate:.2f} s, {rate} Hz"
    return f"{length}, {channels} channel{'s' * (channels > 1)}, {audio.dtype}"


def real_samples(audio: ArrayLike) -> Samples:
    """Check that samples are real numbers; return them as an array, without a copy if possible."""
    if isinstance(audio, np.ma.MaskedArray) and np.ma.is_masked(audio):
        raise AlphaMFError(
            "audio is an array with masked samples; fill them first, for example with "
            "audio.filled(0)"
        )
    try:
        array = np.asarray(audio)
    except (RuntimeError, TypeError, ValueError) as error:  # rows of several lengths, a GPU's
        raise AlphaMFError(f"audio cannot be converted to an array: {error}") from None
    if array.dtype.kind in "iu" and array.dtype.name not in FULL_SCALE:
        raise AlphaMFError(
            f"audio has the dtype {array.dtype}, which is not supported; use "
            f"{', '.join(FULL_SCALE)} or floating-point numbers from -1 to 1"
        )
    if array.dtype.kind not in "fiu":
        raise AlphaMFError(f"audio must be real numbers, not {array.dtype}")
    return array


def kind_of(array: Samples) -> np.dtype[Any]:
    """Return the dtype of results for an input array: float32, or the input's integer dtype."""
    return array.dtype.newbyteorder("=") if array.dtype.kind in "iu" else np.dtype(np.float32)


def check_channels(channels: int, most: int) -> int:
    """Return a number of channels as an int."""
    number = whole_number("channels", channels, 1)
    if number > most:
        raise AlphaMFError(
            f"a stream can have 1 to {most} channels, not {shown_value(number)}; "
            "raise max_channels to allow more"
        )
    return number


def count_channels(shape: tuple[int, ...], most: int, *, channels_first: bool) -> int:
    """Return the number of channels of a first chunk."""
    check_orientation(shape, most, channels_first=channels_first)
    return check_channels(shape[1 - channels_first], most) if len(shape) == 2 else 1


def check_orientation(shape: tuple[int, ...], limit: int, *, channels_first: bool) -> None:
    """Refuse a recording whose shape suggests that its channels are along the other axis.

    `shape`: shape of the array, or of the first block.
    """
    if len(shape) != 2 or shape[1 - channels_first] <= limit or shape[channels_first] > _FEW:
        return
    place, remedy = ("last", "leave out channels_first") if channels_first else ("first", _REMEDY)
    raise AlphaMFError(f"audio has the shape {shape}, so its channels seem to be {place}; {remedy}")


def check_chunk(shape: tuple[int, ...], channels: int, *, channels_first: bool) -> None:
    """Refuse a chunk whose shape differs from the stream's."""
    of_one = len(shape) == 1 and channels == 1
    if of_one or (len(shape) == 2 and shape[0 if channels_first else 1] == channels):
        return
    wanted = f"({channels}, samples)" if channels_first else f"(samples, {channels})"
    wanted = "(samples,) or " * (channels == 1) + wanted
    remedy = f": {_REMEDY}" if not channels_first and shape[:-1] == (channels,) else ""
    raise AlphaMFError(f"audio must have the shape {wanted}, not {shape}{remedy}")


def to_float(array: Samples) -> Floats:
    """Return finite samples as a new array of float32, 1 at full scale."""
    if array.dtype.kind in "iu":
        found: Floats = array.astype(np.float32)
        if array.dtype.name == "uint8":
            found -= 128
        found *= np.float32(1 / FULL_SCALE[array.dtype.name])
        return found
    with np.errstate(over="ignore"):  # refused below
        found = array.astype(np.float32)
    if not np.isfinite(found).all():
        if np.isfinite(array).all():
            raise AlphaMFError("audio contains samples beyond the range of float32")
        raise AlphaMFError("audio contains NaN or infinite samples")
    return found


def from_float(array: Floats, kind: np.dtype[Any]) -> Samples:
    """Convert samples to a dtype; integers are rounded and clipped to their range.

    `kind`: a dtype, as from `kind_of`.
    """
    if kind.kind == "f":
        return array
    middle = 128 if kind.name == "uint8" else 0
    limits = np.iinfo(kind)
    steps = np.rint(array * np.float64(FULL_SCALE[kind.name])) + middle
    found: Samples = steps.clip(limits.min, limits.max).astype(kind)
    return found
