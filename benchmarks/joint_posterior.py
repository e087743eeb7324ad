"""The posterior of two channels as one alpha-MF (`benchmarks.joint`), and what linking makes of it.

The matrices are those of a first estimate. The speech's variances in their basis are then learnt
on, as a frequency response (`alphamf.denoising.channel`), and the noise's, as its W.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np

from alphamf.audio.stft import Complexes
from alphamf.denoising import spatial
from alphamf.denoising.channel import Channel
from alphamf.denoising.estimate import estimate_speech, sample_gains
from alphamf.denoising.grids import grid_of
from alphamf.denoising.posterior import VARIANCE_THIN, Posterior
from alphamf.denoising.sampling import SPEECH_LEVEL, bin_levels, warm_up
from alphamf.denoising.settings import Settings, kernel
from alphamf.denoising.weights import find
from alphamf.factorization import tiles
from alphamf.factorization.alpha_mf import AlphaMF, Source
from alphamf.factorization.cells import TINY
from alphamf.factorization.stacking import stack, unstack
from alphamf.inference.chain import run
from alphamf.inference.random import START, Key, generator
from alphamf.inference.records import Mean
from alphamf.learnt.dictionary import Dictionary
from alphamf.tools.arrays import Floats
from benchmarks.joint import LOADING, SharedPhi, components

RATE = 16000


def posterior(
    spectra: Complexes, first: Complexes, dictionary: Dictionary, settings: Settings
) -> tuple[Posterior, Complexes]:
    """Sample the posterior of the components of two channels.

    Parameters
    ----------
    spectra, first
        Of the channels, and of a first estimate of their speech: shape (2, bins, frames).
    dictionary, settings
        Of the run, of one chain and one block.

    Returns
    -------
    posterior : Posterior
        Of the components, shape (2, bins, frames).
    basis : ndarray
        A, shape (bins, 2, 2).
    """
    basis, of_speech, _ = components(first, spectra - first)
    parts = np.einsum("bmc,cbf->mbf", np.linalg.inv(basis), spectra)
    power = (np.abs(parts) ** 2).astype(np.float32).reshape(-1, spectra.shape[-1])
    level, context = bin_levels(power), dictionary.context
    target = target_of(power / level, of_speech / level.reshape(2, -1), dictionary, settings)
    burn_in = settings.steps - settings.keep
    statistics = {
        "gain": Mean(lambda theta, _: unstack(target.gain(theta), context), burn_in=burn_in),
        **{
            name: Mean(
                lambda theta, _, s=s: unstack(target.variance(theta, s), context),
                burn_in=burn_in,
                thin=min(VARIANCE_THIN, settings.keep),
            )
            for s, name in enumerate(("speech", "noise"))
        },
    }
    spacing = dictionary.rate / dictionary.frame.n_fft
    channel = Channel(target, 0, context, spacing, burn_in)
    # One tile: a cell's channels are rows that lie apart.
    with patch.object(tiles, "CELLS", power.size * context * 2), np.errstate(all="ignore"):
        start = target.start(generator(0, Key.CHAIN, START, xp=np))
        start = warm_up(target, start, settings.warm_up, 0, Key.WARM_UP)
        for state in run(
            target, kernel(settings.sampler), steps=settings.steps, seed=0, start=start
        ):
            for each in statistics.values():
                each.add(state, target)
            channel.move(state)
    gain, speech, noise = (
        (statistics[name].mean * (1 if name == "gain" else level)).reshape(spectra.shape)
        for name in ("gain", "speech", "noise")
    )
    std = statistics["gain"].std.reshape(spectra.shape)
    return Posterior(gain, std, speech, noise, target.acceptance), basis


def target_of(power: Floats, level: Floats, dictionary: Dictionary, settings: Settings) -> AlphaMF:
    """Return the alpha-MF of the components, whose speech has one H and one Phi in both.

    Parameters
    ----------
    power
        Of the components one below the other, shape (2 * bins, frames).
    level
        Variance of the speech in the components, shape (2, bins).
    dictionary, settings
        Of the run.
    """
    alpha = settings.alpha_speech or dictionary.alpha
    frames = dictionary.basis.reshape(dictionary.context, 1, -1, dictionary.rank)
    level = np.maximum(level, LOADING * level.max(axis=0)) ** (alpha / 2)
    basis = frames ** (alpha / dictionary.alpha) * level[..., None]
    basis = basis.reshape(-1, dictionary.rank).astype(np.float32)
    basis /= basis.mean(axis=0)
    speech = Source(
        alpha, dictionary.rank, basis, prior_gains=settings.speech_prior, level=SPEECH_LEVEL
    )
    noise = Source(
        settings.alpha_noise,
        settings.noise_rank,
        prior_basis=settings.prior_noise_basis,
        prior_gains=settings.prior_noise,
    )
    target = AlphaMF(stack(power, dictionary.context), [speech, noise])
    loops: Any = SharedPhi(dictionary.context)
    target.model.loops = loops
    return target


def denoised(noisy: Floats, settings: Settings, *, alone: bool = False) -> Floats:
    """Return the speech of a stereo sound at 16 kHz: as linked channels, of gains in common.

    Parameters
    ----------
    noisy
        Shape (samples, 2), float32.
    settings
        Of the run.
    alone
        Whether the gains are the joint posterior's; else each is the geometric mean of the
        refiner's and its, which was better than either. Channels without a voice in common have
        the refiner's.
    """
    weights = find(RATE)
    sounds = [np.ascontiguousarray(channel) for channel in noisy.T]
    nothing = [None] * len(sounds)
    found = sample_gains(sounds, RATE, weights, settings, (0, 0), np, lambda _: None, nothing)
    spectra = np.stack([one.spectra.spectrum_on(grid_of(weights.dictionary)) for one in found])
    gains = np.stack([one.gain for one in found])
    if len(spatial.sharing_groups(spectra, gains)) == 1:
        first = spatial.speech(spectra, gains)
        parts = posterior(spectra, first, weights.dictionary, settings)
        own = of_channels(*parts, spectra)
        gains = own if alone else np.sqrt(gains * own)
        found = [one._replace(gain=gain, mean=gain) for one, gain in zip(found, gains, strict=True)]
    return np.stack([one.speech for one in estimate_speech(found, weights, settings, np)], axis=1)


def of_channels(found: Posterior, basis: Complexes, spectra: Complexes) -> Floats:
    """Return the part of the speech in the power of the channels, shape (2, bins, frames).

    Parameters
    ----------
    found, basis
        As from `posterior`.
    spectra
        Of the channels.
    """
    parts = np.einsum("bmc,cbf->mbf", np.linalg.inv(basis), spectra)
    speech = np.einsum("bcm,mbf->cbf", basis, found.gain * parts)
    ratio = np.abs(speech) ** 2 / (np.abs(spectra) ** 2 + TINY)
    gains: Floats = np.clip(ratio, 0, 1).astype(np.float32)
    return gains
