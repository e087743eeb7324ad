"""Files of a recording in its folder: samples as 32-bit floats, and pictures.

A file of samples holds all samples of the first channel, then those of the second one and so on, so
that a channel is read from one place. All channels are written in parallel, the last channel last,
so that the length of the file shows the progress.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from alphamf.tools.arrays import Floats

SOURCE, SOUND, SPEECH = "source", "input.f32", "speech.f32"
"""The upload; its samples and those of the speech."""

ECHO_FREE = "echo-free"
"""Folder within that of a recording, for the same files of the speech without echo."""

INPUT_PICTURE, SPEECH_PICTURE, BAND = "input.picture", "speech.picture", "band.picture"

PART = 1 << 16
"""Bytes of an answer that are read and sent at a time."""

SAMPLE = 4
"""Bytes of a sample."""


class SoundShape(NamedTuple):
    """Rate in Hz, number of channels, and samples per channel of a recording."""

    rate: int
    channels: int
    frames: int


class Extract(NamedTuple):
    """A part of a file of samples: the open file, what it holds, and the first sample."""

    file: BinaryIO
    sound: SoundShape
    start: int


def preview_name(start: int) -> str:
    """Return the file name of the preview that starts at sample `start`."""
    return f"preview-{start}.f32"


def write(file: BinaryIO, sound: SoundShape, start: int, block: Floats) -> None:
    """Write samples, shape (samples, channels), at their place in a file of samples.

    `sound`: shape of the sound in the file. `block`: the samples, float32.
    """
    for channel, values in enumerate(block.T):
        file.seek(SAMPLE * (channel * sound.frames + start))
        file.write(values.tobytes())


def samples(path: Path, sound: SoundShape, start: int, count: int) -> Floats:
    """Read samples from a file of samples, shape (samples, channels); fewer if it is shorter."""
    count = max(0, min(count, stored_samples(path, sound) - start))
    with path.open("rb") as file:
        data = b"".join(parts([Extract(file, sound, start)], count))
    return np.ascontiguousarray(np.frombuffer(data, "<f4").reshape(sound.channels, count).T)


def parts(extracts: Sequence[Extract], count: int) -> Generator[bytes]:
    """Yield `count` samples of each channel of each extract, in parts of bounded size."""
    for file, sound, start in extracts:
        for channel in range(sound.channels):
            file.seek(SAMPLE * (channel * sound.frames + start))
            left = SAMPLE * count
            while left and (data := file.read(min(PART, left))):
                left -= len(data)
                yield data


def stored_samples(path: Path, sound: SoundShape) -> int:
    """Return how many samples per channel a file of samples holds so far."""
    try:
        size = os.stat(path).st_size
    except FileNotFoundError:
        return 0
    return max(0, size // SAMPLE - (sound.channels - 1) * sound.frames)
