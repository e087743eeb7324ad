"""Coefficients of the second stage, which mix the input and the first-stage speech.

They belong to link 5 of the chain of gains (`gain`). The first-stage speech is the result of link
4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from alphamf.audio import stft
from alphamf.denoising import high_bands, spatial
from alphamf.denoising.grids import Spectra, count_bins_within, grid_of, native_grid, regrid
from alphamf.denoising.posterior import Posterior
from alphamf.denoising.weights import Weights
from alphamf.learnt import second_stage
from alphamf.learnt.second_stage import Coefficients, SecondStage
from alphamf.tools.arrays import Array, Floats, to_host


def coefficients(
    spectra: Spectra,
    first: Spectra,
    high: Posterior,
    network: SecondStage,
    weights: Weights,
    xp: Any,
    *,
    placed: bool = False,
) -> Coefficients:
    """Compute the coefficients of a segment and its first-stage speech, on the segment's own grid.

    `high`: posterior of the wide bands above the dictionary that have sound, shape (bands, frames).
    """
    factors = second_stage_coefficients(spectra, first, network, xp)
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


def second_stage_coefficients(
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
    del taps  # each is freed once it is interpolated: no other arrays of a segment are as large
    for k, tap in enumerate(rows):
        rows[k] = regrid(to_host(tap), grid, native, below)
    return Coefficients(of_noisy, of_first, tuple(rows))


def apply_coefficients(
    spectra: Spectra,
    first: Spectra,
    factors: Coefficients,
    network: SecondStage,
    least: np.float32,
    faint: Floats | None,
) -> Floats:
    """Combine a segment and its first-stage speech with the second stage's coefficients."""
    native = native_grid(network, spectra.rate)
    noisy = spectra.spectrum_on(native)
    before = first.spectrum_on(native)
    found = second_stage.speech(noisy, before, factors, np)
    if spectra.rate < network.rate:
        second_stage.keep_sibilants(found, noisy, before, native.frequencies)
    if faint is not None:
        found *= faint
    if least:
        found = np.where(np.abs(found) < least * np.abs(noisy), least * noisy, found)
    return stft.inverse(found, native.frame, len(spectra.sound))


def shared_coefficients(
    channels: Sequence[Spectra],
    firsts: Sequence[Spectra],
    highs: Sequence[Posterior],
    network: SecondStage,
    weights: Weights,
    xp: Any,
) -> Coefficients:
    """Return the mean of the channels' coefficients, weighted by their power in each cell."""
    native = native_grid(network, channels[0].rate)
    shares = spatial.power_shares([each.spectrum_on(native) for each in channels])
    mean: list[Array] = []
    for share, channel, first, high in zip(shares, channels, firsts, highs, strict=True):
        found = coefficients(channel, first, high, network, weights, xp, placed=True)
        weighted = [found.sound, found.speech, *found.taps]
        for k, values in enumerate(weighted):
            values *= share[: len(values)]
            if mean:
                mean[k] += values
        mean = mean or weighted
    return Coefficients(mean[0], mean[1], tuple(mean[2:]))
