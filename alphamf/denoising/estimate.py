"""One stretch of one channel: from sound to the posterior, to the speech's gain, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphamf.audio import stft
from alphamf.audio.resample import resample
from alphamf.audio.stft import Frame
from alphamf.denoising.channel import Channel
from alphamf.denoising.settings import Settings, kernel
from alphamf.factorization.alpha_mf import FLOOR, AlphaMF, Source
from alphamf.factorization.stacking import stack, unstack
from alphamf.inference.chain import run
from alphamf.inference.protocols import Record
from alphamf.inference.random import START, Key, generator
from alphamf.inference.records import Mean
from alphamf.learnt import second_stage
from alphamf.learnt.dictionary import Dictionary
from alphamf.learnt.refiner import Refiner, choose_fine
from alphamf.learnt.refiner import choose as choose_refiner
from alphamf.tools.arrays import Array, Floats, namespace, to_host

BAND_TOP = (0.85, 0.95)
"""Where the top of the dictionary's band is read, in shares of it: below the resampler's edge."""

QUIETEST = 1e-6
"""Least mean power of a bin, as a share of the mean over bins, that counts as sound."""

SPEECH_LEVEL = 2e-3
"""Scale at which H_speech starts, about as far below the mean power as the noise: EM keeps to the
mode that it meets first, and goes wrong where either source starts much louder than the other."""

VARIANCE_THIN = 6
"""Distance between the steps whose variances are averaged: these need fewer than the gain."""


class Estimate(NamedTuple):
    """Speech of the stretch, shape (samples,); gain and deviation have shape (bins, frames).

    The speech is what the gain leaves of the sound, or what a second look made of that.
    """

    speech: Floats
    gain: Floats
    gain_std: Floats
    acceptance: list[float]


def native_frame(model: Dictionary | Refiner, rate: int) -> Frame:
    """Return the frame at `rate` that lasts as long as the model's."""
    overlap = model.frame.n_fft // model.frame.hop_length
    hop = max(1, round(model.frame.hop_length * rate / model.rate))
    return Frame(hop * overlap, hop)


def estimate(
    sounds: Sequence[Floats],
    rate: int,
    dictionary: Dictionary,
    settings: Settings,
    stream: tuple[int, int],
    xp: Any,
    tick: Callable[[float], None],
) -> list[Estimate]:
    """Estimate the speech in stretches of sound of one length, by chains that move together.

    The model works at the dictionary's rate. Its gain is interpolated to the STFT at the sound's
    own rate; what lies above the dictionary's band follows the gain of the band's top. So do the
    shares of a second look.

    Parameters
    ----------
    sounds
        Finite samples, float32, each of shape (samples,).
    rate
        Sampling rate in Hz.
    stream
        Seed and stream number, of all of them.
    xp
        Array module that samples.
    tick
        Called with the steps made so far, `Settings.steps` in all.
    """
    frame = native_frame(dictionary, rate)
    # Powers of two, so that scaling is exact, and squares neither overflow nor vanish.
    scales = [np.float32(2.0) ** -int(np.frexp(np.abs(sound).max())[1]) for sound in sounds]
    powers = []
    for sound, scale in zip(sounds, scales, strict=True):
        heard = sound * scale
        if rate != dictionary.rate:
            heard = resample(heard, rate, dictionary.rate)
        powers.append(np.abs(stft.forward(heard, dictionary.frame)) ** 2)
    # What nobody hears keeps the gain of one.
    gains = [np.ones_like(power) for power in powers]
    stds = [np.zeros_like(power) for power in powers]
    acceptances = [[1.0, 1.0]] * len(powers)
    groups = list(_heard(powers))
    refiner = choose_refiner(dictionary) if settings.refine else None
    second = choose_fine(dictionary) if refiner else None
    for done, (group, frames) in enumerate(groups):

        def share(steps: float, done: int = done) -> None:
            tick((done * settings.steps + steps) / len(groups))

        chosen = [powers[k][:, frames] for k in group]
        power = xp.asarray(chosen[0] if len(chosen) == 1 else np.stack(chosen))
        posterior = sample_posterior(power, dictionary, settings, stream, share)
        pair = posterior.gain, posterior.gain_std
        if refiner:
            pair = refiner.refine(
                power,
                gain=posterior.gain,
                gain_std=posterior.gain_std,
                speech=posterior.speech,
                noise=posterior.noise,
            )
        shape = (len(chosen), *chosen[0].shape)
        found = (to_host(each).reshape(shape) for each in pair)
        for k, gain, gain_std in zip(group, *found, strict=True):
            gains[k][:, frames], stds[k][:, frames] = gain, gain_std
            acceptances[k] = posterior.acceptance
    estimates = []
    for sound, scale, gain, gain_std, acceptance in zip(
        sounds, scales, gains, stds, acceptances, strict=True
    ):
        spectrum = stft.forward(sound * scale, frame)
        if rate != dictionary.rate:
            axes = _positions(dictionary, rate, frame, spectrum.shape)
            gain, gain_std = _interpolate(gain, *axes), _interpolate(gain_std, *axes)
        limit = np.inf if settings.max_attenuation is None else settings.max_attenuation
        least = np.float32(10 ** (-limit / 20))
        limited = np.maximum(gain, least)
        # Silence is not looked at again, nor what nothing may be taken from.
        if second and least < 1 and sound.any():
            speech = stft.inverse(spectrum * gain, frame, len(sound))
            speech = _look_again(second, sound * scale, speech, rate, least, xp)
        else:
            speech = stft.inverse(spectrum * limited, frame, len(sound))
        estimates.append(Estimate(speech / scale, limited, gain_std, acceptance))
    return estimates


def _look_again(
    second: Refiner, sound: Floats, speech: Floats, rate: int, least: np.float32, xp: Any
) -> Floats:
    """Return the speech, shape (samples,), that a second look makes of a sound and a first one."""
    frame = native_frame(second, rate)
    spectra = [stft.forward(each, frame) for each in (sound, speech)]
    at_rate = spectra
    if rate != second.rate:
        at_rate = [
            stft.forward(resample(each, rate, second.rate), second.frame)
            for each in (sound, speech)
        ]
    shares = [to_host(each) for each in second_stage.shares(second, *map(xp.asarray, at_rate))]
    if rate != second.rate:
        axes = _positions(second, rate, frame, spectra[0].shape)
        shares = [_interpolate(each, *axes) for each in shares]
    found = shares[0] * spectra[0] + shares[1] * spectra[1]
    if least:
        found = np.where(np.abs(found) < least * np.abs(spectra[0]), least * spectra[0], found)
    return stft.inverse(found, frame, len(sound))


def _heard(powers: Sequence[Floats]) -> Iterator[tuple[list[int], NDArray[np.bool_]]]:
    """Yield clips that may move together, with the frames of them that can be heard.

    Digital silence is no part of a recording's noise: a noise that is about as loud all the time,
    as the model's is, would have to vanish to allow for it.
    """
    whole = []
    for k, power in enumerate(powers):
        heard = power.mean(axis=0) > FLOOR * power.mean()
        if heard.all():
            whole.append(k)
        elif heard.any():
            yield [k], heard
    if whole:
        yield whole, np.ones(powers[whole[0]].shape[1], bool)


class Posterior(NamedTuple):
    """What a chain finds out about a power spectrogram; arrays have its shape.

    Attributes
    ----------
    gain, gain_std
        Mean and standard deviation of the speech's Wiener gain.
    speech, noise
        Means of the variances v^(2/alpha) of both sources, in the power's units.
    acceptance
        Acceptance of the Phi moves of speech and noise.
    """

    gain: Floats
    gain_std: Floats
    speech: Floats
    noise: Floats
    acceptance: list[float]


def sample_posterior(
    power: Floats,
    dictionary: Dictionary,
    settings: Settings,
    stream: tuple[int, int],
    tick: Callable[[float], None],
) -> Posterior:
    """Sample the posterior of speech and noise given |X|^2.

    Parameters
    ----------
    power
        |X|^2, shape (bins, frames) or (clips, bins, frames), nowhere zero throughout a clip.

    Raises
    ------
    AlphaMFError
        The chain diverged.
    """
    context = dictionary.context
    kept = {"burn_in": settings.steps - settings.keep, "apart": power.ndim - 2}
    gain = Mean(
        lambda theta, target: unstack(target.gain(theta), context),
        thin=min(settings.thin, settings.keep),
        **kept,
    )
    variances = [
        Mean(
            partial(_variance, source=source, context=context),
            thin=min(VARIANCE_THIN, settings.keep),
            **kept,
        )
        for source in range(2)
    ]
    level, acceptance = sample(power, dictionary, settings, stream, [gain, *variances], tick)
    speech, noise = (variance.mean * level for variance in variances)
    return Posterior(gain.mean, gain.std, speech, noise, acceptance)


def sample(
    power: Floats,
    dictionary: Dictionary,
    settings: Settings,
    stream: tuple[int, int],
    records: Sequence[Record],
    tick: Callable[[float], None],
) -> tuple[Floats, list[float]]:
    """Run the chain of `sample_posterior`, and let `records` take in every state.

    Returns
    -------
    level : ndarray
        The units of power that the model works in, shape (..., bins, 1).
    acceptance : list of float
        Of the Phi moves of speech and noise.
    """
    context = dictionary.context
    xp = namespace(power)
    # In units of each bin's mean power, factors of speech and noise, loud bins and faint ones are
    # all of order one, without which no kernel of a single step size can move them together.
    level = power.mean(axis=-1, keepdims=True)
    level = xp.maximum(level, QUIETEST * level.mean(axis=-2, keepdims=True))
    target = AlphaMF(
        stack(power / level, context), sources(dictionary, settings, level), blocks=settings.blocks
    )
    seed, number = stream
    chains = (settings.chains,) if settings.chains > 1 else ()
    spacing = dictionary.rate / dictionary.frame.n_fft
    burn_in = settings.steps - settings.keep
    channel = Channel(target, 0, context, spacing, burn_in) if settings.learn_channel else None
    # A chain that diverges is told of in one sentence; numpy need not warn as well.
    with np.errstate(all="ignore"):
        start = target.start(generator(seed, Key.CHAIN + number, START, xp=xp), chains)
        start = warm_up(target, start, settings.warm_up, seed, number)
        for state in run(
            target,
            kernel(settings.sampler),
            steps=settings.steps,
            seed=seed,
            chain=number,
            start=start,
        ):
            for record in records:
                record.add(state, target)
            if channel:
                channel.move(state)
            tick(state.step)
    return level, target.acceptance


def _variance(theta: Array, target: AlphaMF, source: int, context: int) -> Array:
    return unstack(target.variance(theta, source), context)


def warm_up(target: AlphaMF, start: Array, steps: int, seed: int, number: int) -> Array:
    """Return where EM takes a chain from `start`: near the mode that a sampler may then leave."""
    for state in run(
        target, kernel("em"), steps=steps, seed=seed, chain=Key.WARM_UP + number, start=start
    ):
        start = state.theta
    return start


def sources(dictionary: Dictionary, settings: Settings, level: Floats) -> list[Source]:
    """Return the speech and the noise source for power in units of `level`, shape (..., bins, 1).

    The columns of W get a mean of one. Another alpha keeps the shape of their spectra.
    """
    xp = namespace(level)
    alpha = settings.alpha_speech or dictionary.alpha
    basis = xp.asarray(dictionary.basis) ** np.float32(alpha / dictionary.alpha)
    basis = basis / xp.tile(level, (dictionary.context, 1)) ** np.float32(alpha / 2)
    basis /= basis.mean(axis=-2, keepdims=True)
    return [
        Source(
            alpha, dictionary.rank, basis, prior_gains=settings.speech_prior, level=SPEECH_LEVEL
        ),
        Source(
            settings.alpha_noise,
            settings.noise_rank,
            prior_basis=settings.prior_noise_basis,
            prior_gains=settings.prior_noise,
        ),
    ]


def _positions(
    model: Dictionary | Refiner, rate: int, frame: Frame, shape: tuple[int, ...]
) -> tuple[Floats, Floats]:
    """Where the bins and frames at `rate` lie on the model's grid."""
    seconds = model.frame.n_fft / model.rate
    bins = np.arange(shape[0]) * (rate / frame.n_fft * seconds)
    step = model.frame.hop_length / model.rate
    return bins, np.arange(shape[1]) * (frame.hop_length / rate / step)


def _interpolate(gain: Floats, bins: Floats, frames: Floats) -> Floats:
    """Interpolate linearly; above the band, take the mean of the band's top."""
    low, high = (int(share * (gain.shape[0] - 1)) for share in BAND_TOP)
    top = gain[low : high + 1].mean(axis=0, keepdims=True)
    gain = np.concatenate([gain[: high + 1], top])
    for axis, positions in enumerate((bins, frames)):
        at = np.minimum(positions, gain.shape[axis] - 1)
        first = np.minimum(at.astype(int), max(gain.shape[axis] - 2, 0))
        second = np.minimum(first + 1, gain.shape[axis] - 1)
        share = (at - first).astype(np.float32)
        share = share[:, None] if axis == 0 else share
        gain = gain.take(first, axis) * (1 - share) + gain.take(second, axis) * share
    return gain
