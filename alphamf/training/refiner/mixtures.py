"""Clean and noisy speech to learn the refiner from, and what alpha-MF finds out about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from alphamf.audio import stft
from alphamf.audio.inputs import find
from alphamf.audio.reader import read
from alphamf.audio.resample import resample
from alphamf.audio.stft import Floats
from alphamf.denoising.gain import refined
from alphamf.denoising.posterior import sample_posterior
from alphamf.denoising.settings import PRESETS, Settings
from alphamf.errors import AlphaMFError
from alphamf.learnt.dictionary import Dictionary
from alphamf.learnt.network import SILENT
from alphamf.learnt.refiner import Refiner
from alphamf.tools.files import shown
from alphamf.training.refiner.noises import noise
from alphamf.training.refiner.shaping import (
    NARROW,
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
"""Per cent of a voice's speed, and with it of its pitch."""

SNR = (-8.0, 15.0)
"""Range of the signal-to-noise ratio in dB."""

PEAK = 0.3
"""Of the noisy sound."""

HASTY = replace(PRESETS["fast"], steps=15, keep=3, thin=1)
"""``fast`` in a quarter of the steps."""

READERS, SHARES = (HASTY, PRESETS["fast"], PRESETS["balanced"]), (0.5, 0.4, 0.1)
"""Who reads which share of the clips. ``fast`` makes three in the time of one of ``balanced``,
and a hasty one nine: more kinds of mixtures are worth more than the better look at each."""


LEAKY, LEAK = 0.4, 0.25
"""Share of the clips for second looks of which some is put back that the first look took away, and
the most that is."""


class Clip(NamedTuple):
    """What is learnt from a clip, in half precision.

    Attributes
    ----------
    noisy, clean
        Spectra, in units in which the noisy one's mean power is one: real and imaginary part,
        shape (2, bins, frames).
    gain, gain_std
        Posterior mean and standard deviation of the speech's gain, shape (bins, frames).
    log_speech, log_noise
        Logs of the posterior means of both variances, in the same units, shape (bins, frames).
    """

    noisy: Any
    clean: Any
    gain: Any
    gain_std: Any
    log_speech: Any
    log_noise: Any


class Look(NamedTuple):
    """What a second look is learnt from, in half precision.

    Attributes
    ----------
    noisy, first, clean
        The sound, what the first look made of it, and the speech, in units of the sound's root
        mean square; shape (samples,).
    """

    noisy: Any
    first: Any
    clean: Any


def load(names: Sequence[str], rate: int) -> list[Floats]:
    """Read sounds whole, one channel each at `rate`; those that are silent are passed over.

    Parameters
    ----------
    names
        Files, patterns, and folders that are searched to the bottom for audio files.

    Returns
    -------
    list of ndarray
        Shape (samples,) each, float32.

    Raises
    ------
    AlphaMFError
        There is nothing but silence, a file cannot be read, or its rate is below `rate`.
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
    """Make a clean and a noisy sound: speech, some of it filtered, in a room or over a telephone.

    Parameters
    ----------
    rng
        Where all is drawn from.
    samples, rate
        Length, and samples per second.
    voices, sounds
        Recordings of speech, and of other sounds, for `alphamf.training.refiner.noises.noise`.

    Returns
    -------
    clean, noisy : ndarray
        Shape (samples,), float32; what a room or a telephone does to speech counts as clean.
    """
    voice = at_speed(rng, pick(rng, voices), SPEEDS)
    speech = loud_cut(rng, voice, samples, 0.4).astype(float)
    if rng.random() < 0.5:
        speech = shape_spectrum(rng, speech, rate, 3.0, (-0.6, 0.6))
    if rng.random() < 0.12:
        speech = room(rng, speech, rate)
    rest = noise(rng, samples, rate, voices, sounds)
    wide = rate > NARROW and rng.random() < 0.85
    if not wide and rng.random() < 0.75:
        line = rng.integers(1 << 30)
        speech = telephone(np.random.default_rng(line), speech, rate)
        if rng.random() < 0.85:  # the noise is the speaker's, and not the listener's
            rest = telephone(np.random.default_rng(line), rest, rate)
    rest *= rms(speech) / rms(rest) * decibels(-rng.uniform(*SNR))
    if rng.random() < 0.3:  # a faint floor
        rest += rng.standard_normal(samples) * rms(speech) * decibels(-rng.uniform(25, 50))
    noisy = speech + rest
    scale = PEAK / np.abs(noisy).max()
    return (speech * scale).astype(np.float32), (noisy * scale).astype(np.float32)


def clip(
    seed: int,
    number: int,
    samples: int,
    dictionary: Dictionary,
    voices: Sequence[Floats],
    sounds: Sequence[Floats],
) -> Clip:
    """Make clip `number` of a seed, the same one however many there are."""
    rng = np.random.default_rng([seed, number])
    clean, noisy = mixture(rng, samples, dictionary.rate, voices, sounds)
    settings = READERS[rng.choice(len(READERS), p=SHARES)]
    return pack(clean, noisy, dictionary, settings, (seed, number))


def look(
    seed: int,
    number: int,
    samples: int,
    dictionary: Dictionary,
    refiner: Refiner,
    voices: Sequence[Floats],
    sounds: Sequence[Floats],
) -> Look:
    """Make clip `number` of a seed, and have `refiner` look at it first.

    In some, the first look left more of the noise than it did: with noises that it was not taught
    it will.
    """
    rng = np.random.default_rng([seed, number])
    clean, noisy = mixture(rng, samples, dictionary.rate, voices, sounds)
    settings = READERS[rng.choice(len(READERS), p=SHARES)]
    spectrum = stft.forward(noisy, dictionary.frame)
    power = np.abs(spectrum) ** 2
    posterior = sample_posterior(power, dictionary, settings, (seed, number))
    gain, _ = refined(power, posterior, refiner)
    first = stft.inverse(spectrum * gain, dictionary.frame, samples)
    if rng.random() < LEAKY:
        first += rng.uniform(0, LEAK) * (noisy - first)
    unit = rms(noisy)
    return Look(*((each / unit).astype(np.float16) for each in (noisy, first, clean)))


def pack(
    clean: Floats,
    noisy: Floats,
    dictionary: Dictionary,
    settings: Settings,
    stream: tuple[int, int],
) -> Clip:
    """Let alpha-MF denoise a sound, and keep what it found out beside both spectra.

    Parameters
    ----------
    clean, noisy
        Shape (samples,), float32, at the dictionary's rate.
    stream
        Seed and stream number of the chain.

    Raises
    ------
    AlphaMFError
        The chain diverged.
    """
    spectra = [stft.forward(sound, dictionary.frame) for sound in (noisy, clean)]
    power = np.abs(spectra[0]) ** 2
    level = power.mean()
    posterior = sample_posterior(power, dictionary, settings, stream)
    scaled = [spectrum / np.sqrt(level) for spectrum in spectra]
    arrays = [np.stack([spectrum.real, spectrum.imag]) for spectrum in scaled]
    arrays += [posterior.gain, posterior.gain_std]
    arrays += [np.log(each / level + SILENT) for each in (posterior.speech, posterior.noise)]
    return Clip(*(array.astype(np.float16) for array in arrays))
