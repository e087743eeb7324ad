"""Read audio files in blocks of limited size, after checking them completely."""

from __future__ import annotations

import math
import os
import shutil
import stat
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from alphamf.audio import subtypes
from alphamf.audio.layout import DecodingError
from alphamf.audio.media.track import About
from alphamf.audio.survey import BLOCK, Limit, open_sound, survey
from alphamf.errors import AlphaMFError
from alphamf.tools.arrays import Floats
from alphamf.tools.files import file_errors, printable_name, reason, temporary_place

CHANNELS = 64
"""Maximum number of channels by default: each costs as much as a mono recording."""


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
    track: About | None = None  # The audio track that is read from a media file; otherwise None

    @property
    def duration(self) -> float:
        """Length in seconds."""
        return self.frames / self.rate

    def require_whole(self) -> None:
        """Raise an AlphaMFError if a part of the file is missing."""
        if self.cut is not None:
            raise AlphaMFError(self.cut.rpartition("; using the first ")[0])

    def blocks(self, size: int = BLOCK, *, exact: bool = False) -> Iterator[Any]:
        """Yield the samples in order: float32 of shape (n, channels) with n at most `size`.

        `exact`: whether to yield float64 where float32 does not hold the samples.
        """
        dtype = "float64" if exact and subtypes.get(self.subtype).wide else "float32"
        left, checksum = self.frames, 0
        track = self.track.number if self.track else None
        try:
            with open_sound(self.path, self.name, track) as file:
                if (file.samplerate, file.channels) != (self.rate, self.channels):
                    raise self._changed(0)
                while left and len(block := file.read(min(size, left), dtype)):
                    left -= len(block)
                    checksum = zlib.crc32(block.astype(np.float32, copy=False).data, checksum)
                    if not left and checksum != self.checksum:
                        break
                    yield block
                if not left and self.cut is None and len(file.read(1)):
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
    max_channels: int | None = None,
    track: int | None = None,
    limit: Limit | None = None,
) -> Iterator[Reader]:
    """Check an audio file, and yield a reader with its properties.

    The file is decoded once before anything else, so that problems near the end of a long recording
    are found at the start. `limit` may refuse it by its length before. Of a file that is cut or
    damaged, the part before that is read.
    """
    with _decodable_path(source) as (path, name):
        found = survey(path, name, max_channels=max_channels, track=track, limit=limit)
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
            track=found.track,
        )


@contextmanager
def _decodable_path(source: str | os.PathLike[str] | BinaryIO) -> Iterator[tuple[Path, str]]:
    """Yield a path to decode, and the name of the source in messages.

    Streams and named pipes are copied to a temporary file, because decoding needs to seek.
    """
    with ExitStack() as stack:
        if isinstance(source, (str, os.PathLike)):
            name, path = printable_name(source), Path(source)
            stream = _unseekable(path, name)
        else:
            name, stream = "standard input", source
        if stream is not None:
            with stream if stream is not source else nullcontext():
                path = _copy(stream, name, stack)
        with file_errors(name, "read"):
            if not path.stat().st_size:
                raise AlphaMFError(f"{name} is empty (0 bytes)")
        yield path, name


def _unseekable(path: Path, name: str) -> BinaryIO | None:
    """Open a pipe or device, which has to be copied; None for a regular file."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISDIR(mode):
            file = path.open("rb")
            if not stat.S_ISREG(mode):
                return file
            file.close()
            return None
    except FileNotFoundError:
        raise AlphaMFError(f"{name} does not exist") from None
    except (OSError, ValueError) as error:
        raise AlphaMFError(f"{name} cannot be opened: {reason(error)}") from error
    raise AlphaMFError(f"{name} is a folder, not an audio file")


def _copy(stream: BinaryIO, name: str, stack: ExitStack) -> Path:
    """Copy a stream to a temporary file, which is deleted when the exit stack closes."""
    try:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="alphamf-"))
        copy = Path(folder, "audio")
        with copy.open("wb") as file:
            shutil.copyfileobj(stream, file, 1 << 20)
    except OSError as error:
        raise AlphaMFError(
            f"{name} cannot be copied to {temporary_place()}: {reason(error)}"
        ) from error
    return copy


def read(
    source: str | os.PathLike[str] | BinaryIO, *, max_channels: int | None = None
) -> tuple[Floats, int]:
    """Read a whole file: samples as float32 of shape (frames, channels), and the rate.

    A file of which a part is missing is refused.

    Parameters
    ----------
    source, max_channels
        As for `open_reader`.

    Raises
    ------
    AlphaMFError
        For a file that is cut or damaged, and as `open_reader`.

    Examples
    --------
    >>> audio, rate = read("data/sample-noisy.wav")
    >>> audio.shape, audio.dtype, rate
    ((146240, 1), dtype('float32'), 16000)
    """
    with open_reader(source, max_channels=max_channels) as reader:
        reader.require_whole()
        return np.concatenate(list(reader.blocks())), reader.rate
