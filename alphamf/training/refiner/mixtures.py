"""Mixtures of speech and noise that the refiner is trained on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from alphamf.audio.inputs import find
from alphamf.audio.reader import read
from alphamf.audio.resample import resample
from alphamf.errors import AlphaMFError
from alphamf.tools.arrays import Floats
from alphamf.tools.files import shown
from alphamf.training.refiner.noises import noise
from alphamf.training.refiner.shaping import (
    TELEPHONE_RATE,
    Rng,
    at_speed,
    decibels,
    loud_cut,
    pick,
    rms,
    room,
    shape_spectrum,
    telephone,
)

SPEEDS = tuple(range(80, 125, 2))
"""Playing speeds of a voice in per cent, which scale its pitch as well."""

SNR = (-8.0, 15.0)
"""Range of the signal-to-noise ratio in dB."""

PEAK = 0.3
"""Largest magnitude of a mixture."""


def load(names: Sequence[str], rate: int) -> list[Floats]:
    """Read recordings, average their channels and resample them; skip silent ones.

    Parameters
    ----------
    names
        Files, patterns, and folders that are searched recursively for audio files.
    rate
        Sampling rate of the result in Hz.

    Returns
    -------
    list of ndarray
        Shape (samples,) each, float32.

    Raises
    ------
    AlphaMFError
        All files are silent, one cannot be read, or its rate is below `rate`.
    """
    sounds = []
    for path in find(names):
        sound, found = read(path)
        if found < rate:
            raise AlphaMFError(
                f"{shown(path)} has a rate of {found} Hz, and mixtures at {rate} Hz need at least "
                "that"
            )
        if sound.any():
            sounds.append(resample(sound.mean(axis=1), found, rate))
    if not sounds:
        raise AlphaMFError(f"there is nothing but silence in {', '.join(map(shown, names))}")
    return sounds


def mixture(
    rng: Rng, samples: int, rate: int, voices: Sequence[Floats], sounds: Sequence[Floats]
) -> tuple[Floats, Floats]:
    """Draw a mixture: speech, at times filtered, in a room or over a telephone, and noise.

    Parameters
    ----------
    rng
        Source of all random numbers.
    samples, rate
        Length of the mixture, and sampling rate in Hz.
    voices, sounds
        Recordings of speech and of other sounds at `rate`, float32 of shape (n,) each; see
        `alphamf.training.refiner.noises.noise`.

    Returns
    -------
    clean, noisy : ndarray
        Shape (samples,), float32; the clean speech includes the room's or telephone's response.
    """
    voice = at_speed(rng, pick(rng, voices), SPEEDS)
    speech = loud_cut(rng, voice, samples, 0.4).astype(float)
    if rng.random() < 0.5:
        speech = shape_spectrum(rng, speech, rate, 3.0, (-0.6, 0.6))
    if rng.random() < 0.12:
        speech = room(rng, speech, rate)
    rest = noise(rng, samples, rate, voices, sounds)
    wide = rate > TELEPHONE_RATE and rng.random() < 0.85
    if not wide and rng.random() < 0.75:
        line = rng.integers(1 << 30)
        speech = telephone(np.random.default_rng(line), speech, rate)
        if rng.random() < 0.85:  # noise at the speaker's end
            rest = telephone(np.random.default_rng(line), rest, rate)
    rest *= rms(speech) / rms(rest) * decibels(-rng.uniform(*SNR))
    if rng.random() < 0.3:  # a faint noise floor
        rest += rng.standard_normal(samples) * rms(speech) * decibels(-rng.uniform(25, 50))
    noisy = speech + rest
    scale = PEAK / np.abs(noisy).max()
    return (speech * scale).astype(np.float32), (noisy * scale).astype(np.float32)
