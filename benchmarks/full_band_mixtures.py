"""Noisy speech at 48 kHz whose speech and noise go above 8 kHz: 60 mixtures to test, 36 to choose.

Voices are those of ``$ALPHAMF_DATA/corpora/speech-48k``, noises those of ``noise-48k`` and what is
made here: hiss, fans, and plucked strings. Test: each of the ten files of its one label (words of
several voices) in each kind of noise. Dev: 36 files of three labels. Both corpora are Opus, which
ends at 20 kHz; most of the noises were MP3 before, which ends at 16 to 17 kHz.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from alphamf.evaluation.mixing import mixture
from alphamf.tools.arrays import Floats
from benchmarks.front_clips import manifest, mono

RATE = 48000
SNRS = (0, 5, 10, 15)
KINDS = ("hiss", "fan", "street", "babble", "clatter", "music")
APART = 37
"""How far the numbers of a voice's mixtures are from each other: of another kind and level."""

SECONDS = 14
"""Length of the noises that are made here."""

TALKERS = 5
"""Voices of a babble."""

VOICES = {
    "dev": {"kerstin": 8, "philippmatthes": 15, "sh-hadouken": 13},
    "test": {"sh-dracarys": 10},
}
"""How many files of which labels. Of kerstin, who hardly has a sound above 8 kHz, the fewest."""

RECORDED = {
    "dev": {
        "fan": ("shaver", "powertool_harmonics", "drill_small"),
        "street": ("garbage_truck", "heels_on_tile", "rain_on_tent", "rain"),
        "clatter": (
            "scrabble_jar",
            "bottlecap",
            "sodacancrunch",
            "tangle_toy",
            "chair_squeak",
            "winding",
        ),
        "music": ("music_perc", "snare_brush", "shakers_filtered"),
    },
    "test": {
        "fan": ("computer_drill_short", "air_blast"),
        "street": ("street_noise", "boston_subway", "walking_in_trainstation", "rain"),
        "babble": (
            "berlin_der_markt_wird_auf_dem_markpkatz_",
            "berlin_es_ist_windig_menschen_gehen_vorb",
        ),
        "clatter": (
            "coinspin",
            "chip_crush",
            "lettuce",
            "pluck_ruler",
            "pebbles_in_a_box",
            "allen_wrench",
            "scraping_metal_edge",
        ),
        "music": ("spin_cym", "shaker", "street_perc", "cowbell2_small"),
    },
}
"""Labels by split and kind. Every second fan and test babble is a recording; music has one, too."""


class Mixture(NamedTuple):
    """A noisy clip at `RATE`; `clean` and `noisy` have the shape (samples,)."""

    name: str
    kind: str
    snr: int
    clean: Floats
    noisy: Floats


def mixtures(split: str, count: int | None = None, noises: int = 1) -> list[Mixture]:
    """Return the mixtures of a split, the same ones at every call.

    Parameters
    ----------
    split
        ``"dev"``: 36 mixtures of as many files of speech, each in one kind of noise. ``"test"``: 60
        mixtures of ten files in all `KINDS`. Levels of speech are active levels.
    count
        How many of them, from the first on; None: all.
    noises
        How many each file comes in; more than one make that many times as many mixtures.
    """
    voices = _voices(split)
    if split == "test":
        voices = [voice for voice in voices for _ in KINDS]
    return [
        _mixed(split, k + APART * turn, voice)
        for turn in range(noises)
        for k, voice in enumerate(voices[:count])
    ]


def _voices(split: str) -> list[Path]:
    """Return the files of speech in an order that mixes their labels."""
    speech = manifest("speech-48k", split)
    files = [
        path
        for label, count in VOICES[split].items()
        for path in [path for path, _, speaker in speech if speaker == label][:count]
    ]
    return [files[k] for k in np.random.default_rng(48).permutation(len(files))]


def _mixed(split: str, number: int, voice: Path) -> Mixture:
    """Mix a voice with a noise; kind and SNR go round with the number."""
    turn, place = divmod(number, len(KINDS))
    kind, snr = KINDS[place], SNRS[(turn + place) % len(SNRS)]
    rng = np.random.default_rng((48, split == "test", number))
    clean = _sound(voice)
    name, sound = noise(split, kind, turn, voice, rng)
    power = mixture.power(clean, RATE, "active")
    noisy, _ = mixture.mix(clean, power, mixture.noise(sound, RATE), snr, rng)
    return Mixture(f"{number}_{voice.stem}_{name}_{snr}dB", kind, snr, clean, noisy)


def noise(
    split: str, kind: str, turn: int, voice: Path, rng: np.random.Generator
) -> tuple[str, Floats]:
    """Return name and sound of a noise.

    Parameters
    ----------
    split, kind
        Keys of `RECORDED`, or a kind of `KINDS`.
    turn
        How many noises of the kind came before.
    voice
        File of the speech, which is not among the talkers of a babble.
    rng
        Of what is made here.
    """
    labels = RECORDED[split].get(kind, ())
    made = kind == "hiss" or (kind in ("fan", "babble") and (turn % 2 == 0 or not labels))
    if made:
        if kind == "babble":
            return "talkers", _babble(split, voice, rng)
        return f"made-{kind}", _hiss(rng) if kind == "hiss" else _fan(rng)
    label = labels[(turn // 2 if kind in ("fan", "babble") else turn) % len(labels)]
    files = [path for path, _, each in manifest("noise-48k", split) if each == label]
    sound = _sound(files[turn % len(files)])
    if kind == "music":
        played = np.resize(sound / sound.std(), SECONDS * RATE)
        sound = _strings(rng) + np.float32(0.5) * played
    return label, sound


@cache
def _sound(path: Path) -> Floats:
    return np.asarray(mono(path, RATE), np.float32)


def _coloured(rng: np.random.Generator, gain: Floats) -> Floats:
    """Return Gaussian noise with a gain at each frequency of its transform."""
    spectrum = np.fft.rfft(rng.standard_normal(SECONDS * RATE)) * gain
    sound = np.fft.irfft(spectrum)
    return (sound / sound.std()).astype(np.float32)


def _frequencies() -> Floats:
    return np.fft.rfftfreq(SECONDS * RATE, 1 / RATE)


def _hiss(rng: np.random.Generator) -> Floats:
    """Return white to pink noise: -4 to +1 dB an octave above 50 Hz."""
    slope = rng.uniform(-4, 1)
    return _coloured(rng, np.maximum(_frequencies(), 50) ** (slope / 20 / np.log10(2)))


def _fan(rng: np.random.Generator) -> Floats:
    """Return the hum of blades in a wind that falls by 3 to 6 dB an octave above 200 Hz."""
    slope, blades = rng.uniform(-6, -3), rng.uniform(70, 250)
    wind = _coloured(rng, np.maximum(_frequencies(), 200) ** (slope / 20 / np.log10(2)))
    time = np.arange(SECONDS * RATE) / RATE
    tones = sum(
        np.sin(2 * np.pi * (k * blades * time + rng.random())) / k**1.5 for k in range(1, 9)
    )
    return (wind + rng.uniform(0.1, 0.6) * tones).astype(np.float32)


def _babble(split: str, voice: Path, rng: np.random.Generator) -> Floats:
    """Return other voices of the split, all at one level."""
    others = [path for path, _, _ in manifest("speech-48k", split) if path != voice]
    sounds = [_sound(others[k]) for k in rng.permutation(len(others))[:TALKERS]]
    loud = [sound / np.float32(np.sqrt(mixture.power(sound, RATE, "active"))) for sound in sounds]
    return np.sum([np.resize(sound, SECONDS * RATE) for sound in loud], axis=0, dtype=np.float32)


def _strings(rng: np.random.Generator) -> Floats:
    """Return plucked strings, four notes a second: Karplus and Strong's, at a level of one."""
    sound = np.zeros((SECONDS + 2) * RATE)
    for start in range(0, SECONDS * RATE, RATE // 4):
        period = round(RATE / (110 * 2 ** (rng.choice([0, 3, 5, 7, 10, 12, 15, 19]) / 12)))
        turn, last = rng.uniform(-1, 1, period), 0.0
        for place in range(start, start + RATE, period):
            sound[place : place + period] += turn
            turn, last = 0.498 * (turn + np.concatenate([[last], turn[:-1]])), turn[-1]
    sound = sound[: SECONDS * RATE]
    return (sound / sound.std()).astype(np.float32)
