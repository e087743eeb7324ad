"""Read audio files in blocks of bounded memory, after checking them from end to end."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from alphamf.audio import formats
from alphamf.audio.sources import decodable
from alphamf.errors import AlphaMFError
from alphamf.tools.arrays import Floats
from alphamf.tools.files import system_name

BLOCK = 1 << 16
"""Frames read at a time."""

RATES = (1000, 768_000)
"""Lowest and highest sampling rate that is read, in Hz; no speech is recorded at others, and they
would cost time and memory out of proportion to the file."""

_UNKNOWN = 2**62
"""libsndfile gives a length beyond this for a FLAC file written to a pipe."""


@dataclass(frozen=True)
class Reader:
    """A checked audio file.

    Attributes
    ----------
    name
        Its name in messages.
    path
        Where the samples are read from (a temporary copy when the source is a pipe).
    rate, channels, frames
        Samples per second; channels; samples per channel, counted by decoding the file.
    format, subtype
        As libsndfile names them, for example ``WAV`` and ``PCM_16``.
    peak, rms
        Largest magnitude and root mean square over all channels, 1 at full scale.
    """

    name: str
    path: Path
    rate: int
    channels: int
    frames: int
    format: str
    subtype: str
    peak: float
    rms: float

    @property
    def duration(self) -> float:
        """Length in seconds."""
        return self.frames / self.rate

    def blocks(self, size: int = BLOCK) -> Iterator[Floats]:
        """Yield the samples in order: float32 of shape (n, channels) with n at most `size`."""
        with _open(self.path, self.name) as file:
            yield from _blocks(file, size)


@contextmanager
def open_reader(source: str | os.PathLike[str] | BinaryIO) -> Iterator[Reader]:
    """Check an audio file and yield its properties, from which its samples can be read.

    The file is decoded once before anything else, so that a sample which is not a number near
    the end of a long recording is found at the start.

    Parameters
    ----------
    source
        A file, or a binary stream such as ``sys.stdin.buffer``. Streams and named pipes are
        copied to a temporary file, as decoding needs to seek.

    Raises
    ------
    AlphaMFError
        There is no such file, it is a folder, it is not audio, it holds no samples, it ends
        before what its header promises, its sampling rate is outside `RATES`, or it holds samples
        that are not finite.
    """
    with decodable(source) as (path, name):
        yield _survey(path, name)


def read(source: str | os.PathLike[str] | BinaryIO) -> tuple[Floats, int]:
    """Read a whole file: samples as float32 of shape (frames, channels), and the rate.

    Raises
    ------
    AlphaMFError
        As `open_reader`.
    """
    with open_reader(source) as reader:
        return np.concatenate(list(reader.blocks())), reader.rate


def _open(path: Path, name: str) -> Any:
    import soundfile

    try:
        file = soundfile.SoundFile(system_name(path))
    except soundfile.LibsndfileError as error:
        if error.code == 1:
            raise AlphaMFError(f"{name} is not audio of a known format") from None
        what = error.error_string.rstrip(".")
        raise AlphaMFError(f"{name} cannot be read as audio: {what}") from None
    # soundfile seeks after each read where it can, which makes the MP3 decoder lose its bit
    # reservoir at every block. Reading in order needs no seeks.
    file.seekable = lambda: False
    return file


def _blocks(file: Any, size: int) -> Iterator[Floats]:
    while len(block := file.read(size, dtype="float32", always_2d=True)):
        yield block


@dataclass
class _Samples:
    """Sums over the samples of a file, and those that are not finite."""

    frames: int = 0
    peak: float = 0.0
    power: float = 0.0
    bad: int = 0
    first_bad: int = 0

    def add(self, block: Floats) -> None:
        """Count a block, shape (n, channels)."""
        square = float(np.vdot(block, block))
        if not math.isfinite(square):
            broken = ~np.isfinite(block)
            if not self.bad and broken.any():
                self.first_bad = self.frames + int(broken.any(axis=1).argmax())
            self.bad += int(np.count_nonzero(broken))
        self.power += square
        self.peak = max(self.peak, float(block.max()), -float(block.min()))
        self.frames += len(block)


def _survey(path: Path, name: str) -> Reader:
    """Decode the file once: count its samples, check them and measure their level."""
    import soundfile

    samples = _Samples()
    with _open(path, name) as file:
        rate, channels, promised = file.samplerate, file.channels, file.frames
        form, subtype = file.format, file.subtype
        if not RATES[0] <= rate <= RATES[1]:
            raise AlphaMFError(
                f"{name} has a sampling rate of {rate} Hz, and rates are read from {RATES[0]} to "
                f"{RATES[1]} Hz"
            )
        try:
            for block in _blocks(file, BLOCK):
                samples.add(block)
        except soundfile.LibsndfileError as error:
            what = error.error_string.removeprefix("Error : ").rstrip(".")
            raise AlphaMFError(f"{name} is damaged or cut short: {what}") from None
    frames = samples.frames
    least = promised - formats.get(form).slack if promised < _UNKNOWN else 1
    _check(name, rate, samples, promised, least)
    rms = math.sqrt(samples.power / (frames * channels))
    return Reader(name, path, rate, channels, frames, form, subtype, samples.peak, rms)


def _check(name: str, rate: int, samples: _Samples, promised: int, least: int) -> None:
    """Refuse a file of no samples, of fewer than `least` frames, or of samples not finite."""
    if not samples.frames:
        raise AlphaMFError(f"{name} holds no samples")
    if samples.frames < least:
        raise AlphaMFError(
            f"{name} is cut short: its header promises {promised / rate:.2f} s and "
            f"{samples.frames / rate:.2f} s can be decoded"
        )
    if samples.bad:
        noun = "sample that is" if samples.bad == 1 else "samples that are"
        first = samples.first_bad / rate
        raise AlphaMFError(
            f"{name} holds {samples.bad} {noun} NaN or infinite, the first at {first:.3f} s"
        )
