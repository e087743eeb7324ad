"""Decode a file once from end to end, before anything is made of it."""

from __future__ import annotations

import io
import math
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np

from alphamf.audio import formats
from alphamf.audio.cut import Cut, Undecodable
from alphamf.audio.decoder import helper
from alphamf.audio.decoder.client import open_apart, open_bytes_apart
from alphamf.audio.decoder.connection import Unconfined
from alphamf.audio.media.track import About
from alphamf.audio.opening import next_block, open_here
from alphamf.errors import AlphaMFError
from alphamf.tools.arrays import Floats

BLOCK = 1 << 16
"""Frames read at a time."""

RATES = (1000, 768_000)
"""Lowest and highest sampling rate that is read, in Hz; no speech is recorded at others, and they
would cost time and memory out of proportion to the file."""

_SALVAGE_BLOCK = 1 << 12
"""Frames read at a time of a file that may be damaged: a block with an error in it is lost."""

_UNKNOWN = 2**62
"""libsndfile gives a length beyond this for a FLAC file written to a pipe."""


@dataclass
class Samples:
    """Sums over the samples of a file, and those that are not finite."""

    frames: int = 0
    peak: float = 0.0
    power: float = 0.0
    bad: int = 0
    first_bad: int = 0
    checksum: int = 0

    def add(self, block: Floats) -> None:
        """Count a block, shape (n, channels)."""
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


class Survey(NamedTuple):
    """What was found in a file; see `alphamf.audio.reader.Reader`."""

    rate: int
    channels: int
    format: str
    subtype: str
    samples: Samples
    cut: str | None
    track: About | None


def survey(
    path: Path,
    name: str,
    cut: str | None,
    *,
    salvage: bool,
    max_channels: int | None,
    track: int | None,
) -> Survey:
    """Decode the file once: count its samples, check them and measure their level.

    Parameters
    ----------
    path, name, cut
        As from `decodable`.
    salvage, max_channels, track
        As for `open_reader`.
    """
    samples = Samples()
    size = _SALVAGE_BLOCK if salvage else BLOCK
    with open_sound(path, name, track) as file:
        rate, channels, promised = file.samplerate, file.channels, file.frames
        form, subtype = file.format, file.subtype
        check_kind(name, rate, channels, max_channels)
        try:
            while len(block := next_block(file, size)):
                samples.add(block)
        except Undecodable as error:
            cut = cut or f"{name} is damaged or cut short: {error}"
        about = file.about() if hasattr(file, "about") else None
    frames = samples.frames
    least = promised - formats.get(form).slack if promised < _UNKNOWN else 1
    if frames < least and frames:
        cut = cut or (
            f"{name} is cut short: its header promises {promised / rate:.2f} s and "
            f"{frames / rate:.2f} s can be decoded"
        )
    if cut is not None and not (salvage and frames):
        raise Cut(cut)
    check_samples(name, rate, samples)
    if cut is not None:
        cut = f"{cut}; {frames / rate:.2f} s of it are used"
    return Survey(rate, channels, form, subtype, samples, cut, about)


def check_kind(name: str, rate: int, channels: int, max_channels: int | None) -> None:
    """Refuse a rate outside `RATES`, and more channels than asked for.

    Parameters
    ----------
    name
        Of the file, for the message.
    rate, channels
        Of the file.
    max_channels
        As for `open_reader`.
    """
    if not RATES[0] <= rate <= RATES[1]:
        raise AlphaMFError(
            f"{name} has a sampling rate of {rate} Hz, and rates are read from {RATES[0]} to "
            f"{RATES[1]} Hz"
        )
    if max_channels is not None and channels > max_channels:
        raise AlphaMFError(
            f"{name} has {channels} channels, more than {max_channels}: --max-channels allows more"
        )


def check_samples(name: str, rate: int, samples: Samples) -> None:
    """Refuse a file of no samples, or of samples that are not finite."""
    if not samples.frames:
        raise AlphaMFError(f"{name} holds no samples")
    if samples.bad:
        noun = "sample that is" if samples.bad == 1 else "samples that are"
        first = samples.first_bad / rate
        raise AlphaMFError(
            f"{name} holds {samples.bad} {noun} NaN or infinite, the first at {first:.3f} s"
        )


def open_sound(path: Path, name: str, track: int | None = None) -> Any:
    """Open a file to be decoded in order, by another process that can open nothing else.

    Where the system has no sandbox, or it is off, this process decodes the file.

    Parameters
    ----------
    path, name
        The file, and its name in messages.
    track
        Number of the audio track, from 1 on; None: the default one.

    Raises
    ------
    AlphaMFError
        The file cannot be read, or has no such track.
    """
    if helper.wanted():
        try:
            return open_apart(path, name, track)
        except Unconfined:
            pass
    return open_here(path, name, track)


def open_bytes(data: bytes, name: str) -> Any:
    """Open the header of a file, to be decoded like that of one on the disk.

    Parameters
    ----------
    data, name
        The header, and the name of what it is of in messages.

    Raises
    ------
    AlphaMFError
        It is not that of a file that can be read.
    """
    if helper.wanted():
        try:
            return open_bytes_apart(data, name)
        except Unconfined:
            pass
    return open_here(_Bytes(data), name)


class _Bytes(NamedTuple):
    """A file in memory."""

    data: bytes

    def open(self, mode: Literal["rb"], /) -> BinaryIO:
        return io.BytesIO(self.data)
