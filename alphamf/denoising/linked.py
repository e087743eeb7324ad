"""Links 4 and 5 of the chain of gains, for channels that share a voice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from alphamf.audio import stft
from alphamf.denoising import high_bands, spatial
from alphamf.denoising.gain import (
    Estimate,
    coefficients,
    combined,
    estimate,
    least_gain,
    on_native,
    separate,
)
from alphamf.denoising.grids import Spectra, native_grid
from alphamf.denoising.posterior import Posterior
from alphamf.denoising.settings import Settings
from alphamf.denoising.weights import Weights
from alphamf.learnt.second_stage import Coefficients
from alphamf.tools.arrays import Array, Floats

PLAIN = np.float32(0.25)
"""Weight of the posterior's own gain beside the refiner's where channels are linked: the two err in
different cells, also of other channels (docs/log/in-and-out.md)."""


def linked(
    channels: Sequence[Spectra],
    gains: Sequence[tuple[Floats, Floats]],
    plain: Sequence[Floats],
    highs: Sequence[Posterior],
    weights: Weights,
    settings: Settings,
    xp: Any,
) -> list[Estimate]:
    """Apply links 4 and 5 to all channels of a segment; unlinked ones are processed alone.

    Parameters
    ----------
    channels
        The segment, each of its channels scaled to a like level.
    gains, highs, weights, settings, xp
        As in `gain.separate`, of each channel.
    plain
        The posterior mean of each channel's gain, before the refiner, on the dictionary's grid.
    """
    native = native_grid(weights.dictionary, channels[0].rate)
    least = least_gain(settings)
    estimates: dict[int, Estimate] = {}
    spectra = [each.spectrum_on(native) for each in channels]
    for group in spatial.sharing_groups(spectra, [gain for gain, _ in gains]):
        if len(group) == 1:
            (k,) = group
            estimates[k] = separate(channels[k], gains[k], highs[k], weights, settings, xp)
            continue
        sounds, known = [channels[k] for k in group], [highs[k] for k in group]
        both = [(gains[k][0], plain[k]) for k in group]
        network = weights.second_stage if settings.refine else None
        lowest = least if network is None else np.float32(0)
        speech = _shared(sounds, both, known[0], weights, lowest)
        if network is not None:
            speech = _corrected(sounds, speech, known, weights, least, xp)
        for k, one in zip(group, speech, strict=True):
            staged = network is not None
            estimates[k] = estimate(
                channels[k], one, gains[k], highs[k], weights, settings, staged=staged
            )
    return [estimates[k] for k in range(len(channels))]


def _shared(
    channels: Sequence[Spectra],
    gains: Sequence[tuple[Floats, Floats]],
    high: Posterior,
    weights: Weights,
    least: np.float32,
) -> list[Floats]:
    """Apply link 4: return the speech given each channel's gain before and after the refiner."""
    native = native_grid(weights.dictionary, channels[0].rate)
    spectra = np.stack([each.spectrum_on(native) for each in channels])
    before = np.stack(
        [
            on_native(plain, each, weights.dictionary)
            for each, (_, plain) in zip(channels, gains, strict=True)
        ]
    )
    mixed = _mixed(np.stack([gain for gain, _ in gains]), before)
    if len(high.gain):
        # The bands' posterior says less of where a voice is than what lies below.
        mixed = high_bands.extend_gains_upwards(mixed, native)
    found = spatial.speech(spectra, mixed)
    if least:
        lowest = least * spectra
        found = np.where(np.abs(found) < np.abs(lowest), lowest, found)
    return [stft.inverse(each, native.frame, len(channels[0].sound)) for each in found]


def _mixed(gain: Floats, before: Floats) -> Floats:
    """Return the weighted geometric mean of the gains before and after the refiner."""
    mixed: Floats = gain ** (1 - PLAIN) * before**PLAIN
    return mixed


def _corrected(
    channels: Sequence[Spectra],
    speech: Sequence[Floats],
    highs: Sequence[Posterior],
    weights: Weights,
    least: np.float32,
    xp: Any,
) -> list[Floats]:
    """Apply link 5: return the corrected speech; the channels use the same coefficients."""
    firsts = [Spectra(one, channels[0].rate) for one in speech]
    shared = _mean(channels, firsts, highs, weights, xp)
    network: Any = weights.second_stage
    return [combined(*each, shared, network, least) for each in zip(channels, firsts, strict=True)]


def _mean(
    channels: Sequence[Spectra],
    firsts: Sequence[Spectra],
    highs: Sequence[Posterior],
    weights: Weights,
    xp: Any,
) -> Coefficients:
    """Return the mean of the channels' coefficients, weighted by their power in each cell."""
    network: Any = weights.second_stage
    native = native_grid(network, channels[0].rate)
    shares = spatial.power_shares([each.spectrum_on(native) for each in channels])
    mean: list[Array] = []
    for share, channel, first, high in zip(shares, channels, firsts, highs, strict=True):
        found = coefficients(channel, first, high, weights, xp, placed=True)
        weighted = [found.sound, found.speech, *found.taps]
        for k, values in enumerate(weighted):
            values *= share[: len(values)]
            if mean:
                mean[k] += values
        mean = mean or weighted
    return Coefficients(mean[0], mean[1], tuple(mean[2:]))
