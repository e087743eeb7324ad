"""Clips to listen to: their sound and spectrograms, as they stand in the page."""

from __future__ import annotations

import base64
import io
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphamf.evaluation.page.looks import Look
from alphamf.evaluation.page.text import number
from alphamf.evaluation.plot import Spectrogram
from alphamf.evaluation.runner import Result, audio_name
from alphamf.evaluation.summary import SCORES
from alphamf.tools.arrays import Floats
from alphamf.tools.files import system_name

SECONDS = 15.0
"""Most of a clip that is embedded."""

RANGE = 70
"""Decibels of the colour scale, below the loudest cell of the clean and the noisy signal."""

_COLUMNS, _ROWS = 400, 160
"""Most cells of a spectrogram: it is shown no larger."""

_SHOWN = ("si_sdr", "pesq", "estoi")


class Ticks(NamedTuple):
    """Numbers on an axis: its end, and the places of the marks as shares of it with their text."""

    end: float
    marks: list[tuple[float, str]]


class Player(NamedTuple):
    """A sound with its picture.

    Attributes
    ----------
    label
        "clean", "noisy" or the method.
    look
        Of the method; None for the clean signal.
    sound, picture
        ``data:`` addresses, of FLAC and PNG; empty where there is no sound.
    time, frequency
        Axes of the picture, in s and kHz.
    scores
        Label and value.
    note
        Why there is no sound.
    """

    label: str
    look: Look | None
    sound: str
    picture: str
    time: Ticks
    frequency: Ticks
    scores: list[tuple[str, str]]
    note: str


class Sample(NamedTuple):
    """A clip with all that was made of it; `cut` tells that only its beginning is here."""

    title: str
    result: Result
    gain: str
    cut: bool
    players: list[Player]


class _Sound(NamedTuple):
    audio: Floats
    rate: int
    power: NDArray[np.float32]
    cut: bool


def chosen(results: list[Result], method: str) -> list[tuple[str, Result]]:
    """Return the best, median and worst clip by a method's SI-SDR gain, or as many as there are."""
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
    output: Path, title: str, result: Result, results: list[Result], looks: dict[str, Look]
) -> Sample:
    """Read what was made of a clip and draw it, all spectrograms on one scale of colours.

    Parameters
    ----------
    output
        Folder that holds the sounds, where `Result.audio` and `audio_name` say.
    title, result
        As from `chosen`.
    """
    same = {
        each.method: each
        for each in results
        if (each.noisy, each.clean, each.seed) == (result.noisy, result.clean, result.seed)
    }
    names = ["clean", "noisy", *(look.method for look in looks.values() if look.kind != "input")]
    files = {
        "clean": audio_name("clean", result.clean),
        "noisy": audio_name("noisy", result.noisy),
    } | {method: each.audio for method, each in same.items() if each.audio}
    sounds = {name: _read(output / files[name]) for name in names if name in files}
    heard = {name: sound for name, sound in sounds.items() if sound is not None}
    inputs = [sound for name, sound in heard.items() if name in ("clean", "noisy")]
    loudest = max((float(s.power.max()) for s in inputs or heard.values()), default=0.0)
    players = [
        _player(name, looks.get(name), heard.get(name), same.get(name), loudest)
        for name in names
        if name in ("clean", "noisy") or name in same
    ]
    gain = number(result.scores["si_sdr_gain"] or 0.0, SCORES["si_sdr_gain"].decimals, signed=True)
    return Sample(title, result, gain, any(s.cut for s in heard.values()), players)


def _read(path: Path) -> _Sound | None:
    """Return the first seconds of a file, its channels averaged, or None without a sound."""
    import soundfile

    try:
        with soundfile.SoundFile(system_name(path)) as file:
            rate = file.samplerate
            block = file.read(int(SECONDS * rate), dtype="float32", always_2d=True)
            cut = file.frames > len(block)
    except (OSError, soundfile.LibsndfileError):
        return None
    if not len(block) or not np.isfinite(block).all():
        return None
    audio: Floats = block.mean(1)
    spectrogram = Spectrogram(len(audio), rate)
    spectrogram.add(audio[:, None])
    return _Sound(audio, rate, _smaller(spectrogram.power()), cut)


def _smaller(power: NDArray[np.float32]) -> NDArray[np.float32]:
    """Average neighbouring cells until the picture is no larger than it is shown."""
    for axis, most in enumerate((_ROWS, _COLUMNS)):
        size = power.shape[axis]
        if size > most:
            start = np.arange(most) * size // most
            width = np.diff(start, append=size)
            total = np.add.reduceat(power, start, axis)
            power = (total / (width[:, None] if axis == 0 else width)).astype(np.float32)
    return power


def _player(
    label: str, look: Look | None, sound: _Sound | None, result: Result | None, loudest: float
) -> Player:
    scores = [
        (SCORES[name].heading, number(value, SCORES[name].decimals))
        for name in _SHOWN
        if result is not None and (value := result.scores.get(name)) is not None
    ]
    if sound is None:
        note = (result.error if result else None) or "The sound is not in the folder of results."
        return Player(label, look, "", "", Ticks(0, []), Ticks(0, []), scores, note)
    seconds = len(sound.audio) / sound.rate
    return Player(
        label,
        look,
        _address("audio/flac", _flac(sound)),
        _address("image/png", _png(sound.power, loudest)),
        _ticks(seconds, 5),
        _ticks(sound.rate / 2000, 4),
        scores,
        "",
    )


def _address(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _flac(sound: _Sound) -> bytes:
    import soundfile

    buffer = io.BytesIO()
    soundfile.write(buffer, sound.audio, sound.rate, "PCM_16", format="FLAC")
    return buffer.getvalue()


def _png(power: NDArray[np.float32], loudest: float) -> bytes:
    """Draw power with one colour per decibel: a palette keeps the page small."""
    from PIL import Image

    floor = max(loudest, 1e-20) * 10 ** (-RANGE / 10)
    level = 10 * np.log10(np.maximum(power, floor) / floor)
    image = Image.fromarray(np.minimum(level, RANGE).round().astype(np.uint8)[::-1], "P")
    image.putpalette(_palette())
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def _palette() -> bytes:
    from matplotlib import colormaps

    colours = colormaps["magma"](np.arange(RANGE + 1) / RANGE, bytes=True)
    return bytes(colours[:, :3])


def scale() -> str:
    """Return the scale of colours, from quiet (left) to loud, as an address of a picture."""
    from PIL import Image

    image = Image.fromarray(np.arange(RANGE + 1, dtype=np.uint8)[None], "P")
    image.putpalette(_palette())
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return _address("image/png", buffer.getvalue())


def _ticks(end: float, most: int) -> Ticks:
    """Return round numbers from zero to the end of an axis."""
    from matplotlib.ticker import MaxNLocator

    places = MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]).tick_values(0, end)
    marks = [(float(place / end), f"{place:g}") for place in places if place <= end * (1 + 1e-9)]
    return Ticks(end, marks)
