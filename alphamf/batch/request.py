"""Options that apply to every file of a batch, and observers of each file."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Protocol

from alphamf.audio.live_input import Recording
from alphamf.audio.stft import Frame
from alphamf.batch.part import Part
from alphamf.denoising.api import denoise_blocks
from alphamf.denoising.hints import TimeRanges
from alphamf.denoising.segments import Segment
from alphamf.denoising.stream_options import StreamOptions
from alphamf.tools.arrays import Floats


class Observer(Protocol):
    """Object that receives a file's input and output, and makes scores, a picture or files."""

    def watch(self, blocks: Iterable[Floats]) -> Iterator[Floats]:
        """Yield the blocks of the input, shape (samples, channels) each, and record them."""
        ...

    def add(self, segment: Segment) -> None:
        """Add a segment of the output."""
        ...

    def finish(self) -> Mapping[str, Any] | None:
        """Write the files that are complete only at the end, and return scores if there are any."""
        ...


Observe = Callable[[Recording, Frame, ExitStack, int], Observer]
"""Function of a recording, the gain's frame, a stack and file permissions; returns an observer."""

Estimator = Callable[[Iterable[Any], int, StreamOptions], Iterator[Segment]]
"""Function of blocks of sound, a rate in Hz and options that yields denoised segments."""


@dataclass(frozen=True)
class Request:
    """Options that apply to every file of a batch."""

    options: (
        StreamOptions  # How files are denoised; `file.process` sets the weights, progress and hints
    )
    observe: Observe  # Makes the observer of each file
    preset: str = "fast"  # Name of the preset that the settings are made from
    # refiner, second_stage: as for `alphamf.denoising.weights.find`; low latency has its own.
    refiner: str = "auto"
    second_stage: str = "auto"
    overwrite: bool = False  # Whether existing outputs may be replaced
    trim: bool = False  # Whether the sound before the first speech and after the last is cut off
    # Loudness of the outputs in LUFS, with true peaks limited; None: unchanged loudness.
    loudness: float | None = None
    part: Part | None = None  # The part of every file to denoise; None: the whole file
    # Time ranges of every file with noise only, as from `alphamf.denoising.hints.check_ranges`.
    noise_from: TimeRanges = ()
    whole: bool = False  # Whether the length of a pipe must be known before it is denoised
    track: int | None = None  # Number of the audio track, as for `alphamf.audio.reader.open_reader`
    # Makes the segments of the output; a function other than `denoise_blocks` can make them from
    # speech that is already known.
    estimate: Estimator = denoise_blocks
    tag: bool = False  # Whether to add a line to the outputs' history
    # Whether a result contains what it depends on: versions, digests of the models, processor.
    documented: bool = True
