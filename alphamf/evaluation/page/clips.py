"""Clips to listen to: selection and players."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

from alphamf.evaluation.page.media import Sound, Ticks, flac, png, read, ticks
from alphamf.evaluation.page.styles import Style
from alphamf.evaluation.page.text import number
from alphamf.evaluation.results import Result
from alphamf.evaluation.runner import audio_name
from alphamf.evaluation.summary import SCORES

_SHOWN = ("si_sdr", "pesq", "estoi")


class Player(NamedTuple):
    """A sound with its picture."""

    label: str  # "clean", "noisy" or the method
    style: Style | None  # Style of the method; None for the clean signal.
    # sound, picture: ``data:`` addresses, of FLAC and PNG; empty where there is no sound.
    sound: str
    picture: str
    # time, frequency: axes of the picture, in s and kHz.
    time: Ticks
    frequency: Ticks
    scores: list[tuple[str, str]]  # Label and value
    note: str  # Why there is no sound


class Sample(NamedTuple):
    """A clip and the output of every method."""

    title: str  # "Best clip" and the like
    result: Result  # Result of the method by which the clip was chosen
    gain: str  # SI-SDR gain of that result, as text
    cut: bool  # Whether only the beginning of the clip is embedded
    players: list[Player]  # Players of the clean, the noisy and all denoised sounds


def choose_clips(results: list[Result], method: str) -> list[tuple[str, Result]]:
    """Return the clips with the best, median and worst SI-SDR gain of a method, if they exist."""
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
    """Read all sounds of a clip, and draw their spectrograms on one colour scale."""
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
