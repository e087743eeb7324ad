"""Training clips of both stages: a mixture, and what alpha-MF and the refiner made of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from alphamf.audio import stft
from alphamf.denoising.gain import refined
from alphamf.denoising.posterior import sample_posterior
from alphamf.denoising.settings import PRESETS, Settings
from alphamf.learnt.dictionary import Dictionary
from alphamf.learnt.network import SILENT
from alphamf.learnt.refiner import Refiner
from alphamf.tools.arrays import Floats
from alphamf.training.refiner.mixtures import mixture
from alphamf.training.refiner.shaping import Rng, rms

SHORT_CHAIN = Settings(sampler="em", warm_up=0, steps=15, keep=3, thin=1)
"""EM that stops early: cheap, so that there may be many mixtures."""

CHAINS, PROBABILITIES = (SHORT_CHAIN, PRESETS["fast"], PRESETS["balanced"]), (0.5, 0.4, 0.1)
"""Settings of the chain of a clip, and the probability of each."""

RESIDUAL_PROBABILITY, MAX_RESIDUAL = 0.4, 0.25
"""Share of the second-stage clips in which some of what the refiner removed is added again, and
the largest fraction of it that is."""


class FirstStageClip(NamedTuple):
    """A training clip of the refiner, in half precision.

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


class SecondStageClip(NamedTuple):
    """A training clip of the second stage, in half precision.

    Attributes
    ----------
    noisy, first, clean
        The mixture, the first stage's output, and the speech, in units of the mixture's root mean
        square; shape (samples,).
    """

    noisy: Any
    first: Any
    clean: Any


TrainingClip = FirstStageClip | SecondStageClip


def first_stage_clip(
    seed: int,
    number: int,
    samples: int,
    dictionary: Dictionary,
    voices: Sequence[Floats],
    sounds: Sequence[Floats],
) -> FirstStageClip:
    """Make clip `number` of a seed; it does not depend on how many clips there are.

    Parameters
    ----------
    seed, number
        Seed of the set of clips, and index of the clip in it.
    samples
        Length of the clip, at the dictionary's rate.
    dictionary
        Of alpha-MF.
    voices, sounds
        Recordings as `alphamf.training.refiner.mixtures.mixture` takes them.

    Returns
    -------
    FirstStageClip

    Raises
    ------
    AlphaMFError
        The chain diverged.
    """
    rng = np.random.default_rng([seed, number])
    clean, noisy = mixture(rng, samples, dictionary.rate, voices, sounds)
    return pack(clean, noisy, dictionary, _chain(rng), (seed, number))


def second_stage_clip(
    seed: int,
    number: int,
    samples: int,
    dictionary: Dictionary,
    refiner: Refiner,
    voices: Sequence[Floats],
    sounds: Sequence[Floats],
) -> SecondStageClip:
    """Make clip `number` of a seed, denoised by alpha-MF and `refiner`.

    In some clips part of the removed noise is added again: with noises unlike those of training
    the refiner leaves more of it.

    Parameters
    ----------
    seed, number
        Seed of the set of clips, and index of the clip in it.
    samples
        Length of the clip, at the dictionary's rate.
    dictionary, refiner
        Of the first stage.
    voices, sounds
        Recordings as `alphamf.training.refiner.mixtures.mixture` takes them.

    Returns
    -------
    SecondStageClip

    Raises
    ------
    AlphaMFError
        The chain diverged.
    """
    rng = np.random.default_rng([seed, number])
    clean, noisy = mixture(rng, samples, dictionary.rate, voices, sounds)
    settings = _chain(rng)
    spectrum = stft.forward(noisy, dictionary.frame)
    power = np.abs(spectrum) ** 2
    posterior = sample_posterior(power, dictionary, settings, (seed, number))
    gain, _ = refined(power, posterior, refiner)
    first = stft.inverse(spectrum * gain, dictionary.frame, samples)
    if rng.random() < RESIDUAL_PROBABILITY:
        first += rng.uniform(0, MAX_RESIDUAL) * (noisy - first)
    unit = rms(noisy)
    return SecondStageClip(*((each / unit).astype(np.float16) for each in (noisy, first, clean)))


def pack(
    clean: Floats,
    noisy: Floats,
    dictionary: Dictionary,
    settings: Settings,
    stream: tuple[int, int],
) -> FirstStageClip:
    """Run alpha-MF on a mixture, and return the posterior with both spectra.

    Parameters
    ----------
    clean, noisy
        Speech and mixture, shape (samples,), float32, at the dictionary's rate.
    dictionary, settings
        Of alpha-MF.
    stream
        Seed and stream number of the chain.

    Returns
    -------
    FirstStageClip

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
    return FirstStageClip(*(array.astype(np.float16) for array in arrays))


def _chain(rng: Rng) -> Settings:
    """Draw the settings of a clip's chain."""
    return CHAINS[rng.choice(len(CHAINS), p=PROBABILITIES)]
