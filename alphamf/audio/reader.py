"""Read audio files in blocks of limited size, after checking them completely."""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np

from alphamf.audio import subtypes
from alphamf.audio.layout import DecodingError, FilePart
from alphamf.audio.media.track import About
from alphamf.audio.opening import next_block, next_wide_block
from alphamf.audio.sources import decodable_path
from alphamf.audio.survey import BLOCK, Limit, open_sound, survey
from alphamf.errors import AlphaMFError
from alphamf.tools.arrays import Floats

CHANNELS = 64
"""Maximum number of channels by default: each costs as much as a mono recording."""


class Recording(Protocol):
    """The interface of an opened recording; see `Reader`."""

    @property
    def name(self) -> str:
        """Its name in messages."""
        ...

    @property
    def path(self) -> Path:
        """Path of the file that is read."""
        ...

    @property
    def track(self) -> About | None:
        """The audio track that is read from a media file; None for other files."""
        ...

    @property
    def rate(self) -> int:
        """Samples per second."""
        ...

    @property
    def channels(self) -> int:
        """Number of channels."""
        ...

    @property
    def frames(self) -> int:
        """Samples per channel; for a live recording, the number so far."""
        ...

    @property
    def duration(self) -> float:
        """Length in seconds; for a live recording, the length so far."""
        ...

    @property
    def format(self) -> str:
        """Format, by libsndfile's name."""
        ...

    @property
    def subtype(self) -> str:
        """Sample format (subtype), by libsndfile's name."""
        ...

    @property
    def cut(self) -> str | None:
        """A sentence if part of the recording is missing; otherwise None."""
        ...

    @property
    def note(self) -> str | None:
        """What else is wrong with the file; otherwise None."""
        ...

    def blocks(self, *, exact: bool = False) -> Iterator[Any]:
        """Yield the samples in order, shape (n, channels), float32.

        `exact`: whether to yield float64 where float32 does not hold the samples.
        """
        ...


@dataclass(frozen=True)
class Reader:
    """A checked audio file."""

    name: str  # Its name in messages
    path: Path  # Path from which the samples are read (a temporary copy if the source is a pipe)
    # rate, channels, frames: samples per second; channels; samples per channel, counted by decoding
    # the file.
    rate: int
    channels: int
    frames: int
    # format, subtype: as libsndfile names them, for example ``WAV`` and ``PCM_16``.
    format: str
    subtype: str
    # peak, rms: largest magnitude and root mean square over all channels, 1 at full scale.
    peak: float
    rms: float
    checksum: int  # CRC-32 of the samples
    cut: str | None = None  # A sentence if a part of the file is missing; otherwise None
    note: str | None = None  # A sentence about any other problem of the file; otherwise None
    parts: Sequence[FilePart] = (FilePart(),)  # The recordings that follow each other in the file
    track: About | None = None  # The audio track that is read from a media file; otherwise None

    @property
    def duration(self) -> float:
        """Length in seconds."""
        return self.frames / self.rate

    def blocks(self, size: int = BLOCK, *, exact: bool = False) -> Iterator[Any]:
        """Yield the samples in order: float32 of shape (n, channels) with n at most `size`.

        `exact`: whether to yield float64 where float32 does not hold the samples.
        """
        read = next_wide_block if exact and subtypes.get(self.subtype).wide else next_block
        left, checksum = self.frames, 0
        track = self.track.number if self.track else None
        try:
            with open_sound(self.path, self.name, track, self.parts) as file:
                if (file.samplerate, file.channels) != (self.rate, self.channels):
                    raise self._changed(0)
                while left and len(block := read(file, min(size, left))):
                    left -= len(block)
                    checksum = zlib.crc32(block.astype(np.float32, copy=False).data, checksum)
                    if not left and checksum != self.checksum:
                        break
                    yield block
                if not left and self.cut is None and len(next_block(file, 1)):
                    raise self._changed(self.frames + 1)
        except DecodingError:
            raise self._changed(self.frames - left) from None
        if left or checksum != self.checksum:
            raise self._changed(self.frames - left)

    def _changed(self, frames: int) -> AlphaMFError:
        """Return the error for a file that changed between two readings."""
        what = f"{self.name} changed while it was being read"
        if not 0 < frames < self.frames:
            return AlphaMFError(what)
        return AlphaMFError(
            f"{what}: it had {self.duration:.2f} s, and now has {frames / self.rate:.2f} s"
        )


@contextmanager
def open_reader(
    source: str | os.PathLike[str] | BinaryIO,
    *,
    salvage: bool = False,
    max_channels: int | None = None,
    track: int | None = None,
    limit: Limit | None = None,
) -> Iterator[Reader]:
    """Check an audio file, and yield a reader with its properties.

    The file is decoded once before anything else, so that problems near the end of a long recording
    are found at the start. `limit` may refuse it by its length before.
    """
    with decodable_path(source, salvage=salvage) as (path, name, layout):
        found = survey(
            path, name, layout, salvage=salvage, max_channels=max_channels, track=track, limit=limit
        )
        samples = found.samples
        yield Reader(
            name=name,
            path=path,
            rate=found.rate,
            channels=found.channels,
            frames=samples.frames,
            format=found.format,
            subtype=found.subtype,
            peak=samples.peak,
            rms=math.sqrt(samples.power / (samples.frames * found.channels)),
            checksum=samples.checksum,
            cut=found.cut,
            note=found.note,
            parts=layout.parts,
            track=found.track,
        )


def read(
    source: str | os.PathLike[str] | BinaryIO, *, max_channels: int | None = None
) -> tuple[Floats, int]:
    """Read a whole file: samples as float32 of shape (frames, channels), and the rate.

    Parameters
    ----------
    source, max_channels
        As for `open_reader`.

    Raises
    ------
    AlphaMFError
        As `open_reader`.

    Examples
    --------
    >>> audio, rate = read("data/sample-noisy.wav")
    >>> audio.shape, audio.dtype, rate
    ((146240, 1), dtype('float32'), 16000)
    """
    with open_reader(source, max_channels=max_channels) as reader:
        return np.concatenate(list(reader.blocks())), reader.rate
