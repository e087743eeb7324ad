"""Sounds for the tests of mixing, and measurements of the mixtures."""

import csv
import math
from functools import partial
from pathlib import Path

import numpy as np
import soundfile

from alphamf.audio.speech_level import active_power
from tests.support.commands import run

RATE = 8000


def decibels(power):
    return 10 * math.log10(power)


def babble(seconds, seed=0, rate=RATE):
    """Noise in syllables of 0.1 to 0.3 s, of different levels, without pauses."""
    rng = np.random.default_rng(seed)
    samples = round(seconds * rate)
    points = np.arange(0, samples + rate, rate // 5)
    level = np.interp(np.arange(samples), points, rng.uniform(0.2, 1, len(points)))
    return (0.1 * level * rng.standard_normal(samples)).astype(np.float32)


mix = partial(run, "mix")


def sound(path, seconds=1.0, scale=0.05, seed=0, rate=RATE, channels=1, **options) -> Path:
    """Write noise that grows and falls once a second."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = round(seconds * rate), channels
    swell = 1 + 0.8 * np.sin(np.arange(shape[0]) * 2 * np.pi / rate)[:, None]
    audio = scale * swell * np.random.default_rng(seed).standard_normal(shape)
    soundfile.write(path, audio, rate, **options)
    return path


def table(folder="out") -> list[dict[str, str]]:
    with open(Path(folder, "pairs.csv"), newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def contents(folder="out") -> dict[str, bytes]:
    """Return the audio of a corpus by name."""
    found = sorted(Path(folder).rglob("*.flac"))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def pair(row, folder="out"):
    clean, rate = soundfile.read(Path(folder, row["clean"]))
    noisy, other = soundfile.read(Path(folder, row["noisy"]))
    assert rate == other and clean.shape == noisy.shape
    return clean, noisy, rate


def ratio(row, folder="out"):
    """Measure the ratio of a mixture from its files."""
    clean, noisy, rate = pair(row, folder)
    power = active_power(clean, rate) if row["level"] == "active" else clean.var()
    return 10 * math.log10(power / np.square(noisy - clean).mean())


def material():
    """Write two recordings, and three noises of two kinds."""
    sound("speech/a.wav", 1.0, seed=1)
    sound("speech/b.flac", 0.7, seed=2)
    for k in range(2):
        sound(f"noise/rain/{k}.wav", 3, seed=10 + k)
    sound("noise/fan.wav", 0.4, seed=20)
