"""Read speech from files for training: one channel at one rate, trimmed at both ends."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Sequence
from itertools import dropwhile, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from alphamf.audio import stft
from alphamf.audio.layout import DecodingError, FilePart
from alphamf.audio.opening import next_block
from alphamf.audio.reader import Reader, open_reader
from alphamf.audio.resample import resample
from alphamf.audio.stft import Frame
from alphamf.audio.survey import open_sound
from alphamf.errors import AlphaMFError
from alphamf.tools import libraries
from alphamf.tools.arrays import Floats
from alphamf.tools.files import printable_name

QUIET_DB = 40.0
"""Level relative to a recording's peak below which sound counts as silence, in dB."""


def read_beginning(path: str | os.PathLike[str], rate: int, frame: Frame, seconds: float) -> Floats:
    """Return the first speech in a file; empty if the file is silent.

    `frame`: frame of the model, in samples: the resolution at which silence is cut off. Returns:
    the mean of the channels, shape (samples,), float32.
    """
    with open_reader(path) as reader:
        _check_rate(reader, rate)
        # Blocks of a second, so that memory does not grow with the length of the file.
        blocks = (block.mean(axis=1) for block in reader.blocks(reader.rate))
        floor = reader.peak * 10 ** (-QUIET_DB / 20)
        spoken = dropwhile(lambda block: np.abs(block).max() <= floor, blocks)
        held = list(islice(spoken, math.ceil(seconds) + 1))
        if not held:
            return np.zeros(0, np.float32)
        sound = resample(np.concatenate(held), reader.rate, rate)
    return _trimmed(sound, rate, frame, seconds)


def spectrum(sound: Floats, frame: Frame) -> Floats | None:
    """Return |X|^2 in units of its mean, shape (bins, frames); None for digital silence."""
    # Scaled first, so that squares neither overflow nor vanish.
    peak = np.abs(sound).max(initial=0)
    if not peak > 0:
        return None
    power = np.abs(stft.forward(sound / peak, frame)) ** 2
    scaled: Floats = power / power.mean()
    return scaled


class _Header(NamedTuple):
    """Properties of a file that has been checked."""

    rate: int
    frames: int
    peak: float
    subtype: str
    parts: Sequence[FilePart]


class Excerpts:
    """Reads speech from random positions of a file.

    The first read of a file checks it completely; later ones decode only the excerpt.
    """

    # rate, frame, seconds: sampling rate in Hz, the model's frame in samples, and maximum length of
    # an excerpt.
    rate: int
    frame: Frame
    seconds: float

    def __init__(self, rate: int, frame: Frame, seconds: float) -> None:
        self.rate, self.frame, self.seconds = rate, frame, seconds
        self._known: dict[str, _Header] = {}

    def read(self, path: str, place: float) -> Floats:
        """Return an excerpt, shape (samples,), float32; empty if there is only silence."""
        known = self._known.get(path)
        if known is not None:
            sound = self._cut(Path(path), known, place)
        else:
            _check_regular(path)
            with open_reader(path) as reader:
                _check_rate(reader, self.rate)
                self._known[path] = known = _Header(
                    reader.rate, reader.frames, reader.peak, reader.subtype, reader.parts
                )
                sound = self._cut(Path(path), known, place)
        if np.abs(sound).max(initial=0) <= known.peak * 10 ** (-QUIET_DB / 20):
            return np.zeros(0, np.float32)
        sound = resample(sound, known.rate, self.rate)
        return _trimmed(sound, self.rate, self.frame, self.seconds)

    def read_first(self, path: str) -> Floats:
        """Return the first speech in a file, in the same way as `read_beginning`."""
        _check_regular(path)
        return read_beginning(path, self.rate, self.frame, self.seconds)

    def _cut(self, path: Path, known: _Header, place: float) -> Floats:
        import soundfile

        # A second more, as silence is cut off.
        length = min(known.frames, math.ceil((self.seconds + 1) * known.rate))
        try:
            with open_sound(path, printable_name(path), parts=known.parts) as file:
                file.seek(int(place * (known.frames - length + 1)))
                sound: Floats = next_block(file, length).mean(axis=1)
                same = file.subtype == known.subtype
        except (DecodingError, AlphaMFError, OSError, soundfile.LibsndfileError) as error:
            raise AlphaMFError(f"{printable_name(path)} can no longer be read") from error
        # libsndfile takes a read that fails for the end, and in a header for zeros.
        if len(sound) < length or not same:
            raise AlphaMFError(f"{printable_name(path)} can no longer be read completely")
        return sound


def _check_rate(reader: Reader, rate: int) -> None:
    if reader.rate < rate:
        raise AlphaMFError(
            f"{reader.name} has a rate of {reader.rate} Hz, but a dictionary at {rate} Hz "
            "needs at least that rate"
        )


def _check_regular(path: str) -> None:
    if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        raise AlphaMFError(
            f"{printable_name(path)} is not a regular file; streamed training reads each "
            "file several times"
        )


def _trimmed(sound: Floats, rate: int, frame: Frame, seconds: float) -> Floats:
    trim = libraries.load("librosa.effects").trim

    sound, _ = trim(sound, top_db=QUIET_DB, frame_length=frame.n_fft, hop_length=frame.hop_length)
    return sound[: int(seconds * rate)]
