"""Options of a stream, which are checked once, and its progress reports."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass
from os import PathLike
from threading import Lock
from typing import Any, Protocol, get_args

from alphamf.audio.reader import CHANNELS
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
    shown_value,
    whole_number,
)
from alphamf.tools.arrays import DEVICES, DeviceName

LATENCIES: tuple[str, ...] = get_args(LatencyName)
"""What a stream's latency can be."""

MOST_JOBS = 4096
"""Maximum number of parallel segments, far beyond the cores of any machine: each needs memory."""


class Cancel(Protocol):
    """Stops work from another thread or process; for example `threading.Event`."""

    def is_set(self) -> bool:
        """Return whether the work should stop."""
        ...


@dataclass(frozen=True)
class StreamOptions:
    """How a stream is denoised: what `alphamf.denoise` and `alphamf.Stream` have in common."""

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
    """Counts the seconds of sound that several threads have processed, and can stop them.

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
        """Record the progress of a task, and call `progress`."""
        if self.stopped or (self._cancel is not None and self._cancel.is_set()):
            raise CancelledError("the denoising was cancelled")
        if self._progress is not None:
            with self._lock:
                self._seconds[key] = seconds * steps
                self._progress(sum(self._seconds.values()))

    def add(self, seconds: float) -> None:
        """Record seconds of sound that were processed in order, as at low latency."""
        key = 0, 0
        self.advance(key, 1, self._seconds.get(key, 0) + seconds)
