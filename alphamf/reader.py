"""Read audio files in blocks of bounded memory, after checking them from end to end."""

from __future__ import annotations

import math
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from alphamf import container
from alphamf.errors import AlphaMFError
from alphamf.files import reason, shown

Floats = NDArray[np.float32]

BLOCK = 1 << 16
"""Frames read at a time."""

_UNKNOWN = 2**62
"""libsndfile gives a length beyond this for a FLAC file written to a pipe."""

_MP3_FRAME = 1152


@dataclass(frozen=True)
class Reader:
    """A checked audio file.

    Attributes
    ----------
    name
        What to call the file in a message.
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
    """Check an audio file and give its properties and its samples.

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
        before what its header promises, or it holds samples that are not finite.
    """
    with tempfile.TemporaryDirectory(prefix="alphamf-") as folder:
        copy = Path(folder, "audio")
        if isinstance(source, (str, os.PathLike)):
            name = shown(source)
            path = _local(Path(source), copy, name)
        else:
            name = "standard input"
            path = _copy(source, copy)
        if not path.stat().st_size:
            raise AlphaMFError(f"{name} is empty (0 bytes)")
        unset = container.check(path, name)
        if unset is not None:
            if path != copy:
                path = Path(shutil.copyfile(path, copy))
            with path.open("r+b") as file:
                file.seek(unset)
                file.write(b"\xff\xff\xff\xff")
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


def _local(path: Path, copy: Path, name: str) -> Path:
    """Return the path of a file that can be read and that can seek."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISDIR(mode):
            with path.open("rb") as file:
                return path if stat.S_ISREG(mode) else _copy(file, copy)
    except FileNotFoundError:
        raise AlphaMFError(f"{name} does not exist") from None
    except (OSError, ValueError) as error:
        raise AlphaMFError(f"{name} cannot be opened: {reason(error)}") from error
    raise AlphaMFError(f"{name} is a folder, not an audio file")


def _copy(stream: BinaryIO, copy: Path) -> Path:
    with copy.open("wb") as file:
        shutil.copyfileobj(stream, file, 1 << 20)
    return copy


def _open(path: Path, name: str) -> Any:
    import soundfile

    try:
        file = soundfile.SoundFile(path)
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


def _survey(path: Path, name: str) -> Reader:
    """Decode the file once: count its samples, check them and measure their level."""
    import soundfile

    frames, peak, power, bad, first = 0, 0.0, 0.0, 0, 0
    with _open(path, name) as file:
        rate, channels, promised = file.samplerate, file.channels, file.frames
        form, subtype = file.format, file.subtype
        try:
            for block in _blocks(file, BLOCK):
                square = float(np.vdot(block, block))
                if not math.isfinite(square):
                    broken = ~np.isfinite(block)
                    if not bad and broken.any():
                        first = frames + int(broken.any(axis=1).argmax())
                    bad += int(np.count_nonzero(broken))
                power += square
                peak = max(peak, float(block.max()), -float(block.min()))
                frames += len(block)
        except soundfile.LibsndfileError as error:
            what = error.error_string.removeprefix("Error : ").rstrip(".")
            raise AlphaMFError(f"{name} is damaged or cut short: {what}") from None
    if not frames:
        raise AlphaMFError(f"{name} holds no samples")
    # The header of an MP3 counts whole frames, with or without the encoder's padding.
    slack = _MP3_FRAME if form == "MP3" else 0
    if frames < promised - slack and promised < _UNKNOWN:
        raise AlphaMFError(
            f"{name} is cut short: its header promises {promised / rate:.2f} s and "
            f"{frames / rate:.2f} s can be decoded"
        )
    if bad:
        noun = "sample that is" if bad == 1 else "samples that are"
        raise AlphaMFError(
            f"{name} holds {bad} {noun} NaN or infinite, the first at {first / rate:.3f} s"
        )
    rms = math.sqrt(power / (frames * channels))
    return Reader(name, path, rate, channels, frames, form, subtype, peak, rms)
