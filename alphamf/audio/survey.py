"""Decode a file once completely before it is processed."""

from __future__ import annotations

import io
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

import numpy as np

from alphamf.audio import formats, subtypes
from alphamf.audio.decoder import helper
from alphamf.audio.decoder.client import ConfinedSound, open_bytes_confined, open_confined
from alphamf.audio.decoder.confined_process import NoSandboxError
from alphamf.audio.layout import LEAST, DecodingError, OmissionError, excess_sentence
from alphamf.audio.media.track import About
from alphamf.audio.opening import Sound, next_block
from alphamf.errors import AlphaMFError
from alphamf.tools.arrays import Floats

BLOCK = 1 << 16
"""Number of frames read at a time."""

RATES = (1000, 768_000)
"""Lowest and highest supported sampling rate, in Hz. Speech is not recorded at other rates, which
would cost too much time and memory for the size of the file."""

Limit = Callable[[int, int, int], None]
"""Refuses a file by its rate, its channels, and the samples that it promises or has at least."""


@dataclass
class Samples:
    """Statistics of the samples of a file, including those that are not finite."""

    frames: int = 0
    peak: float = 0.0
    power: float = 0.0
    bad: int = 0
    first_bad: int = 0
    checksum: int = 0

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


class Survey(NamedTuple):
    """Properties of a file found by decoding it; see `alphamf.audio.reader.Reader`."""

    rate: int
    channels: int
    format: str
    subtype: str
    samples: Samples
    cut: str | None
    note: str | None
    track: About | None


def survey(
    path: Path,
    name: str,
    *,
    max_channels: int | None,
    track: int | None,
    limit: Limit | None = None,
) -> Survey:
    """Decode the file once: count its samples, check them and measure their level."""
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
            while len(block := next_block(file, BLOCK)):
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
    return Survey(rate, channels, form, subtype, samples, cut, note, ending.about)


def _bytes_per_second(path: Path, file: Sound | ConfinedSound, frames: int) -> float:
    """Return the number of bytes per second of a file: exact if it is not compressed."""
    if file.subtype in subtypes.SUBTYPES or not frames:
        return float(subtypes.get(file.subtype).size * file.channels * file.samplerate)
    return (path.stat().st_size - file.spare) * file.samplerate / frames


def check_kind(name: str, rate: int, channels: int, max_channels: int | None) -> None:
    """Refuse a rate outside `RATES`, and more channels than allowed.

    `rate`, `channels`: sampling rate in Hz and number of channels of the file.
    """
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
    """Refuse a file without samples, or with samples that are not finite."""
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
    if helper.is_enabled():
        try:
            return open_confined(path, name, track)
        except NoSandboxError:
            pass
    return Sound(path, name, track, ending=path.suffix)


def open_bytes(data: bytes, name: str) -> Sound | ConfinedSound:
    """Open the first bytes of a file, given in memory, to decode its header."""
    if helper.is_enabled():
        try:
            return open_bytes_confined(data, name)
        except NoSandboxError:
            pass
    return Sound(_Bytes(data), name)


class _Bytes(NamedTuple):
    """A file in memory."""

    data: bytes

    def open(self, mode: Literal["rb"], /) -> BinaryIO:
        return io.BytesIO(self.data)
