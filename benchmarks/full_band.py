"""Noisy speech at 48 kHz whose speech and noise go above 8 kHz, and its scores from 8 to 20 kHz.

Voices are those of ``speech-48k``, noises those of ``noise-48k`` and made here: hiss, fans, babble,
and plucked strings. Levels of STFT frames are in dB relative to the active level of the clean
speech. A frame is *active* if the clean speech has `ACTIVE` dB or more from 8 to 20 kHz. It is a
*pause* if neither it nor its neighbours are active, and the speech has less than `PAUSE` dB over
all frequencies.
"""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphamf.audio.speech_level import active_power
from alphamf.audio.stft import Complexes, Frame, forward, sqrt_hann
from alphamf.evaluation.mixing import mixture
from alphamf.scores.score import si_sdr
from alphamf.tools.arrays import Floats
from benchmarks.clips import Clip, coloured, manifest, mixed, mono

RATE = 48000
SNRS = (0, 5, 10, 15)
KINDS = ("hiss", "fan", "street", "babble", "clatter", "music")
SECONDS = 14  # Length of the noises that are made here
TALKERS = 5  # Voices of a babble

# Number of files by speaker. Few are of kerstin, who has hardly any sound above 8 kHz.
VOICES = {
    "dev": {"kerstin": 8, "philippmatthes": 15, "sh-hadouken": 13},
    "test": {"sh-dracarys": 10},
}

# Labels by split and kind. Every second fan and test babble is a recording; music has one, too.
RECORDED = {
    "dev": {
        "fan": "shaver powertool_harmonics drill_small",
        "street": "garbage_truck heels_on_tile rain_on_tent rain",
        "clatter": "scrabble_jar bottlecap sodacancrunch tangle_toy chair_squeak winding",
        "music": "music_perc snare_brush shakers_filtered",
    },
    "test": {
        "fan": "computer_drill_short air_blast",
        "street": "street_noise boston_subway walking_in_trainstation rain",
        "babble": "berlin_der_markt_wird_auf_dem_markpkatz_ "
        "berlin_es_ist_windig_menschen_gehen_vorb",
        "clatter": "coinspin chip_crush lettuce pluck_ruler pebbles_in_a_box allen_wrench "
        "scraping_metal_edge",
        "music": "spin_cym shaker street_perc cowbell2_small",
    },
}


def mixtures(split: str, count: int | None = None) -> list[Clip]:
    """Return the first `count` mixtures of a split (None: all), the same ones at every call.

    ``dev``: 36 mixtures of 36 files of speech. ``test``: 60, of ten files in each of `KINDS`.
    """
    voices = _voices(split)
    if split == "test":
        voices = [voice for voice in voices for _ in KINDS]
    return [_mixed(split, k, voice) for k, voice in enumerate(voices[:count])]


def _voices(split: str) -> list[Path]:
    """Return the files of speech in an order that mixes their labels."""
    speech = manifest("speech-48k", split)
    files = [
        path
        for label, count in VOICES[split].items()
        for path in [path for path, _, speaker in speech if speaker == label][:count]
    ]
    return [files[k] for k in np.random.default_rng(48).permutation(len(files))]


def _mixed(split: str, number: int, voice: Path) -> Clip:
    """Mix a voice with a noise, whose kind and SNR depend on the mixture's number."""
    turn, place = divmod(number, len(KINDS))
    kind, snr = KINDS[place], SNRS[(turn + place) % len(SNRS)]
    rng = np.random.default_rng((48, split == "test", number))
    clean = _sound(voice)
    name, sound = noise(split, kind, turn, voice, rng)
    noisy = mixed(clean, sound, RATE, snr, rng, "active")
    return Clip(f"{number}_{voice.stem}_{name}_{snr}dB", RATE, clean, noisy)


def noise(
    split: str, kind: str, turn: int, voice: Path, rng: np.random.Generator
) -> tuple[str, Floats]:
    """Return name and sound of noise number `turn` of its kind; babble leaves out `voice`."""
    labels = RECORDED[split].get(kind, "").split()
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


def _falling(rng: np.random.Generator, low: float, slope: float) -> Floats:
    """Return noise of deviation one that changes by `slope` dB per octave above `low` Hz."""
    sound = coloured(rng, SECONDS * RATE, RATE, low, slope / 20 / np.log10(2))
    return (sound / sound.std()).astype(np.float32)


def _hiss(rng: np.random.Generator) -> Floats:
    """Return noise that changes by -4 to +1 dB per octave above 50 Hz."""
    return _falling(rng, 50, rng.uniform(-4, 1))


def _fan(rng: np.random.Generator) -> Floats:
    """Return the hum of blades in a wind that falls by 3 to 6 dB per octave above 200 Hz."""
    slope, blades = rng.uniform(-6, -3), rng.uniform(70, 250)
    wind = _falling(rng, 200, slope)
    time = np.arange(SECONDS * RATE) / RATE
    tones = sum(
        np.sin(2 * np.pi * (k * blades * time + rng.random())) / k**1.5 for k in range(1, 9)
    )
    return (wind + rng.uniform(0.1, 0.6) * tones).astype(np.float32)


def _babble(split: str, voice: Path, rng: np.random.Generator) -> Floats:
    """Return the sum of `TALKERS` other voices of the split, all at one level."""
    others = [path for path, _, _ in manifest("speech-48k", split) if path != voice]
    sounds = [_sound(others[k]) for k in rng.permutation(len(others))[:TALKERS]]
    loud = [sound / np.float32(np.sqrt(mixture.power(sound, RATE, "active"))) for sound in sounds]
    return np.sum([np.resize(sound, SECONDS * RATE) for sound in loud], axis=0, dtype=np.float32)


def _strings(rng: np.random.Generator) -> Floats:
    """Return plucked strings (Karplus and Strong), four notes per second, of deviation one."""
    sound = np.zeros((SECONDS + 2) * RATE)
    for start in range(0, SECONDS * RATE, RATE // 4):
        period = round(RATE / (110 * 2 ** (rng.choice([0, 3, 5, 7, 10, 12, 15, 19]) / 12)))
        turn, last = rng.uniform(-1, 1, period), 0.0
        for place in range(start, start + RATE, period):
            sound[place : place + period] += turn
            turn, last = 0.498 * (turn + np.concatenate([[last], turn[:-1]])), turn[-1]
    sound = sound[: SECONDS * RATE]
    return (sound / sound.std()).astype(np.float32)


FRAME = Frame(1024, 512)
WINDOW = sqrt_hann(FRAME.n_fft) ** 2
LOW, HIGH, WIDTH = 8000, 20000, 1000  # The band in Hz, and the width of its parts

FLOOR, ACTIVE, PAUSE = -50.0, -45.0, -30.0
AROUND = 2  # Neighbours on each side of a frame of a pause that must not be active
SEGMENTAL = (-10.0, 35.0)  # Least and largest SNR of a frame in dB

QUIETEST, NOISIEST = -70.0, -40.0
"""Levels from 8 to 20 kHz in dB: lower ones than the first count as the first; the noisy sound must
have the second or more, or the noise that is left is not scored."""

SIBILANT = 6000  # Frequency in Hz above which a sibilant has most of its energy
MOST = 20.0  # Largest change of level of a frame in dB
FEWEST = 3  # Minimum number of frames for a score

Flags = NDArray[np.bool_]


# Headings, and decimals; all but the first from 8 to 20 kHz. docs/full-band.md explains them.
SCORES = {
    "SI-SDR dB": 2,
    "segmental SNR dB": 2,
    "log-spectral distance dB": 2,
    "left in pauses dB": 2,
    "sibilants dB": 2,
}


def scores(clip: Clip, found: Floats) -> list[float]:
    """Return `SCORES` of a denoised clip at 48 kHz; NaN where it has too few frames of the kind."""
    power = active_power(clip.clean, RATE)
    scale = np.float32(1 / np.sqrt(power * (WINDOW**2).sum() * FRAME.n_fft / 2))
    speech, noisy, output = (
        forward(np.asarray(sound * scale, np.float32), FRAME, WINDOW)
        for sound in (clip.clean, clip.noisy, found)
    )
    kinds = frames(speech)
    return [
        si_sdr(clip.clean, found),
        segmental_snr(speech, output, kinds.active),
        distance(speech, output, kinds.active),
        left(noisy, output, kinds.pause),
        change(speech, output, kinds.sibilant),
    ]


class Frames(NamedTuple):
    """Whether each frame is active, a pause, or a sibilant, shape (frames,) each."""

    active: Flags
    pause: Flags
    sibilant: Flags


def frames(speech: Complexes) -> Frames:
    """Return the kinds of the frames of clean speech, shape (bins, frames), by its levels."""
    active = levels(speech) >= ACTIVE
    quiet = np.convolve(active, np.ones(2 * AROUND + 1), "same") == 0
    soft = levels(speech, 0, RATE / 2) < PAUSE
    hisses = levels(speech, SIBILANT, RATE / 2) > levels(speech, 0, SIBILANT)
    return Frames(active, quiet & soft, active & hisses)


def levels(spectra: Complexes, low: float = LOW, high: float = HIGH) -> Floats:
    """Return the level of each frame between two frequencies in Hz, in dB."""
    return 10 * np.log10(np.maximum(_energy(spectra, low, high), 1e-20))


def _energy(spectra: Complexes, low: float, high: float) -> Floats:
    first, end = (round(edge / RATE * FRAME.n_fft) for edge in (low, high))
    return (np.abs(spectra[first:end]) ** 2).sum(axis=0)


def segmental_snr(speech: Complexes, output: Complexes, active: Flags) -> float:
    """Return the mean ratio of speech to error in active frames in dB, within `SEGMENTAL`."""
    ratio = levels(speech) - levels(speech - output)
    return _mean(np.clip(ratio, *SEGMENTAL)[active])


def distance(speech: Complexes, output: Complexes, active: Flags) -> float:
    """Return the mean log-spectral distance in dB of active frames, in bands with speech."""
    bands = [(low, low + WIDTH) for low in range(LOW, HIGH, WIDTH)]
    wanted, found = (
        np.maximum([levels(each, *band) for band in bands], FLOOR) for each in (speech, output)
    )
    filled = np.flatnonzero((wanted > FLOOR).sum(axis=1) >= FEWEST)
    if not len(filled):
        return float("nan")
    apart = (wanted - found)[: filled[-1] + 1, active]
    return _mean(np.sqrt((apart**2).mean(axis=0)))


def left(mixed: Complexes, output: Complexes, where: Flags) -> float:
    """Return the level of frames relative to the noisy sound, in dB; NaN if that is too quiet."""
    if where.sum() < FEWEST:
        return float("nan")
    before, after = (_together(each, where) for each in (mixed, output))
    return after - before if before >= NOISIEST else float("nan")


def change(speech: Complexes, output: Complexes, where: Flags) -> float:
    """Return the mean change of level of some frames in dB, limited to `MOST` in each."""
    apart = np.clip(levels(output) - levels(speech), -MOST, MOST)
    return _mean(apart[where])


def _together(spectra: Complexes, where: Flags) -> float:
    """Return the level from 8 to 20 kHz of some frames' mean energy in dB, at least `QUIETEST`."""
    energy = max(_energy(spectra, LOW, HIGH)[where].mean(), 1e-20)
    return max(QUIETEST, float(10 * np.log10(energy)))


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) >= FEWEST else float("nan")
