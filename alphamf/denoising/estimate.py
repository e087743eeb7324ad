"""Segments of one length, of one channel each: from sound to the posterior to clean speech.

`sampled` is the first half, channel by channel; in `finished` channels may be linked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphamf.denoising.gain import Estimate, least_gain, moved, refined, separate
from alphamf.denoising.grids import Spectra, grid_of
from alphamf.denoising.linked import linked
from alphamf.denoising.posterior import sample_posterior
from alphamf.denoising.sampling import Progress
from alphamf.denoising.settings import Settings
from alphamf.denoising.weights import Weights
from alphamf.factorization.alpha_mf import FLOOR
from alphamf.tools.arrays import Floats, Reals, to_host
from alphamf.tools.blas import one_thread


class Sampled(NamedTuple):
    """A segment of one channel whose gain is found.

    Attributes
    ----------
    spectra
        The segment, scaled.
    scale
        A power of two.
    gains
        Gain and standard deviation on the dictionary's grid, shape (bins, frames).
    before
        The gain before the refiner, likewise.
    acceptance
        As in `Estimate`.
    """

    spectra: Spectra
    scale: np.float32
    gains: tuple[Floats, Floats]
    before: Floats
    acceptance: list[float]


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
    """Find the gains of sounds of one length, by chains that move together.

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
    # Powers of two, so that scaling is exact, and squares neither overflow nor vanish.
    scales = [np.float32(2.0) ** -int(np.frexp(np.abs(sound).max())[1]) for sound in sounds]
    spectra = [Spectra(sound * scale, rate) for sound, scale in zip(sounds, scales, strict=True)]
    grid = grid_of(weights.dictionary)
    powers = [np.abs(each.on(grid)) ** 2 for each in spectra]
    # Digital silence keeps a gain of one.
    gains = [(np.ones_like(power), np.zeros_like(power)) for power in powers]
    befores = [np.ones_like(power) for power in powers]
    acceptances = [[1.0, 1.0]] * len(powers)
    groups = [group for each in _audible(powers) for group in _alike(*each, noises)]
    for done, (group, frames) in enumerate(groups):

        def advance(steps: float, done: int = done) -> None:
            progress((done * settings.steps + steps) / len(groups))

        chosen = [powers[k][:, frames] for k in group]
        power = xp.asarray(chosen[0] if len(chosen) == 1 else np.stack(chosen))
        # In the units of the scaled sounds.
        known = [
            (noise * np.float64(scales[k]) ** settings.alpha_noise).astype(np.float32)
            for k in group
            if (noise := noises[k]) is not None
        ]
        noise = None if not known else known[0] if len(known) == 1 else np.stack(known)
        posterior = sample_posterior(power, weights.dictionary, settings, stream, advance, noise)
        found = refined(power, posterior, weights.refiner if settings.refine else None)
        shape = (len(chosen), *chosen[0].shape)
        gain, gain_std, before = (to_host(each).reshape(shape) for each in (*found, posterior.gain))
        for place, k in enumerate(group):
            gains[k][0][:, frames], gains[k][1][:, frames] = gain[place], gain_std[place]
            befores[k][:, frames] = before[place]
            acceptances[k] = posterior.acceptance
    return [
        Sampled(*each) for each in zip(spectra, scales, gains, befores, acceptances, strict=True)
    ]


@one_thread()
def finished(
    channels: Sequence[Sampled], weights: Weights, settings: Settings, xp: Any
) -> list[Estimate]:
    """Estimate the speech in the channels of a segment, linked where the settings say so.

    Parameters
    ----------
    channels
        All of the segment, each once.
    weights, settings
        Of the run.
    xp
        Array module that the networks run on.
    """
    spectra, scales, gains, befores, acceptances = (
        list(each) for each in zip(*channels, strict=True)
    )
    gains = [moved(*each, weights.dictionary) for each in zip(spectra, gains, strict=True)]
    # Where nothing may be taken away, there is nothing to link.
    if settings.channels == "linked" and len(channels) > 1 and least_gain(settings) < 1:
        found = linked(spectra, gains, befores, acceptances, weights, settings, xp)
    else:
        found = [
            separate(*each, weights, settings, xp)
            for each in zip(spectra, gains, acceptances, strict=True)
        ]
    return [
        one._replace(speech=one.speech / scale) for one, scale in zip(found, scales, strict=True)
    ]


def _audible(powers: Sequence[Floats]) -> Iterator[tuple[list[int], NDArray[np.bool_]]]:
    """Yield clips that may move together, with their audible frames.

    Digital silence is no part of a recording's noise: a noise that is about as loud all the time,
    as the model's is, would have to vanish to allow for it.
    """
    whole = []
    for k, power in enumerate(powers):
        audible = power.mean(axis=0) > FLOOR * power.mean()
        if audible.all():
            whole.append(k)
        elif audible.any():
            yield [k], audible
    if whole:
        yield whole, np.ones(powers[whole[0]].shape[1], bool)


def _alike(
    group: list[int], frames: NDArray[np.bool_], noises: Sequence[Reals | None]
) -> Iterator[tuple[list[int], NDArray[np.bool_]]]:
    """Yield the clips of a group whose noise is known, and those whose noise is not."""
    for known in (False, True):
        chosen = [k for k in group if (noises[k] is not None) == known]
        if chosen:
            yield chosen, frames
