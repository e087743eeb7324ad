"""Read audio files in blocks, after decoding them once completely.

A `Reader` decodes a file twice and never holds all of it in memory: peak, length and faults near
the end must be known before it is denoised, as level and format of the output depend on them.
"""

from __future__ import annotations

import io
import math
import os
import shutil
import stat
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np

from alphamf.audio import formats
from alphamf.audio.decoder import sandbox
from alphamf.audio.decoder.client import ConfinedSound, open_bytes_confined, open_confined
from alphamf.audio.decoder.sandbox import NoSandboxError
from alphamf.audio.file_pieces import LEAST, DecodingError, OmissionError, excess_sentence
from alphamf.audio.media.track import About
from alphamf.audio.opening import Sound
from alphamf.errors import AlphaMFError
from alphamf.tools.arrays import Floats
from alphamf.tools.files import file_errors, printable_name, reason, temporary_place

BLOCK = 1 << 16
"""Number of samples per channel read at a time."""

RATES = (1000, 768_000)
"""Lowest and highest supported sampling rate, in Hz. Speech is not recorded at other rates, which
would cost too much time and memory for the size of the file."""

Limit = Callable[[int, int, int], None]
"""Function that may refuse a file by rate, channels, and the samples it promises or has so far."""


@dataclass
class Samples:
    """Statistics of the samples of a file that were added so far."""

    frames: int = 0  # Samples per channel
    peak: float = 0.0  # Largest magnitude
    power: float = 0.0  # Sum of the squares of the finite samples
    bad: int = 0  # Number of samples that are NaN or infinite
    first_bad: int = 0  # Position of the first of these in its channel
    checksum: int = 0  # CRC-32 of all samples

    def add(self, block: Floats) -> None:
        """Add a block, shape (n, channels)."""
        square = float(np.vdot(block, block))
        if not math.isfinite(square):
            broken = ~np.isfinite(block)
            if not self.bad and broken.any():
                self.first_bad = self.frames + int(broken.any(axis=1).argmax())
            self.bad += int(np.count_nonzero(broken))
            square = float(np.square(np.where(broken, 0, block), dtype=np.float64).sum())
        self.power += square
        self.peak = max(self.peak, float(block.max()), -float(block.min()))
        self.frames += len(block)
        self.checksum = zlib.crc32(block.data, self.checksum)


def _survey(
    path: Path, name: str, max_channels: int | None, track: int | None, limit: Limit | None
) -> Reader:
    """Decode a file once to check its samples and measure their level; return a reader for it."""
    samples, note = Samples(), None
    with open_sound(path, name, track) as file:
        rate, channels, form, subtype = file.samplerate, file.channels, file.format, file.subtype
        check_kind(name, rate, channels, max_channels)
        if form in formats.UNCHECKED:
            raise AlphaMFError(
                f"{name} is {form}, whose length alphamf cannot check; convert it to WAV first"
            )
        if limit is not None:
            limit(rate, channels, file.frames)
        cut = file.cut and f"{name} {file.cut}"
        try:
            while len(block := file.read(BLOCK)):
                samples.add(block)
                if limit is not None:
                    limit(rate, channels, samples.frames)
        except OmissionError as error:
            cut = cut or f"{name} {error}"
        except DecodingError as error:
            cut = cut or f"{name} is damaged or truncated: {error}"
        ending = file.ending()
        if ending.wrong and cut is None:
            note = "its samples do not match the MD5 sum in its header"
    frames = samples.frames
    slack = formats.get(form).slack * file.count
    if 0 < frames < ending.promised - slack:
        cut = cut or (
            f"{name} is truncated: its header promises {ending.promised / rate:.2f} s, but only "
            f"{frames / rate:.2f} s can be decoded"
        )
    spare = file.spare / _bytes_per_second(path, file, frames)
    if spare >= LEAST:
        cut = cut or excess_sentence(name, frames / rate, spare)
    if cut is not None and not frames:
        raise AlphaMFError(cut)
    check_samples(name, rate, samples)
    if cut is not None:
        cut = f"{cut}; using the first {frames / rate:.2f} s"
    return Reader(
        name=name,
        path=path,
        rate=rate,
        channels=channels,
        frames=frames,
        format=form,
        subtype=subtype,
        peak=samples.peak,
        rms=math.sqrt(samples.power / (frames * channels)),
        checksum=samples.checksum,
        cut=cut,
        note=note,
        track=ending.about,
    )


def _bytes_per_second(path: Path, file: Sound | ConfinedSound, frames: int) -> float:
    """Return a file's bytes per second: exact if it is not compressed, otherwise an estimate."""
    if file.subtype in formats.SUBTYPES or not frames:
        return float(formats.subtype_named(file.subtype).size * file.channels * file.samplerate)
    return (path.stat().st_size - file.spare) * file.samplerate / frames


def check_kind(name: str, rate: int, channels: int, max_channels: int | None) -> None:
    """Raise an AlphaMFError for a rate outside `RATES`, or over `max_channels` channels, if set."""
    if not RATES[0] <= rate <= RATES[1]:
        raise AlphaMFError(
            f"{name} has a sampling rate of {rate} Hz; supported rates are {RATES[0]} to "
            f"{RATES[1]} Hz"
        )
    if max_channels is not None and channels > max_channels:
        raise AlphaMFError(
            f"{name} has {channels} channels, more than {max_channels}; raise "
            "`max_channels` to allow more"
        )


def check_samples(name: str, rate: int, samples: Samples) -> None:
    """Raise an AlphaMFError if a file has no samples, or samples that are not finite."""
    if not samples.frames:
        raise AlphaMFError(f"{name} has no samples")
    if samples.bad:
        noun = "sample that is" if samples.bad == 1 else "samples that are"
        first = samples.first_bad / rate
        raise AlphaMFError(
            f"{name} contains {samples.bad} {noun} NaN or infinite, the first at {first:.3f} s"
        )


def open_sound(path: Path, name: str, track: int | None = None) -> Sound | ConfinedSound:
    """Open a file for decoding in order, in a confined process if possible.

    If the system has no sandbox, or if it is off, this process decodes the file.
    """
    if sandbox.is_enabled():
        with suppress(NoSandboxError):
            return open_confined(path, name, track)
    return Sound(path, name, track, ending=path.suffix)


def open_bytes(data: bytes, name: str) -> Sound | ConfinedSound:
    """Open the first bytes of a file, given in memory, to decode its header."""
    if sandbox.is_enabled():
        with suppress(NoSandboxError):
            return open_bytes_confined(data, name)
    return Sound(_Bytes(data), name)


class _Bytes(NamedTuple):
    """A file in memory."""

    data: bytes

    def open(self, mode: Literal["rb"], /) -> BinaryIO:
        return io.BytesIO(self.data)


CHANNELS = 64
"""Default maximum number of channels for denoising: each costs as much as a mono recording."""


@dataclass(frozen=True)
class Reader:
    """An audio file that was decoded once to check it, with its properties."""

    name: str  # Its name in messages
    path: Path  # Path from which the samples are read (a temporary copy if the source is a pipe)
    # rate, channels, frames: samples per second; channels; samples per channel, counted by decoding
    # the file.
    rate: int
    channels: int
    frames: int
    # format, subtype: as in `alphamf.audio.formats`, for example ``WAV`` and ``PCM_16``.
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

        `exact`: float64 if float32 cannot hold the samples. A changed file raises an AlphaMFError.
        """
        dtype = "float64" if exact and formats.subtype_named(self.subtype).wide else "float32"
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
    are found at the start. Before and during that, `limit` may refuse it by its length. If a file
    is cut or damaged, the part before the damage is read.
    """
    with _decodable_path(source) as (path, name):
        yield _survey(path, name, max_channels, track, limit)


@contextmanager
def _decodable_path(source: str | os.PathLike[str] | BinaryIO) -> Iterator[tuple[Path, str]]:
    """Yield a path to decode, and the source's name in messages; refuse folders and empty files.

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
    """Return an open pipe or device; None for a regular file; otherwise raise an AlphaMFError."""
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
    """Copy a stream to a temporary file, which `stack` deletes, and return its path."""
    with file_errors(name, f"copied to {temporary_place()}"):
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="alphamf-"))
        copy = Path(folder, "audio")
        with copy.open("wb") as file:
            shutil.copyfileobj(stream, file, 1 << 20)
    return copy


def read(
    source: str | os.PathLike[str] | BinaryIO, *, max_channels: int | None = None
) -> tuple[Floats, int]:
    """Return the samples of a file, float32 of shape (samples, channels), and its rate in Hz.

    Parameters
    ----------
    source, max_channels
        Name of the file, or a binary stream; maximum number of channels, None for any number.

    Raises
    ------
    AlphaMFError
        The file cannot be read, is empty, cut or damaged, has samples that are not finite, a rate
        outside `RATES`, or more than `max_channels` channels.

    Examples
    --------
    >>> audio, rate = read("data/sample-noisy.wav")
    >>> audio.shape, audio.dtype, rate
    ((146240, 1), dtype('float32'), 16000)
    """
    with open_reader(source, max_channels=max_channels) as reader:
        reader.require_whole()
        return np.concatenate(list(reader.blocks())), reader.rate
