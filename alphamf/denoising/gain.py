"""The chain of gains: the steps, in order, from a posterior to clean speech.

1. Posterior mean of the speech's Wiener gain, and its standard deviation.
2. Refiner: a network that reads the posterior gives the gain anew.
3. Native grid: the gain moves from the dictionary's grid to the sound's own rate. Above the
   dictionary's band, the posterior of its bands goes on (`bands`).
4. Limit: no gain is below the largest attenuation.
5. Second stage: a network that corrects the result in windows of 16 ms, within the limit; another
   one gives the gains above its band.
6. Dry: some of the input stays in.

Between 3 and 4, channels that share a voice are linked (`spatial`).

Training takes the same steps, so what a network was trained on is what it meets.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from alphamf.audio import stft
from alphamf.denoising import high_bands, uncertainty
from alphamf.denoising.activity import probability
from alphamf.denoising.agreement import Agreement
from alphamf.denoising.grids import (
    Spectra,
    count_bins_within,
    grid_of,
    interpolate_frames,
    native_grid,
    regrid,
)
from alphamf.denoising.posterior import Posterior
from alphamf.denoising.settings import Settings
from alphamf.denoising.weights import Weights
from alphamf.learnt import second_stage
from alphamf.learnt.dictionary import Dictionary
from alphamf.learnt.refiner import Refiner
from alphamf.learnt.second_stage import Coefficients, SecondStage
from alphamf.tools.arrays import Array, Floats, to_host


class Estimate(NamedTuple):
    """The estimated speech of a segment of one channel, with its gain.

    Attributes
    ----------
    speech
        Shape (samples,), float32.
    gain, gain_std
        Gain that the speech has after link 4 or 5, 0 to 1, and its standard deviation, that of the
        posterior or, with networks, of `uncertainty`; shape (bins, frames).
    acceptance
        Proportion of accepted Phi proposals of speech and noise.
    activity
        Probability of speech in every frame, shape (frames,).
    agreement
        How far several chains agree; None of one alone, and of digital silence.
    """

    speech: Floats
    gain: Floats
    gain_std: Floats
    acceptance: list[float]
    activity: Floats
    agreement: Agreement | None = None


def refined(power: Array, posterior: Posterior, refiner: Refiner | None) -> tuple[Array, Array]:
    """Apply links 1 and 2: return the refined gain, and the posterior standard deviation.

    Parameters
    ----------
    power
        |X|^2 that the posterior is of, shape (..., bins, frames).
    posterior
        Arrays of the same shape.
    refiner
        None: those of the posterior.
    """
    if refiner is None:
        return posterior.gain, posterior.gain_std
    gain = refiner.refine(
        power,
        gain=posterior.gain,
        gain_std=posterior.gain_std,
        speech=posterior.speech,
        noise=posterior.noise,
    )
    return gain, posterior.gain_std


def moved(
    spectra: Spectra, gains: tuple[Floats, Floats], high: Posterior, model: Dictionary
) -> tuple[Floats, Floats]:
    """Apply link 3: return the gain and its standard deviation on the recording's own grid.

    Parameters
    ----------
    spectra
        A segment of one channel.
    gains
        Both on the dictionary's grid, shape (bins, frames).
    high
        Posterior of the bands above the dictionary in which there is sound, shape (bands, frames).
    model
        The dictionary.
    """
    grid, native = grid_of(model), native_grid(model, spectra.rate)
    frames = spectra.spectrum_on(native).shape[1]
    gain, gain_std = (
        high_bands.spread_band_gains(
            interpolate_frames(rows, grid, native, frames), on_native(each, spectra, model), native
        )
        for rows, each in zip((high.gain, high.gain_std), gains, strict=True)
    )
    return gain, gain_std


def on_native(values: Floats, spectra: Spectra, model: Dictionary) -> Floats:
    """Interpolate a gain of the dictionary's bins to the segment's grid, shape (bins, frames)."""
    native = native_grid(model, spectra.rate)
    return regrid(values, grid_of(model), native, spectra.spectrum_on(native).shape)


def least_gain(settings: Settings) -> np.float32:
    """Return the gain of the maximum attenuation, or 0 if there is no limit."""
    limit = np.inf if settings.max_attenuation is None else settings.max_attenuation
    return np.float32(10 ** (-limit / 20))


def separate(
    spectra: Spectra,
    gains: tuple[Floats, Floats],
    high: Posterior,
    weights: Weights,
    settings: Settings,
    xp: Any,
) -> Estimate:
    """Apply links 4 and 5 to a segment of one channel.

    Parameters
    ----------
    spectra
        The segment.
    gains
        Gain and standard deviation after link 3, shape (bins, frames).
    high
        As for `moved`.
    weights, settings
        Of the run; without `settings.refine` there is no second stage.
    xp
        Array module that the networks run on.
    """
    native = native_grid(weights.dictionary, spectra.rate)
    spectrum = spectra.spectrum_on(native)
    gain, _ = gains
    least = least_gain(settings)
    network = weights.second_stage if settings.refine else None
    # Digital silence needs no second stage, nor does a sound that nothing may be taken from.
    staged = network is not None and bool(least < 1 and spectra.sound.any())
    used = gain if staged else np.maximum(gain, least)
    speech = stft.inverse(spectrum * used, native.frame, len(spectra.sound))
    if network is not None and staged:
        speech = _corrected(spectra, Spectra(speech, spectra.rate), high, weights, least, xp)
    return estimate(spectra, speech, gains, high, weights, settings, staged=staged)


def _corrected(
    spectra: Spectra, first: Spectra, high: Posterior, weights: Weights, least: np.float32, xp: Any
) -> Floats:
    """Apply link 5: return the speech corrected by the second stage."""
    network: Any = weights.second_stage
    return combined(spectra, first, coefficients(spectra, first, high, weights, xp), network, least)


def estimate(
    spectra: Spectra,
    speech: Floats,
    gains: tuple[Floats, Floats],
    high: Posterior,
    weights: Weights,
    settings: Settings,
    *,
    staged: bool,
) -> Estimate:
    """Return the `Estimate` of a segment of one channel for its estimated speech.

    Parameters
    ----------
    spectra, gains, high, weights, settings
        As in `separate`.
    speech
        After link 4, or 5, shape (samples,).
    staged
        Whether it is after link 5.
    """
    native = native_grid(weights.dictionary, spectra.rate)
    spectrum = spectra.spectrum_on(native)
    power = np.abs(spectrum) ** 2
    gain, gain_std = gains
    least = least_gain(settings)
    final = np.maximum(gain, least)
    if staged:
        output = Spectra(speech, spectra.rate).spectrum_on(native)
        final = uncertainty.output_gain(spectrum, output, least)
    if settings.refine and weights.refiner is not None:
        gain_std = uncertainty.network_gain_std(power, final, native.frequencies)
    return Estimate(speech, final, gain_std, high.acceptance, probability(power, gain, native))


def coefficients(
    spectra: Spectra,
    first: Spectra,
    high: Posterior,
    weights: Weights,
    xp: Any,
    *,
    placed: bool = False,
) -> Coefficients:
    """Compute the coefficients of a segment and its first-stage speech, on the network's grid.

    Parameters
    ----------
    spectra, first
        The segment, and the speech after link 4.
    high
        As for `moved`.
    weights
        With a second stage; without a network of the bands above, that goes on there.
    xp
        Array module that the networks run on.
    placed
        Whether the first speech is that of linked channels, which is to keep its place.
    """
    network: Any = weights.second_stage
    factors = of_second_stage(spectra, first, network, xp)
    if weights.high_band is None or not len(high.gain):
        return factors
    known = high_bands.features_of(spectra, first, factors, high, weights.dictionary, network)
    gains = high_bands.gains(known, len(high.gain), weights.high_band, xp)
    native = native_grid(network, spectra.rate)
    shares = gains, np.zeros_like(gains)
    if placed:
        shares = high_bands.split_band_gains(
            gains, spectra.spectrum_on(native), first.spectrum_on(native), native
        )
    of_noisy, of_first = (
        high_bands.spread_band_gains(*each, native)
        for each in zip(shares, factors[:2], strict=True)
    )
    for tap in factors.taps:
        high_bands.fade(tap, native)
    return Coefficients(of_noisy, of_first, factors.taps)


def of_second_stage(
    spectra: Spectra, first: Spectra, network: SecondStage, xp: Any
) -> Coefficients:
    """Compute the coefficients of the second stage alone, without the high-band network."""
    grid, native = grid_of(network), native_grid(network, spectra.rate)
    inputs = (xp.asarray(each.spectrum_on(grid)) for each in (spectra, first))
    *both, taps = network.coefficients(*inputs)
    shape = spectra.spectrum_on(native).shape
    of_noisy, of_first = (regrid(to_host(each), grid, native, shape) for each in both)
    below = count_bins_within(grid, native), shape[1]
    rows = list(taps)
    del taps  # each is let go as soon as it is moved: they are the most that a segment holds
    for k, tap in enumerate(rows):
        rows[k] = regrid(to_host(tap), grid, native, below)
    return Coefficients(of_noisy, of_first, tuple(rows))


def combined(
    spectra: Spectra,
    first: Spectra,
    factors: Coefficients,
    network: SecondStage,
    least: np.float32,
) -> Floats:
    """Combine a segment and its first-stage speech with the second stage's coefficients.

    Parameters
    ----------
    spectra, first
        The segment, and the speech after link 4.
    factors
        As from `coefficients`.
    network
        The second stage.
    least
        Smallest gain of a cell.
    """
    native = native_grid(network, spectra.rate)
    noisy = spectra.spectrum_on(native)
    found = second_stage.speech(noisy, first.spectrum_on(native), factors, np)
    if least:
        found = np.where(np.abs(found) < least * np.abs(noisy), least * noisy, found)
    return stft.inverse(found, native.frame, len(spectra.sound))


def with_dry(audio: Floats, speech: Floats, settings: Settings) -> Floats:
    """Apply link 6: mix the speech with the input.

    Parameters
    ----------
    audio, speech
        Input, and speech after link 5; shape (samples, channels).
    settings
        With `dry`, the proportion of the input.
    """
    mixed: Floats = settings.dry * audio + (1 - settings.dry) * speech
    return mixed
