"""Options that apply to every file of a batch, and observers of each file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Protocol

from alphamf.audio.reader import CHANNELS, Recording
from alphamf.audio.stft import Frame
from alphamf.denoising.api import denoise_stream
from alphamf.denoising.hints import Stretches
from alphamf.denoising.part import Part
from alphamf.denoising.settings import Settings
from alphamf.denoising.stream import Segment
from alphamf.tools.arrays import Floats


class Observer(Protocol):
    """Receives the input and output of a file, and makes something else: scores, a picture."""

    def watch(self, blocks: Iterable[Floats]) -> Iterator[Floats]:
        """Record and pass on the input, blocks of shape (samples, channels)."""
        ...

    def add(self, segment: Segment) -> None:
        """Add a segment of the output."""
        ...

    def finish(self) -> Mapping[str, Any] | None:
        """Write the files that are complete only at the end, and return scores if there are any."""
        ...


Observe = Callable[[Recording, Frame, ExitStack, int], Observer]
"""Makes the observer of a file, given the frame of the gain in samples of the input and the
permissions of what it writes; what it opens is closed by the stack."""


@dataclass(frozen=True)
class Request:
    """Options that apply to every file of a batch.

    Attributes
    ----------
    settings, preset
        Settings of the run, and the name of the preset that they are made from.
    model, refiner, second_stage, causal
        As for `alphamf.denoising.weights.find`.
    seed, device, jobs
        As for `alphamf.denoise`.
    overwrite
        Whether outputs may be replaced.
    trim
        Whether what comes before the first speech and after the last is cut off.
    salvage, max_channels, track
        As for `alphamf.audio.reader.open_reader`.
    tag
        Whether the outputs' history says that alphamf made them.
    observe
        Makes the observer of each file.
    estimate
        Makes the segments of the output; what is called in place of `denoise_stream` writes a file
        again from speech that is known.
    loudness
        Of the outputs in LUFS, with true peaks limited; None: as it comes out.
    part
        What is denoised of it; None for all.
    noise_from, speech_from
        Stretches of every file, as from `alphamf.denoising.hints.check_stretches`.
    whole
        Whether what observes has to know the length of a pipe first.
    documented
        Whether a result says all that it depends on: versions, digests of the models, processor.
    """

    settings: Settings
    observe: Observe
    preset: str = "fast"
    model: str = "auto"
    refiner: str = "auto"
    second_stage: str = "auto"
    causal: str = "none"
    seed: int = 0
    device: str = "cpu"
    jobs: int = 1
    overwrite: bool = False
    trim: bool = False
    loudness: float | None = None
    part: Part | None = None
    noise_from: Stretches = ()
    speech_from: Stretches = ()
    whole: bool = False
    salvage: bool = False
    max_channels: int = CHANNELS
    estimate: Callable[..., Iterator[Segment]] = denoise_stream
    track: int | None = None
    tag: bool = False
    documented: bool = True
