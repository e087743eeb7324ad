"""Options of a stream, its progress reports, and the samples of a caller: checked once."""

from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass
from os import PathLike
from threading import Lock
from typing import Any, Protocol, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from alphamf.audio.reader import CHANNELS, RATES
from alphamf.denoising.choices import LatencyName
from alphamf.denoising.hints import Hints
from alphamf.denoising.settings import Settings
from alphamf.denoising.weights import Weights, find
from alphamf.errors import AlphaMFError
from alphamf.learnt.dictionary import Dictionary
from alphamf.tools.arguments import (
    check_callback,
    check_instance,
    flag,
    one_of,
    replace_numbers,
    sampling_rate,
    shown_value,
    whole_number,
)
from alphamf.tools.arrays import DEVICES, DeviceName, Floats

LATENCIES: tuple[str, ...] = get_args(LatencyName)
"""Allowed values of `latency`."""

MOST_JOBS = 4096
"""Maximum of `jobs`, more than most machines have cores; each job needs memory."""


class Cancel(Protocol):
    """A signal, from another thread or process, to stop the work; for example `threading.Event`."""

    def is_set(self) -> bool:
        """Return whether the work should stop."""
        ...


@dataclass(frozen=True)
class StreamOptions:
    """Options of `alphamf.Stream`, most of them also of `alphamf.denoise`; checked on creation."""

    settings: Settings
    model: str | PathLike[str] | Dictionary | Weights = "auto"
    latency: LatencyName = "segments"
    seed: int = 0
    device: DeviceName = "cpu"
    jobs: int = 1
    max_channels: int = CHANNELS
    channels_first: bool = False
    progress: Callable[[float], None] | None = None
    cancel: Cancel | None = None
    hints: Hints | None = None  # As in `alphamf.Stream`

    def __post_init__(self) -> None:
        replace_numbers(
            self,
            {
                "seed": whole_number("seed", self.seed, 0),
                "jobs": whole_number("jobs", self.jobs, 1, MOST_JOBS),
                "max_channels": whole_number("max_channels", self.max_channels, 1),
                "channels_first": flag("channels_first", self.channels_first),
            },
        )
        one_of("latency", self.latency, LATENCIES)
        one_of("device", self.device, DEVICES)
        check_callback("progress", self.progress)
        if self.cancel is not None and not callable(getattr(self.cancel, "is_set", None)):
            raise AlphaMFError(
                "cancel must have a method is_set, as threading.Event has, or be None, not "
                f"{shown_value(self.cancel)}"
            )
        if self.hints is not None:
            check_instance("hints", self.hints, Hints, "Hints or None")
        if self.latency == "low" and (self.device == "cuda" or self.jobs > 1):
            raise AlphaMFError(
                "latency 'low' works on the CPU with one job only; leave out device and jobs"
            )
        if self.latency == "low" and self.settings.dereverb:
            raise AlphaMFError("latency 'low' does not support dereverb")
        if self.latency == "low" and self.hints is not None:
            raise AlphaMFError("latency 'low' does not support hints")

    def weights(self, rate: int) -> Weights:
        """Return the weights for whole segments of sound at a rate in Hz."""
        return find(rate, self.model, dereverb=self.settings.dereverb > 0)


class SoundProgress:
    """Counter of the seconds of sound that several threads have processed, which can stop them.

    A copy by pickle or `copy.deepcopy` has neither `progress` nor `cancel`.
    """

    def __init__(
        self, progress: Callable[[float], None] | None = None, cancel: Cancel | None = None
    ) -> None:
        self._progress, self._cancel = progress, cancel
        self._lock = Lock()
        self._seconds: dict[tuple[int, int], float] = {}
        self.stopped: bool = False

    def __getstate__(self) -> dict[str, Any]:
        return {"_seconds": dict(self._seconds), "stopped": self.stopped}

    def __setstate__(self, state: dict[str, Any]) -> None:
        SoundProgress.__init__(self)
        self.__dict__.update(state)

    def advance(self, key: tuple[int, int], seconds: float, steps: float) -> None:
        """Report task `key`'s steps so far, `seconds` each; raise a CancelledError if stopped."""
        if self.stopped or (self._cancel is not None and self._cancel.is_set()):
            raise CancelledError("the denoising was cancelled")
        if self._progress is not None:
            with self._lock:
                self._seconds[key] = seconds * steps
                self._progress(sum(self._seconds.values()))

    def add(self, seconds: float) -> None:
        """Report further seconds of sound, as at low latency; raise a CancelledError if stopped."""
        key = 0, 0
        self.advance(key, 1, self._seconds.get(key, 0) + seconds)


Samples = NDArray[Any]
"""Samples as floating-point numbers (results: float32), or in the input's integer dtype."""

FULL_SCALE = {"int8": 2.0**7, "uint8": 2.0**7, "int16": 2.0**15, "int32": 2.0**31}
"""Integer dtypes of sound, and their full scale; in uint8 128 is silence."""

_FEW = 8
"""Number of samples up to which an array of many channels seems to have its axes swapped."""

_REMEDY = "give x.T, or channels_first=True"


def check_rate(rate: float) -> int:
    """Return a rate in Hz, such as 16000.0, as an int; raise an AlphaMFError if it is unusable."""
    return sampling_rate("the rate", rate, *RATES)


def describe_samples(audio: Samples, channels: int, rate: int | None = None) -> str:
    """Describe samples in a few words, for a repr; `rate` in Hz."""
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
    """Return a number of channels as an int; raise an AlphaMFError unless it is 1 to `most`."""
    number = whole_number("channels", channels, 1)
    if number > most:
        raise AlphaMFError(
            f"a stream can have 1 to {most} channels, not {shown_value(number)}; "
            "raise max_channels to allow more"
        )
    return number


def count_channels(shape: tuple[int, ...], most: int, *, channels_first: bool) -> int:
    """Return the number of channels of a first chunk; raise an AlphaMFError if 0 or over `most`."""
    check_orientation(shape, most, channels_first=channels_first)
    return check_channels(shape[1 - channels_first], most) if len(shape) == 2 else 1


def check_orientation(shape: tuple[int, ...], limit: int, *, channels_first: bool) -> None:
    """Raise an AlphaMFError if a shape suggests that the channels are along the other axis.

    `shape`: shape of the array, or of the first block.
    """
    if len(shape) != 2 or shape[1 - channels_first] <= limit or shape[channels_first] > _FEW:
        return
    place, remedy = ("last", "leave out channels_first") if channels_first else ("first", _REMEDY)
    raise AlphaMFError(f"audio has the shape {shape}, so its channels seem to be {place}; {remedy}")


def check_chunk(shape: tuple[int, ...], channels: int, *, channels_first: bool) -> None:
    """Raise an AlphaMFError unless a chunk's shape fits the stream's number of channels."""
    of_one = len(shape) == 1 and channels == 1
    if of_one or (len(shape) == 2 and shape[0 if channels_first else 1] == channels):
        return
    wanted = f"({channels}, samples)" if channels_first else f"(samples, {channels})"
    wanted = "(samples,) or " * (channels == 1) + wanted
    remedy = f": {_REMEDY}" if not channels_first and shape[:-1] == (channels,) else ""
    raise AlphaMFError(f"audio must have the shape {wanted}, not {shape}{remedy}")


def to_float(array: Samples) -> Floats:
    """Return samples as a float32 copy, 1 at full scale; raise an AlphaMFError if not finite."""
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
    return steps.clip(limits.min, limits.max).astype(kind)
