"""The chain of gains: six links, in order, from a posterior to clean speech.

1. `posterior_mean`: posterior mean of the speech's Wiener gain, and its standard deviation. Without
   networks, and with many steps, channels that share a voice are sampled together (`components`).
2. `refine_gain`: a network (the refiner) reads the posterior and predicts a new gain.
3. `native_gain`: interpolates the gain from the dictionary's grid to the recording's own. Above the
   dictionary's band, it is that of the wide bands (`high_bands`).
4. `limit_attenuation`: no gain is below that of the largest attenuation. Channels that share a
   voice get one spatial filter in place of their gains (`spatial`).
5. `correct_speech`: a network corrects the speech in windows of 16 ms, within the limit; another
   one predicts the gains above its band (the second stage, `coefficients`). What is no louder than
   the pauses of a nearly clean recording, or far from speech, is softened (`faint_noise_gain`).
6. `mix_dry`: mixes a part of the input in.

Segments are continued by their mirror images first (`segments.continue_mirrored`), which are cut
off before link 6. Where echo is removed, the late reverberation is taken away before the first
link (`late_reverberation`), and link 5 has another network, the dereverberator.

`estimate` applies links 1 to 5, `segments` link 6 after the crossfade; training, too, calls them.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from alphamf.audio import stft
from alphamf.audio.stft import Complexes, Frame
from alphamf.denoising import high_bands, spatial, uncertainty
from alphamf.denoising.grids import (
    Grid,
    Spectra,
    count_bins_within,
    grid_of,
    interpolate_frames,
    native_grid,
    regrid,
)
from alphamf.denoising.posterior import Agreement, Posterior
from alphamf.denoising.settings import Settings
from alphamf.denoising.weights import Weights
from alphamf.learnt import second_stage
from alphamf.learnt.dictionary import Dictionary
from alphamf.learnt.refiner import Refiner
from alphamf.learnt.second_stage import Coefficients, SecondStage
from alphamf.tools.arrays import Array, Floats, to_host

WINDOW = 0.032
"""Length of the windows of `remove_floor` in seconds; they overlap by three quarters."""

QUIET_SHARE = 0.1
"""Quantile, over frames, of a bin's power that counts as its floor, the level of pauses."""

ABOVE_FLOOR = 8.0
"""Ratio of a cell's power to the floor at which `remove_floor` keeps half of the cell's amplitude.
Cells at the floor lose 54 dB, cells 15 dB above it .14 dB, and cells 20 dB above it .004 dB."""

STEEPNESS = 3
"""Exponent n of the gain 1 / (1 + (above * floor / power)**n) in `floor_gain`."""

AROUND = (5, 7)
"""Number of bins and of frames (8 ms each) whose mean power is used for the cell in the middle,
because single cells of noise vary too much."""


def smoothed(power: Floats) -> Floats:
    """Return the mean power around each cell, shape (bins, frames); beyond edges, cells repeat."""
    return mean_around(mean_around(power, AROUND[0], axis=0), AROUND[1], axis=1)


def mean_around(power: Floats, count: int, axis: int) -> Floats:
    """Return a running mean along an axis over `count` (odd) cells; edge values are repeated."""
    many = power.shape[axis]
    places = (np.arange(many) + k - count // 2 for k in range(count))
    found = np.zeros_like(power)
    for place in places:
        found += power.take(place, axis, mode="clip")
    found /= count
    return found


def floor_of(power: Floats) -> Floats:
    """Return each bin's floor (level in pauses), shape (bins, 1); `power`: as from `smoothed`."""
    return np.quantile(power, QUIET_SHARE, axis=1, keepdims=True)


def floor_gain(power: Floats, floor: Floats, above: float) -> Floats:
    """Return a gain per cell: small at the floor, 0.5 at `above` times it, near 1 far above it."""
    ratio = np.minimum(above * floor / np.maximum(power, 1e-30), 1e6)
    return (1 / (1 + ratio**STEEPNESS)).astype(np.float32)


def remove_floor(sound: Floats, rate: int) -> Floats:
    """Attenuate what is no louder than a recording's pauses, and leave the speech as it is.

    A network trained on the result does not learn to keep the hiss of its targets.

    `sound`, `rate`: clean speech with pauses, shape (samples,), and its sampling rate in Hz.
    Returns: shape (samples,), float32.
    """
    hop = max(1, round(WINDOW * rate / 4))
    frame = Frame(4 * hop, hop)
    spectrum = stft.forward(sound.astype(np.float32, copy=False), frame)
    power = smoothed(np.abs(spectrum) ** 2)
    gain = floor_gain(power, floor_of(power), ABOVE_FLOOR)
    return stft.inverse(spectrum * gain, frame, len(sound))


ABOVE = 2.0
"""Ratio of a cell's power to the floor at which `faint_noise_gain` keeps half of the amplitude. The
mean power of steady noise is 1.4 times the floor; averaged over its cells, it loses 9.5 dB."""

MOST_DB = 12.0
"""Largest attenuation of `faint_noise_gain` in dB, in addition to that by the networks."""

DEPTH_DB = (20.0, 30.0, 36.0, 46.0)
"""Distances from loud frames down to pauses in dB. Up to the first nothing is attenuated; from the
second to the third the limit is `MOST_DB`; beyond the last, pauses are quiet enough and nothing is
attenuated. In between, the limit in dB changes linearly."""

PART = (0.0, 1.0, 1.0, 0.0)
"""Fraction of `MOST_DB` by which cells may be attenuated at each of `DEPTH_DB`."""

LOUD_SHARE = 0.9
"""Quantile of the power of a segment's frames that counts as the power of loud frames."""

EVERY = 4
"""`faint_noise_gain` takes the floor from every `EVERY`-th frame, as each is a mean of several."""

TINY = np.float32(1e-30)


def faint_noise_gain(spectra: Sequence[Complexes]) -> Floats | None:
    """Return a gain that attenuates faint noise, or None where there is none to attenuate.

    The networks cannot tell the hiss of a nearly clean recording from that of their targets. In
    pauses this hiss is each bin's floor, and cells that are hardly louder than the floor hold no
    speech. In loud noise, weak cells of speech are no louder than the floor: nothing is done.

    `spectra`: spectra of a segment's channels, which get one gain, in windows of 16 ms that overlap
    by half, shape (bins, frames) each. Returns: shape (bins, frames), float32.
    """
    whole = np.sum([each.real**2 + each.imag**2 for each in spectra], axis=0)
    power = smoothed(whole)
    floor = floor_of(power[:, ::EVERY])
    loud = np.quantile(whole.sum(axis=0), LOUD_SHARE)
    lowest = lowest_gain(loud, floor.sum(), DEPTH_DB)
    if lowest == 1:
        return None
    return np.maximum(floor_gain(power, floor, ABOVE), lowest)


def lowest_gain(loud: Floats, floor: Floats, depths: tuple[float, ...]) -> Floats:
    """Return the lowest gain of a cell, given how far pauses lie below loud frames (1: no change).

    `loud`, `floor`: power of loud frames, and of pauses. `depths`: as `DEPTH_DB`, in dB.
    """
    depth = 10 * (np.log10(loud + TINY) - np.log10(floor + TINY))
    most = MOST_DB * np.interp(depth, depths, PART)
    return np.asarray(10 ** (-most / 20), np.float32)


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
    """Return the coefficients of a segment's sound and its first-stage speech, on its own grid.

    `high`: posterior of the wide bands with sound, (bands, frames). `placed`: channels are linked.
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
    """Return the coefficients of the second stage alone, without the high-band network."""
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


SPEECH_DB, NEAR, HUSH_DB = (-24.0, -14.0), 1.5, 20.0
"""A frame loses `HUSH_DB` dB more if the highest level of the result over the input, in dB, within
`NEAR` seconds of it is at most the first `SPEECH_DB`; linearly less to the second, then nothing."""


def hush_gain(noisy: Sequence[Complexes], speech: Sequence[Complexes], grid: Grid) -> Floats | None:
    """Return a gain per frame for the noise that networks left far from speech; None: no change.

    `noisy`, `speech`: spectra of a segment's channels, shape (bins, frames) each.
    """
    band = slice(*(int(hertz * grid.frame.n_fft / grid.rate) for hertz in uncertainty.BAND))
    before, after = (
        uncertainty.averaged(sum((np.abs(each[band]) ** 2).sum(0) for each in spectra), grid)
        for spectra in (noisy, speech)
    )
    reach = round(NEAR * grid.rate / grid.frame.hop_length)
    ratio = np.pad(after / (before + TINY), reach, mode="edge")
    highest = np.lib.stride_tricks.sliding_window_view(ratio, 2 * reach + 1).max(axis=1)
    most = HUSH_DB * np.interp(10 * np.log10(highest + 1e-9), SPEECH_DB, (1, 0))
    return uncertainty.averaged(10 ** (-most / 20), grid).astype(np.float32) if most.any() else None


def at_least(found: Sequence[Any], inputs: Sequence[Any], least: np.float32) -> list[Any]:
    """Return spectra none of whose cells is softer than `least` times that of its input."""
    pairs = zip(found, inputs, strict=True) if least else ()
    raised = [np.where(np.abs(a) < least * np.abs(b), least * b, a) for a, b in pairs]
    return raised or list(found)


def apply_coefficients(
    spectra: Spectra,
    first: Spectra,
    factors: Coefficients,
    network: SecondStage,
    faint: Floats | None,
) -> Complexes:
    """Return the spectrum of the speech, (bins, frames): both inputs combined, times `faint`."""
    native = native_grid(network, spectra.rate)
    noisy, before = (each.spectrum_on(native) for each in (spectra, first))
    found = second_stage.speech(noisy, before, factors, np)
    if spectra.rate < network.rate:
        second_stage.keep_sibilants(found, noisy, before, native.frequencies)
    if faint is not None:
        found *= faint
    return found


def shared_coefficients(
    channels: Sequence[Spectra],
    firsts: Sequence[Spectra],
    highs: Sequence[Posterior],
    network: SecondStage,
    weights: Weights,
    xp: Any,
) -> Coefficients:
    """Return the mean of the channels' coefficients, weighted by each channel's power in a cell."""
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


MEAN_WEIGHT = np.float32(0.25)
"""Weight of the posterior mean in a geometric mean with the refined gain, for linked channels: the
two err in different cells (docs/quality.md)."""


class SegmentPosterior(NamedTuple):
    """The posterior of a segment of one channel, and its gain after links 1 and 2."""

    # The segment that was sampled, scaled: without its late reverberation, if that is removed.
    spectra: Spectra
    scale: np.float32  # The factor that it was scaled by, a power of two
    # gain, gain_std: gain after link 2, and the standard deviation of link 1, on the dictionary's
    # grid; shape (bins, frames).
    gain: Floats
    gain_std: Floats
    mean: Floats  # Gain after link 1, of the same shape
    # Posterior of the wide bands with sound, above the dictionary's band, shape (bands, frames).
    high: Posterior
    # How well several chains agree; None for a single chain, and for digital silence.
    agreement: Agreement | None = None
    # The segment with the late reverberation in the dictionary's band; None if no echo is removed.
    with_echo: Spectra | None = None
    dereverb: float = 0.0  # Proportion of the echo that is removed

    @property
    def whole(self) -> Spectra:
        """The scaled segment with its echo, except for removed echo above the dictionary's band."""
        return self.spectra if self.with_echo is None else self.with_echo


def posterior_mean(posterior: Posterior) -> tuple[Array, Array]:
    """Apply link 1: return the posterior mean of the gain, and its standard deviation."""
    return posterior.gain, posterior.gain_std


def refine_gain(power: Array, posterior: Posterior, refiner: Refiner | None) -> Array:
    """Apply link 2: return the gain that the refiner predicts, or without one the posterior mean.

    `power`: |X|^2 that the posterior is given, shape (..., bins, frames). `posterior`: arrays of
    the same shape.
    """
    if refiner is None:
        return posterior.gain
    return refiner.refine(
        power,
        gain=posterior.gain,
        gain_std=posterior.gain_std,
        speech=posterior.speech,
        noise=posterior.noise,
    )


def native_gain(channel: SegmentPosterior, model: Dictionary) -> tuple[Floats, Floats]:
    """Apply link 3: return the gain and its standard deviation on the recording's own grid."""
    spectra, high = channel.spectra, channel.high
    grid, native = grid_of(model), native_grid(model, spectra.rate)
    frames = spectra.spectrum_on(native).shape[1]
    gain, gain_std = (
        high_bands.spread_band_gains(
            interpolate_frames(rows, grid, native, frames),
            _regrid_to_native(each, spectra, model),
            native,
        )
        for rows, each in ((high.gain, channel.gain), (high.gain_std, channel.gain_std))
    )
    return gain, gain_std


def _regrid_to_native(values: Floats, spectra: Spectra, model: Dictionary) -> Floats:
    """Interpolate a gain of the dictionary's bins to the segment's own grid."""
    native = native_grid(model, spectra.rate)
    return regrid(values, grid_of(model), native, spectra.spectrum_on(native).shape)


def least_gain(settings: Settings) -> np.float32:
    """Return the gain of the largest attenuation, or 0 if there is no limit."""
    limit = np.inf if settings.max_attenuation is None else settings.max_attenuation
    return np.float32(10 ** (-limit / 20))


def limit_attenuation(
    channels: Sequence[SegmentPosterior],
    gains: Sequence[Floats],
    least: np.float32,
    model: Dictionary,
    *,
    refined: bool = True,
) -> list[Floats]:
    """Apply link 4: return the speech of each channel, attenuated within the limit.

    `gains`: gain of each channel after link 3, shape (bins, frames); those of linked channels are
    squared unless a network has `refined` them. Returns: shape (samples,) each.
    """
    native = native_grid(model, channels[0].spectra.rate)
    spectra = [each.spectra.spectrum_on(native) for each in channels]
    if len(channels) == 1:
        found = [spectra[0] * (np.maximum(gains[0], least) if least else gains[0])]
    else:
        mixed: Floats = np.stack(gains)
        if refined:
            means = [_regrid_to_native(each.mean, each.spectra, model) for each in channels]
            mixed = mixed ** (1 - MEAN_WEIGHT) * np.stack(means) ** MEAN_WEIGHT
        else:
            mixed = mixed**2
        if len(channels[0].high.gain):
            # The posterior of the wide bands says less about a voice's place than the bins below.
            mixed = high_bands.extend_gains_upwards(mixed, native)
        stacked = np.stack(spectra)
        found = list(spatial.speech(stacked, mixed))
        found = at_least(found, [each.whole.spectrum_on(native) for each in channels], least)
    return [stft.inverse(each, native.frame, len(channels[0].spectra.sound)) for each in found]


def correct_speech(
    channels: Sequence[SegmentPosterior],
    speech: Sequence[Floats],
    network: SecondStage,
    weights: Weights,
    least: np.float32,
    xp: Any,
) -> list[Floats]:
    """Apply link 5: return the speech of each channel, corrected by the second stage.

    `speech`: after link 4, shape (samples,) each.
    """
    noisy = [each.whole for each in channels]
    firsts = [Spectra(one, each.rate) for one, each in zip(speech, noisy, strict=True)]
    highs = [each.high for each in channels]
    if len(channels) == 1:
        factors = coefficients(noisy[0], firsts[0], highs[0], network, weights, xp)
    else:
        factors = shared_coefficients(noisy, firsts, highs, network, weights, xp)
    native = native_grid(network, noisy[0].rate)
    sounds = [each.spectrum_on(native) for each in noisy]
    faint = faint_noise_gain(sounds)
    pairs = zip(noisy, firsts, strict=True)
    found = [apply_coefficients(*each, factors, network, faint) for each in pairs]
    if (hush := hush_gain(sounds, found, native)) is not None:
        found = [each * hush for each in found]
    spectra = at_least(found, sounds, least)
    return [stft.inverse(each, native.frame, len(noisy[0].sound)) for each in spectra]


def mix_dry(audio: Floats, speech: Floats, settings: Settings) -> Floats:
    """Apply link 6: mix a part of the input into the speech.

    `audio`, `speech`: input, and speech after link 5; shape (samples, channels).
    """
    return settings.dry * audio + (1 - settings.dry) * speech
