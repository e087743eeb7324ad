"""Clips to listen to: their choice, sounds and spectrograms as ``data:`` URLs, and players."""

import base64
import io
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphamf.audio.file_pieces import DecodingError
from alphamf.audio.reader import open_sound
from alphamf.batch.plot import Spectrogram
from alphamf.errors import AlphaMFError
from alphamf.evaluation.page.charts import round_numbers
from alphamf.evaluation.page.tables import Style, number
from alphamf.evaluation.runner import audio_name
from alphamf.evaluation.summary import SCORES, Result
from alphamf.tools import extras
from alphamf.tools.arrays import Floats
from alphamf.tools.files import printable_name

SECONDS = 15.0
"""Maximum length, in seconds, of the part of a clip that is embedded."""

RANGE = 70
"""Range of the colour scale in dB, below the loudest cell of the clean and the noisy signal."""

_COLUMNS, _ROWS = 400, 160
"""Maximum number of columns and of rows of a spectrogram: the size at which it is shown."""


class Ticks(NamedTuple):
    """The end of an axis that starts at zero, and its ticks: fractions of the axis, with labels."""

    end: float
    marks: list[tuple[float, str]]


class Sound(NamedTuple):
    """The first seconds of a file, and their spectrogram."""

    audio: Floats  # Mean of the channels, shape (samples,)
    rate: int
    power: NDArray[np.float32]  # Spectrogram, shape (bins, columns)
    cut: bool  # Whether the file is longer


def read(path: Path) -> Sound | None:
    """Read the first `SECONDS` of a file as mono; None if unreadable, empty or not finite."""
    try:
        with open_sound(path, printable_name(path)) as file:
            rate = file.samplerate
            block = file.read(int(SECONDS * rate))
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
    """Return a spectrogram, averaged over neighbouring cells to at most the size of the picture."""
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
    """Encode a spectrogram as PNG ``data:`` URL: a colour per decibel below the power `loudest`."""
    floor = max(loudest, 1e-20) * 10 ** (-RANGE / 10)
    level = 10 * np.log10(np.maximum(power, floor) / floor)
    return _coloured(np.minimum(level, RANGE).round()[::-1])


def scale() -> str:
    """Encode the colour scale, from quiet (left) to loud, as a PNG ``data:`` URL."""
    return _coloured(np.arange(RANGE + 1)[None])


def _coloured(decibels: NDArray[Any]) -> str:
    """Encode whole numbers from 0 to `RANGE`, drawn as colours, as a PNG ``data:`` URL."""
    from PIL import Image

    colours = extras.load_library("matplotlib").colormaps["magma"]
    image = Image.fromarray(decibels.astype(np.uint8), "P")
    image.putpalette(bytes(colours(np.arange(RANGE + 1) / RANGE, bytes=True)[:, :3]))
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return _address("image/png", buffer.getvalue())


def ticks(end: float, most: int) -> Ticks:
    """Return the ticks of an axis from zero to `end`, at round numbers: at most `most` + 1."""
    return Ticks(end, [(place / end, f"{place:g}") for place in round_numbers(0, end, most)])


_SHOWN = ("si_sdr", "pesq", "estoi")


class Player(NamedTuple):
    """A sound and its spectrogram, as the page shows them."""

    label: str  # "clean", "noisy" or the method
    style: Style | None  # Style of the method; None if `label` is no method
    # sound, picture: ``data:`` addresses, of FLAC and PNG; empty where there is no sound.
    sound: str
    picture: str
    # time, frequency: axes of the picture, in s and kHz.
    time: Ticks
    frequency: Ticks
    scores: list[tuple[str, str]]  # Heading and value of each score
    note: str  # Why there is no sound; empty if there is one


class Sample(NamedTuple):
    """A clip and the output of every method."""

    title: str  # "Best clip" and the like
    result: Result  # Result of the method by which the clip was chosen
    gain: str  # SI-SDR gain of that result, as text
    cut: bool  # Whether only the beginning of the clip is embedded
    players: list[Player]  # Players of the clean, the noisy and all denoised sounds


def choose_clips(results: list[Result], method: str) -> list[tuple[str, Result]]:
    """Return title and result of a method's best, median and worst clips by SI-SDR gain, if any."""
    known = {
        (result.noisy, result.clean): (gain, result)
        for result in results
        if result.method == method
        and (gain := result.scores.get("si_sdr_gain")) is not None
        and math.isfinite(gain)
    }
    ordered = [result for _, result in sorted(known.values(), key=lambda pair: -pair[0])]
    if len(ordered) < 2:
        return [("The only clip", result) for result in ordered]
    picked = [("Best clip", ordered[0]), ("Worst clip", ordered[-1])]
    if len(ordered) > 2:
        picked.insert(1, ("Median clip", ordered[len(ordered) // 2]))
    return picked


def sample(
    output: Path, title: str, result: Result, results: list[Result], styles: dict[str, Style]
) -> Sample:
    """Return a clip's sounds and spectrograms for the page, the latter on one colour scale."""
    same = {
        each.method: each
        for each in results
        if (each.noisy, each.clean, each.seed) == (result.noisy, result.clean, result.seed)
    }
    names = [
        "clean",
        "noisy",
        *(style.method for style in styles.values() if style.kind != "input"),
    ]
    files = {
        "clean": audio_name("clean", result.clean),
        "noisy": audio_name("noisy", result.noisy),
    } | {method: each.audio for method, each in same.items() if each.audio}
    sounds = {name: read(output / files[name]) for name in names if name in files}
    readable = {name: sound for name, sound in sounds.items() if sound is not None}
    inputs = [sound for name, sound in readable.items() if name in ("clean", "noisy")]
    loudest = max((float(s.power.max()) for s in inputs or readable.values()), default=0.0)
    players = [
        _player(name, styles.get(name), readable.get(name), same.get(name), loudest)
        for name in names
        if name in ("clean", "noisy") or name in same
    ]
    gain = number(result.scores["si_sdr_gain"] or 0.0, SCORES["si_sdr_gain"].decimals, signed=True)
    return Sample(title, result, gain, any(s.cut for s in readable.values()), players)


def _player(
    label: str, style: Style | None, sound: Sound | None, result: Result | None, loudest: float
) -> Player:
    scores = [
        (SCORES[name].heading, number(value, SCORES[name].decimals))
        for name in _SHOWN
        if result is not None and (value := result.scores.get(name)) is not None
    ]
    if sound is None:
        note = (
            result.error if result else None
        ) or "The sound file is missing from the results folder."
        return Player(label, style, "", "", Ticks(0, []), Ticks(0, []), scores, note)
    seconds = len(sound.audio) / sound.rate
    return Player(
        label,
        style,
        flac(sound),
        png(sound.power, loudest),
        ticks(seconds, 5),
        ticks(sound.rate / 2000, 4),
        scores,
        "",
    )
