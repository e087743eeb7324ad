"""Read audio files in blocks of bounded memory, after checking them from end to end."""

from __future__ import annotations

import math
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from alphamf.audio import formats
from alphamf.errors import AlphaMFError
from alphamf.tools.arrays import Floats
from alphamf.tools.files import reason, shown, system_name

BLOCK = 1 << 16
"""Frames read at a time."""

RATES = (1000, 768_000)
"""Lowest and highest sampling rate that is read, in Hz: what others cost is out of all proportion
to the file, and no speech is recorded at them."""

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
        before what its header promises, its sampling rate is not one of sound, or it holds samples
        that are not finite.
    """
    with ExitStack() as stack:
        copy = None
        if isinstance(source, (str, os.PathLike)):
            name, path = shown(source), Path(source)
            stream = _checked(path, name)
        else:
            name, stream = "standard input", source
        if stream is not None:
            with stream if stream is not source else nullcontext():
                path = copy = _copy(stream, name, stack)
        if not path.stat().st_size:
            raise AlphaMFError(f"{name} is empty (0 bytes)")
        unset = formats.check(path, name)
        if unset is not None:
            if copy is None:
                with path.open("rb") as file:
                    path = _copy(file, name, stack)
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


def _checked(path: Path, name: str) -> BinaryIO | None:
    """Return what has to be copied before it can seek; None for a regular file."""
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
    """Copy a stream to a temporary file, which goes when the stack is left."""
    try:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="alphamf-"))
        copy = Path(folder, "audio")
        with copy.open("wb") as file:
            shutil.copyfileobj(stream, file, 1 << 20)
    except OSError as error:
        place = shown(tempfile.gettempdir())
        raise AlphaMFError(f"{name} cannot be copied to {place}: {reason(error)}") from error
    return copy


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


def _survey(path: Path, name: str) -> Reader:
    """Decode the file once: count its samples, check them and measure their level."""
    import soundfile

    frames, peak, power, bad, first = 0, 0.0, 0.0, 0, 0
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
