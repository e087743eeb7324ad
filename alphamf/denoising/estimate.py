"""From segments of equal length, one channel each, to clean speech.

`sampled` is the first half, channel by channel; in `finished` channels may be linked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphamf.denoising import high_bands
from alphamf.denoising.agreement import Agreement, agreements
from alphamf.denoising.gain import Estimate, least_gain, moved, refined, separate
from alphamf.denoising.grids import Spectra, grid_of
from alphamf.denoising.known_noise import lowest_rows
from alphamf.denoising.linked import linked
from alphamf.denoising.posterior import Posterior, sample_posterior
from alphamf.denoising.sampling import Progress
from alphamf.denoising.settings import Settings
from alphamf.denoising.weights import Weights
from alphamf.factorization.alpha_mf import FLOOR
from alphamf.learnt.dictionary import Dictionary
from alphamf.tools import allocator
from alphamf.tools.arrays import Array, Floats, Reals, to_host
from alphamf.tools.blas import one_thread


class Sampled(NamedTuple):
    """A segment of one channel whose gain has been sampled.

    Attributes
    ----------
    spectra
        The segment, scaled.
    scale
        A power of two.
    gains
        Gain after link 2 and its standard deviation on the dictionary's grid, shape (bins, frames).
    before
        The posterior mean of the gain, likewise.
    high
        Posterior of the bands above in which there is sound, shape (bands, frames).
    agreement
        As in `Estimate`.
    """

    spectra: Spectra
    scale: np.float32
    gains: tuple[Floats, Floats]
    before: Floats
    high: Posterior
    agreement: Agreement | None


@one_thread()
def sampled(
    sounds: Sequence[Floats],
    rate: int,
    weights: Weights,
    settings: Settings,
    stream: tuple[int, int],
    xp: Any,
    progress: Progress,
    noises: Sequence[Reals | None],
) -> list[Sampled]:
    """Sample the gains of sounds of equal length, with all chains in one array.

    Parameters
    ----------
    sounds
        Finite samples, float32, each of shape (samples,).
    rate
        Sampling rate in Hz.
    weights, settings
        Of the run.
    stream
        Seed and stream number, of all of them.
    xp
        Array module that samples.
    progress
        Called with the steps made so far, `Settings.steps` in all.
    noises
        For each sound the known spectra of its noise, or None.
    """
    allocator.settle()
    # Powers of two, so that scaling is exact, and squares neither overflow nor vanish.
    scales = [np.float32(2.0) ** -int(np.frexp(np.abs(sound).max())[1]) for sound in sounds]
    spectra = [Spectra(sound * scale, rate) for sound, scale in zip(sounds, scales, strict=True)]
    model = weights.dictionary
    powers = [
        high_bands.power(each, model, high_bands.count_modelled_bands(each, model))
        for each in spectra
    ]
    # Digital silence keeps a gain of one.
    found = [_silent(*each, model.bins) for each in zip(spectra, scales, powers, strict=True)]
    grid, bins = grid_of(model), model.bins
    groups = [group for each in _audible(powers) for group in _alike(*each, noises)]
    for done, (group, frames) in enumerate(groups):

        def advance(steps: float, done: int = done) -> None:
            progress((done * settings.steps + steps) / len(groups))

        chosen = [powers[k][:, frames] for k in group]
        wide = model.with_bands(len(chosen[0]) - model.bins)
        noise = _known([(noises[k], scales[k]) for k in group], wide, settings)
        power = xp.asarray(chosen[0] if len(chosen) == 1 else np.stack(chosen))
        posterior = sample_posterior(power, wide, settings, stream, advance, noise)
        network = weights.refiner if settings.refine else None
        refine = partial(refined, power[..., :bins, :], refiner=network)
        low, high = posterior.rows(slice(bins)), posterior.rows(slice(bins, None))
        own = [spectra[k].spectrum_on(grid)[:, frames] for k in group]
        units = [float(scales[k]) ** -2 for k in group]
        agreeing = agreements(own, low, refine, grid.frame, units)
        arrays = [_by_clip(each, len(group)) for each in (*refine(low), low.gain, *high.arrays)]
        for place, k in enumerate(group):
            whole = (*found[k].gains, found[k].before, *found[k].high.arrays)
            for each, part in zip(whole, arrays, strict=True):
                each[:, frames] = part[place]
            found[k] = found[k]._replace(
                high=found[k].high._replace(acceptance=posterior.acceptance),
                agreement=agreeing[place],
            )
    return found


def _by_clip(array: Array, clips: int) -> Floats:
    """Return an array on the host with the shape (clips, rows, frames), also for a single clip."""
    found: Floats = to_host(array)
    return found.reshape(clips, *found.shape[-2:])


def _known(
    noises: Sequence[tuple[Reals | None, np.float32]], model: Dictionary, settings: Settings
) -> Reals | None:
    """Return the known noise spectra in the units of their scaled sounds; None if unknown."""
    known = [
        (lowest_rows(noise, model) * np.float64(scale) ** settings.alpha_noise).astype(np.float32)
        for noise, scale in noises
        if noise is not None
    ]
    return None if not known else known[0] if len(known) == 1 else np.stack(known)


def _silent(spectra: Spectra, scale: np.float32, power: Floats, bins: int) -> Sampled:
    """Return the result for digital silence: a gain of one."""
    low, rows = power[:bins], power[bins:]
    gain_std, speech, noise = (np.zeros_like(rows) for _ in range(3))
    high = Posterior(np.ones_like(rows), gain_std, speech, noise, [1.0, 1.0], draws=0)
    gains = np.ones_like(low), np.zeros_like(low)
    return Sampled(spectra, scale, gains, np.ones_like(low), high, None)


@one_thread()
def finished(
    channels: Sequence[Sampled], weights: Weights, settings: Settings, xp: Any
) -> list[Estimate]:
    """Estimate the speech in the channels of a segment, linked if the settings say so.

    Parameters
    ----------
    channels
        All of the segment, each once.
    weights, settings
        Of the run.
    xp
        Array module that the networks run on.
    """
    spectra, scales, gains, plain, highs, agreed = (
        list(each) for each in zip(*channels, strict=True)
    )
    gains = [moved(*each, weights.dictionary) for each in zip(spectra, gains, highs, strict=True)]
    # Where nothing may be taken away, there is nothing to link.
    if settings.channels == "linked" and len(channels) > 1 and least_gain(settings) < 1:
        found = linked(spectra, gains, plain, highs, weights, settings, xp)
    else:
        found = [
            separate(*each, weights, settings, xp)
            for each in zip(spectra, gains, highs, strict=True)
        ]
    return [
        one._replace(speech=one.speech / scale, agreement=agreement)
        for one, scale, agreement in zip(found, scales, agreed, strict=True)
    ]


def _audible(powers: Sequence[Floats]) -> Iterator[tuple[list[int], NDArray[np.bool_]]]:
    """Group clips that can be sampled together; yield each with a mask of audible frames.

    Digital silence is no part of a recording's noise: a noise that is about as loud all the time,
    as the model's is, would have to vanish to allow for it.
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
    """Split a group into the clips with known noise and those without."""
    for known in (False, True):
        chosen = [k for k in group if (noises[k] is not None) == known]
        if chosen:
            yield chosen, frames
