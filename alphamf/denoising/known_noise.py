"""Spectra of a known noise, learned from time ranges with noise only."""

from __future__ import annotations

import numpy as np

from alphamf.denoising import high_bands
from alphamf.denoising.grids import Spectra
from alphamf.denoising.sampling import bin_levels
from alphamf.denoising.settings import Settings, kernel
from alphamf.factorization.alpha_mf import AlphaMF, Source
from alphamf.factorization.stacking import stack
from alphamf.inference.chain import run
from alphamf.inference.random import START, Key, generator
from alphamf.learnt.dictionary import Dictionary
from alphamf.tools.arrays import Floats, Reals
from alphamf.tools.blas import one_thread

STEPS = 60
"""Of EM."""


@one_thread()
def noise_spectra(
    noise: Floats, rate: int, dictionary: Dictionary, settings: Settings, seed: int
) -> list[Reals | None]:
    """Learn W_noise of each channel by EM from time ranges with noise only.

    Parameters
    ----------
    noise
        Sound of noise alone, shape (samples, channels), float32.
    rate
        Sampling rate in Hz.
    dictionary
        Whose frames are stacked, as those of the recording will be.
    settings
        With the noise's index, the number of its spectra, and their priors.
    seed
        Of the run.

    Returns
    -------
    list of ndarray
        Dispersions in the sound's units, weighted with their mean activation, each of shape
        (stacked rows, noise_rank), where the bands above that the rate has follow the bins of a
        frame; None of a channel that is silent.
    """
    return [
        _spectra(np.ascontiguousarray(sound), rate, dictionary, settings, (seed, channel))
        for channel, sound in enumerate(noise.T)
    ]


def _spectra(
    sound: Floats, rate: int, dictionary: Dictionary, settings: Settings, stream: tuple[int, int]
) -> Reals | None:
    peak = np.abs(sound).max()
    if not peak:
        return None
    spectra = Spectra(sound / peak, rate)
    power = high_bands.power(spectra, dictionary, high_bands.count_possible_bands(rate, dictionary))
    level = bin_levels(power)
    source = Source(
        settings.alpha_noise,
        settings.noise_rank,
        prior_basis=settings.prior_noise_basis,
        prior_gains=settings.prior_noise,
    )
    target = AlphaMF(stack(power / level, dictionary.context), [source])
    seed, channel = stream
    number = Key.NOISE + channel
    theta = target.start(generator(seed, number, START))
    with np.errstate(all="ignore"):
        for state in run(target, kernel("em"), steps=STEPS, seed=seed, chain=number, start=theta):
            theta = state.theta
    w, h = target.unpack(theta)[0]
    # In double precision, since a soft sound's dispersions may be beyond the single one.
    unit = np.tile(level, (dictionary.context, 1)) * np.float64(peak) ** 2
    found: Reals = w * h.mean(axis=-1) * unit ** (settings.alpha_noise / 2)
    return found


def lowest_rows(spectra: Reals, dictionary: Dictionary) -> Reals:
    """Return the rows of known noise spectra that a dictionary has: its bins and wide bands."""
    frames = spectra.reshape(dictionary.context, -1, spectra.shape[-1])
    return frames[:, : dictionary.bins].reshape(-1, spectra.shape[-1])
