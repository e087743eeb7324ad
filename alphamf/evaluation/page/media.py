"""Sounds and spectrograms for the report page, embedded as ``data:`` URLs."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphamf.audio.layout import DecodingError
from alphamf.audio.opening import next_block
from alphamf.audio.survey import open_sound
from alphamf.batch.plot import Spectrogram
from alphamf.errors import AlphaMFError
from alphamf.evaluation.page.svg import round_numbers
from alphamf.tools import libraries
from alphamf.tools.arrays import Floats
from alphamf.tools.files import printable_name

SECONDS = 15.0
"""Longest part of a clip that is embedded."""

RANGE = 70
"""Decibels of the colour scale, below the loudest cell of the clean and the noisy signal."""

_COLUMNS, _ROWS = 400, 160
"""Largest size of a spectrogram, that at which it is shown."""


class Ticks(NamedTuple):
    """The end of an axis and its tick marks, as fractions of the axis with their labels."""

    end: float
    marks: list[tuple[float, str]]


class Sound(NamedTuple):
    """The first seconds of a file, and their spectrogram."""

    audio: Floats  # Mean of the channels, shape (samples,)
    rate: int
    power: NDArray[np.float32]  # Spectrogram, shape (bins, columns)
    cut: bool  # Whether the file is longer


def read(path: Path) -> Sound | None:
    """Read the first seconds of a file as mono; None if there is no sound."""
    try:
        with open_sound(path, printable_name(path)) as file:
            rate = file.samplerate
            block = next_block(file, int(SECONDS * rate))
            cut = file.frames > len(block)
    except (AlphaMFError, DecodingError):
        return None
    if not len(block) or not np.isfinite(block).all():
        return None
    audio: Floats = block.mean(1)
    spectrogram = Spectrogram(len(audio), rate)
    spectrogram.add(audio[:, None])
    return Sound(audio, rate, _smaller(spectrogram.power()), cut)


def _smaller(power: NDArray[np.float32]) -> NDArray[np.float32]:
    """Average neighbouring cells down to the size of the picture."""
    for axis, most in enumerate((_ROWS, _COLUMNS)):
        size = power.shape[axis]
        if size > most:
            start = np.arange(most) * size // most
            width = np.diff(start, append=size)
            total = np.add.reduceat(power, start, axis)
            power = (total / (width[:, None] if axis == 0 else width)).astype(np.float32)
    return power


def _address(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def flac(sound: Sound) -> str:
    """Encode the sound as a FLAC ``data:`` URL."""
    import soundfile

    buffer = io.BytesIO()
    soundfile.write(buffer, sound.audio, sound.rate, "PCM_16", format="FLAC")
    return _address("audio/flac", buffer.getvalue())


def png(power: NDArray[np.float32], loudest: float) -> str:
    """Encode a spectrogram as a PNG ``data:`` URL, with one colour per decibel below `loudest`."""
    from PIL import Image

    floor = max(loudest, 1e-20) * 10 ** (-RANGE / 10)
    level = 10 * np.log10(np.maximum(power, floor) / floor)
    image = Image.fromarray(np.minimum(level, RANGE).round().astype(np.uint8)[::-1], "P")
    image.putpalette(_palette())
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return _address("image/png", buffer.getvalue())


def _palette() -> bytes:
    colormaps = libraries.load("matplotlib").colormaps

    colours = colormaps["magma"](np.arange(RANGE + 1) / RANGE, bytes=True)
    return bytes(colours[:, :3])


def scale() -> str:
    """Encode the colour scale, from quiet (left) to loud, as a PNG ``data:`` URL."""
    from PIL import Image

    image = Image.fromarray(np.arange(RANGE + 1, dtype=np.uint8)[None], "P")
    image.putpalette(_palette())
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return _address("image/png", buffer.getvalue())


def ticks(end: float, most: int) -> Ticks:
    """Return round numbers from zero to the end of an axis, for its ticks."""
    return Ticks(end, [(place / end, f"{place:g}") for place in round_numbers(0, end, most)])
