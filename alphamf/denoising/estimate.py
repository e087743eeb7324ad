"""Estimate the clean speech of segments of equal length through the chain of gains (`gain`).

`sample_gains` applies links 1 and 2 to each channel; `estimate_speech` applies links 3 to 5 to the
channels of a segment, which may be linked. In some runs of 100 steps or more (`models_components`),
channels get a first estimate, and `sample_groups` then samples those that share a voice together.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphamf.denoising import high_bands, uncertainty
from alphamf.denoising.components import sample_components
from alphamf.denoising.gain import (
    SegmentPosterior,
    correct_speech,
    least_gain,
    limit_attenuation,
    native_gain,
    posterior_mean,
    refine_gain,
)
from alphamf.denoising.grids import Spectra, grid_of, native_grid
from alphamf.denoising.hints import lowest_rows
from alphamf.denoising.posterior import Agreement, Posterior, agreements, sample_posterior
from alphamf.denoising.sampling import Progress
from alphamf.denoising.settings import METROPOLIS, PRESETS, Settings
from alphamf.denoising.spatial import sharing_groups
from alphamf.denoising.uncertainty import probability
from alphamf.denoising.weights import Weights
from alphamf.factorization.alpha_mf import FLOOR
from alphamf.learnt.dictionary import Dictionary
from alphamf.tools import machine
from alphamf.tools.arrays import Array, Floats, Reals, parts, to_host
from alphamf.tools.machine import one_thread

FIRST = replace(PRESETS["fast"], refine=False)
"""Settings of a first estimate, which takes a sixteenth of the time of the preset `plain`: it shows
which channels share a voice, and gives the basis of their components."""

LONG = 100
"""Minimum number of steps for one alpha-MF of several channels: with fewer steps, a chain for each
channel alone is better (docs/quality.md)."""

MOST_COMPONENTS = 8
"""Maximum number of channels of one alpha-MF, which limits the memory."""


class ChannelEstimate(NamedTuple):
    """The estimated speech of a segment of one channel, with its gain."""

    speech: Floats  # After link 5, shape (samples,), float32
    # gain, gain_std: gain of the speech, from 0 to 1, and its standard deviation: that of the
    # posterior or, with a refiner, the expected error (`uncertainty`); shape (bins, frames).
    # Without a second stage, the gain of linked channels is the one before the spatial filter.
    gain: Floats
    gain_std: Floats
    # Proportions of accepted proposals of Phi and, if the sampler is Metropolis, of W and H.
    acceptance: list[float]
    activity: Floats  # Probability of speech in each frame, shape (frames,)
    # How well several chains agree; None for a single chain, and for digital silence.
    agreement: Agreement | None


@one_thread()
def sample_gains(
    sounds: Sequence[Floats],
    rate: int,
    weights: Weights,
    settings: Settings,
    stream: tuple[int, int],
    xp: Any,
    progress: Progress,
    noises: Sequence[Reals | None],
) -> list[SegmentPosterior]:
    """Sample the gains of sounds of equal length, together if possible; a network may refine them.

    `sounds`: finite samples, float32, shape (samples,). `noises`: known noise spectra, or None.
    """
    machine.configure_allocator()
    # Powers of two, so that scaling is exact, and squares neither overflow nor vanish.
    scales = [np.float32(2.0) ** -int(np.frexp(np.abs(sound).max())[1]) for sound in sounds]
    spectra = [Spectra(sound * scale, rate) for sound, scale in zip(sounds, scales, strict=True)]
    model = weights.dictionary
    powers = [
        high_bands.power(each, model, high_bands.count_modelled_bands(each, model))
        for each in spectra
    ]
    moves = 3 if settings.sampler in METROPOLIS else 2
    found = [
        _silent(*each, model.bins, moves) for each in zip(spectra, scales, powers, strict=True)
    ]
    grid, bins = grid_of(model), model.bins
    groups = [group for each in _audible(powers) for group in _alike(*each, noises)]
    for done, (group, frames) in enumerate(groups):

        def advance(steps: float, done: int = done) -> None:
            progress((done * settings.steps + steps) / len(groups))

        rows = [powers[k][:, frames] for k in group]
        wide = model.with_bands(len(rows[0]) - bins)
        noise = _known([(noises[k], scales[k]) for k in group], wide, settings)
        power = xp.asarray(rows[0] if len(rows) == 1 else np.stack(rows))
        posterior = sample_posterior(power, wide, settings, stream, advance, noise)
        low, high = posterior.rows(slice(bins)), posterior.rows(slice(bins, None))
        network = weights.refiner if settings.refine else None
        refine = partial(refine_gain, power[..., :bins, :], refiner=network)
        mean, std = posterior_mean(low)
        refined = refine(low)
        own = [spectra[k].spectrum_on(grid)[:, frames] for k in group]
        units = [float(scales[k]) ** -2 for k in group]
        agreeing = agreements(own, low, refine, grid.frame, units)
        arrays = [_by_clip(each, len(group)) for each in (refined, std, mean, *high.arrays)]
        for place, k in enumerate(group):
            one = found[k]
            for each, values in zip(
                (one.gain, one.gain_std, one.mean, *one.high.arrays), arrays, strict=True
            ):
                each[:, frames] = values[place]
            found[k] = one._replace(
                high=one.high._replace(acceptance=posterior.acceptance), agreement=agreeing[place]
            )
    return found


def _by_clip(array: Array, clips: int) -> Floats:
    """Return an array on the host with the shape (clips, rows, frames), also for a single clip."""
    found: Floats = to_host(array)
    return found.reshape(clips, *found.shape[-2:])


def _known(
    noises: Sequence[tuple[Reals | None, np.float32]], model: Dictionary, settings: Settings
) -> Reals | None:
    """Return the known noise spectra in the units of their scaled sounds; None if all are None."""
    known = [
        (lowest_rows(noise, model) * np.float64(scale) ** settings.alpha_noise).astype(np.float32)
        for noise, scale in noises
        if noise is not None
    ]
    return None if not known else known[0] if len(known) == 1 else np.stack(known)


def _silent(
    spectra: Spectra, scale: np.float32, power: Floats, bins: int, moves: int
) -> SegmentPosterior:
    """Return the result for digital silence: a gain of one; `moves`: length of its `acceptance`."""
    low, rows = power[:bins], power[bins:]
    gain_std, speech, noise = (np.zeros_like(rows) for _ in range(3))
    high = Posterior(np.ones_like(rows), gain_std, speech, noise, [1.0] * moves, draws=0)
    gain, std, mean = np.ones_like(low), np.zeros_like(low), np.ones_like(low)
    return SegmentPosterior(spectra, scale, gain, std, mean, high)


def models_components(settings: Settings) -> bool:
    """Return whether channels that share a voice may be sampled together (`components`)."""
    wanted = settings.channels == "linked" and not settings.refine and settings.steps >= LONG
    return wanted and bool(least_gain(settings) < 1)


def sample_groups(
    channels: Sequence[SegmentPosterior],
    weights: Weights,
    settings: Settings,
    stream: tuple[int, int],
    xp: Any,
    progress: Progress,
) -> tuple[list[SegmentPosterior], list[list[int]]]:
    """Sample channels after a first estimate; return posteriors, and groups that share a voice."""
    gains = [native_gain(each, weights.dictionary)[0] for each in channels]
    groups = _linked_groups(channels, gains, weights.dictionary, settings)
    together = [group[part] for group in groups for part in parts(len(group), MOST_COMPONENTS)]
    found, done = list(channels), 0
    for places in together:

        def advance(steps: float, done: int = done, count: int = len(places)) -> None:
            progress((done * settings.steps + count * steps) / len(channels))

        members = [channels[k] for k in places]
        sampler = sample_components if len(places) > 1 else _sample_alone
        sampled = sampler(members, weights, settings, stream, xp, advance)
        for k, one in zip(places, sampled, strict=True):
            found[k] = one
        done += len(places)
    return found, groups


def _sample_alone(
    channels: Sequence[SegmentPosterior],
    weights: Weights,
    settings: Settings,
    stream: tuple[int, int],
    xp: Any,
    progress: Progress,
) -> list[SegmentPosterior]:
    """Sample one channel after a first estimate; the parameters are those of `sample_groups`."""
    (first,) = channels
    sound = first.spectra.sound / first.scale  # exact: the scale is a power of two
    rate, nothing = first.spectra.rate, [None]
    (found,) = sample_gains([sound], rate, weights, settings, stream, xp, progress, nothing)
    return [found._replace(with_echo=first.with_echo, dereverb=first.dereverb)]


@one_thread()
def estimate_speech(
    channels: Sequence[SegmentPosterior],
    weights: Weights,
    settings: Settings,
    xp: Any,
    groups: Sequence[Sequence[int]] | None = None,
) -> list[ChannelEstimate]:
    """Estimate the speech by links 3 to 5; `groups`: channels to link; None: find the groups."""
    model = weights.dictionary
    gains = [native_gain(each, model) for each in channels]
    estimates: dict[int, ChannelEstimate] = {}
    if groups is None:
        groups = _linked_groups(channels, [gain for gain, _ in gains], model, settings)
    for group in groups:
        members = [channels[k] for k in group]
        speech, staged = _speech(members, [gains[k][0] for k in group], weights, settings, xp)
        share = np.float32(members[0].dereverb)
        if 0 < share < 1:
            whole = [each._replace(spectra=each.whole, dereverb=0.0) for each in members]
            other, _ = _speech(whole, [gains[k][0] for k in group], weights, settings, xp)
            speech = [a + share * (b - a) for a, b in zip(other, speech, strict=True)]
        for k, one in zip(group, speech, strict=True):
            estimates[k] = _estimate(channels[k], one, gains[k], weights, settings, staged=staged)
    return [estimates[k] for k in range(len(channels))]


def _speech(
    members: Sequence[SegmentPosterior],
    gains: Sequence[Floats],
    weights: Weights,
    settings: Settings,
    xp: Any,
) -> tuple[list[Floats], bool]:
    """Return the speech of linked channels, or of one, and whether link 5 has corrected it."""
    least, model = least_gain(settings), weights.dictionary
    network = weights.dereverberator if members[0].dereverb else weights.second_stage
    # Digital silence needs no second stage, nor does a sound that must not be attenuated.
    if not settings.refine or least == 1 or not all(each.spectra.sound.any() for each in members):
        network = None
    lowest = least if network is None else np.float32(0)
    speech = limit_attenuation(members, gains, lowest, model, refined=settings.refine)
    if network is None:
        return speech, False
    return correct_speech(members, speech, network, weights, least, xp), True


def _linked_groups(
    channels: Sequence[SegmentPosterior],
    gains: Sequence[Floats],
    model: Dictionary,
    settings: Settings,
) -> list[list[int]]:
    """Return the groups of channels that share a voice; each one alone if none may be linked."""
    # If nothing may be attenuated, there is nothing to link.
    if settings.channels != "linked" or len(channels) == 1 or least_gain(settings) == 1:
        return [[k] for k in range(len(channels))]
    native = native_grid(model, channels[0].spectra.rate)
    spectra = [each.spectra.spectrum_on(native) for each in channels]
    return sharing_groups(spectra, gains)


def _estimate(
    channel: SegmentPosterior,
    speech: Floats,
    gains: tuple[Floats, Floats],
    weights: Weights,
    settings: Settings,
    *,
    staged: bool,
) -> ChannelEstimate:
    """Return a channel's estimate: its speech with gain, activity and measures of the chain.

    `speech`: after link 5 if `staged`, otherwise after link 4, shape (samples,). `gains`: gain and
    standard deviation after link 3, shape (bins, frames).
    """
    rate, (gain, gain_std) = channel.spectra.rate, gains
    native = native_grid(weights.dictionary, rate)
    spectrum = channel.whole.spectrum_on(native)
    power, least = np.abs(spectrum) ** 2, least_gain(settings)
    final = np.maximum(gain, least)
    if staged:
        output = Spectra(speech, rate).spectrum_on(native)
        final = uncertainty.output_gain(spectrum, output, least)
    if settings.refine and weights.refiner is not None:
        gain_std = uncertainty.network_gain_std(power, final, native.frequencies)
    return ChannelEstimate(
        speech=speech / channel.scale,
        gain=final,
        gain_std=gain_std,
        acceptance=channel.high.acceptance,
        activity=probability(power, gain, native),
        agreement=channel.agreement,
    )


def _audible(powers: Sequence[Floats]) -> Iterator[tuple[list[int], NDArray[np.bool_]]]:
    """Group clips that can be sampled together; yield each group with a mask of audible frames.

    Digital silence is excluded, because the model's noise has about the same level in all frames
    and would have to vanish to explain it.
    """
    whole: dict[int, list[int]] = {}
    for k, power in enumerate(powers):
        audible = power.mean(axis=0) > FLOOR * power.mean()
        if audible.all():
            whole.setdefault(len(power), []).append(k)
        elif audible.any():
            yield [k], audible
    for group in whole.values():
        yield group, np.ones(powers[group[0]].shape[1], bool)


def _alike(
    group: list[int], frames: NDArray[np.bool_], noises: Sequence[Reals | None]
) -> Iterator[tuple[list[int], NDArray[np.bool_]]]:
    """Yield a group's clips without known noise, then those with it, each time with `frames`."""
    for known in (False, True):
        chosen = [k for k in group if (noises[k] is not None) == known]
        if chosen:
            yield chosen, frames
