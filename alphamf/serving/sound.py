"""The files of a recording in its folder: samples as 32-bit floats, and pictures."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from alphamf.tools.arrays import Floats

SOURCE, SOUND, SPEECH = "source", "input.f32", "speech.f32"
"""The upload; its samples and those of the speech, float32, shape (samples, channels)."""

INPUT_PICTURE, SPEECH_PICTURE, BAND = "input.picture", "speech.picture", "band.picture"


class Sound(NamedTuple):
    """Rate in Hz, channels, and samples per channel of a recording."""

    rate: int
    channels: int
    frames: int


def preview_name(start: int) -> str:
    """Return the file of the preview from sample `start` on."""
    return f"preview-{start}.f32"


def samples(path: Path, channels: int, start: int, count: int) -> Floats:
    """Return samples of a file of float32, shape (samples, channels), as far as they are there."""
    with path.open("rb") as file:
        file.seek(start * channels * 4)
        data = file.read(count * channels * 4)
    whole = len(data) // (4 * channels) * channels
    return np.frombuffer(data, "<f4", whole).reshape(-1, channels)


def held(path: Path, channels: int) -> int:
    """Return how many samples per channel such a file holds so far."""
    try:
        return os.stat(path).st_size // (4 * channels)
    except FileNotFoundError:
        return 0
