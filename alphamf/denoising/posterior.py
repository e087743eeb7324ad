"""The posterior of speech and noise given a power spectrogram, by a chain on alpha-MF."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from alphamf.denoising.channel import Channel
from alphamf.denoising.settings import Settings, kernel
from alphamf.factorization.alpha_mf import AlphaMF, Source
from alphamf.factorization.potential import AlphaMFPotential
from alphamf.factorization.stacking import stack, unstack
from alphamf.inference.chain import run
from alphamf.inference.random import START, Key, generator
from alphamf.inference.records import Mean, Statistic
from alphamf.learnt.dictionary import Dictionary
from alphamf.tools.arrays import Array, namespace

QUIETEST = 1e-6
"""Least mean power of a bin, as a fraction of the mean over bins, that counts as sound."""

SPEECH_LEVEL = 2e-3
"""Scale at which H_speech starts, about as far below the mean power as the noise: EM keeps to the
mode that it meets first, and goes wrong where either source starts much louder than the other."""

VARIANCE_THIN = 6
"""Distance between the steps whose variances are averaged: these need fewer than the gain."""

Progress = Callable[[float], None]
"""Called with the number of steps made."""


class Posterior(NamedTuple):
    """Posterior summaries of a power spectrogram; arrays have its shape.

    Attributes
    ----------
    gain, gain_std
        Mean and standard deviation of the speech's Wiener gain.
    speech, noise
        Means of the variances v^(2/alpha) of both sources, in the power's units.
    acceptance
        Acceptance of the Phi moves of speech and noise.
    """

    gain: Array
    gain_std: Array
    speech: Array
    noise: Array
    acceptance: list[float]


def sample_posterior(
    power: Array,
    dictionary: Dictionary,
    settings: Settings,
    stream: tuple[int, int],
    progress: Progress | None = None,
) -> Posterior:
    """Sample the posterior of speech and noise given |X|^2.

    Parameters
    ----------
    power
        |X|^2, shape (bins, frames) or (clips, bins, frames), nowhere zero throughout a clip.
    dictionary
        The speech's W.
    settings
        Of the run.
    stream
        Seed and stream number.
    progress
        Called after every step.

    Raises
    ------
    AlphaMFError
        The chain diverged.
    """
    summary = _Summary(settings, dictionary.context, power.ndim - 2)
    level, acceptance = sample(power, dictionary, settings, stream, summary.add, progress)
    speech, noise = (variance.mean * level for variance in summary.variances)
    return Posterior(summary.gain.mean, summary.gain.std, speech, noise, acceptance)


class _Summary:
    """Means of the gain and of both variances, for which W H is evaluated once a state.

    Parameters
    ----------
    settings
        Of the run.
    context
        Frames stacked in a column.
    apart
        Number of axes of clips.
    """

    def __init__(self, settings: Settings, context: int, apart: int) -> None:
        def mean(statistic: Statistic, thin: int) -> Mean:
            burn_in = settings.steps - settings.keep
            return Mean(statistic, burn_in=burn_in, thin=min(thin, settings.keep), apart=apart)

        def gain(theta: Array, potential: AlphaMFPotential) -> Array:
            return unstack(potential.gain(theta, 0), context)

        def variance(source: int, theta: Array, potential: AlphaMFPotential) -> Array:
            return unstack(potential.variance(theta, source), context)

        self.gain = mean(gain, settings.thin)
        self.variances = [mean(partial(variance, s), VARIANCE_THIN) for s in range(2)]

    def add(self, state: Any, target: AlphaMF) -> None:
        """Take in one state."""
        potential = target.potential()
        for record in (self.gain, *self.variances):
            record.add(state, potential)


def sample(
    power: Array,
    dictionary: Dictionary,
    settings: Settings,
    stream: tuple[int, int],
    observe: Callable[[Any, AlphaMF], None],
    progress: Progress | None = None,
) -> tuple[Array, list[float]]:
    """Run the chain of `sample_posterior`, and show every state to `observe`.

    Parameters
    ----------
    power, dictionary, settings, stream, progress
        As in `sample_posterior`.
    observe
        Called with every state and the target.

    Returns
    -------
    level : ndarray
        The units of power that the model works in, shape (..., bins, 1).
    acceptance : list of float
        Of the Phi moves of speech and noise.
    """
    level = bin_levels(power)
    target = AlphaMF(
        stack(power / level, dictionary.context),
        sources(dictionary, settings, level),
        blocks=settings.blocks,
    )
    seed, number = stream
    chains = (settings.chains,) if settings.chains > 1 else ()
    channel = _channel(target, dictionary, settings)
    # A chain that diverges raises one sentence; numpy need not warn as well.
    with np.errstate(all="ignore"):
        start = target.start(
            generator(seed, Key.CHAIN + number, START, xp=namespace(power)), chains
        )
        start = warm_up(target, start, settings.warm_up, seed, number)
        for state in run(
            target,
            kernel(settings.sampler),
            steps=settings.steps,
            seed=seed,
            chain=number,
            start=start,
        ):
            observe(state, target)
            if channel:
                channel.move(state)
            if progress:
                progress(state.step)
    return level, target.acceptance


def bin_levels(power: Array) -> Array:
    """Return the mean power of every bin, shape (..., bins, 1): the units of the model.

    In these, factors of speech and noise, loud bins and faint ones are all of order one, without
    which no kernel of a single step size can move them together.
    """
    xp = namespace(power)
    level = power.mean(axis=-1, keepdims=True)
    levels: Array = xp.maximum(level, QUIETEST * level.mean(axis=-2, keepdims=True))
    return levels


def _channel(target: AlphaMF, dictionary: Dictionary, settings: Settings) -> Channel | None:
    if not settings.learn_channel:
        return None
    spacing = dictionary.rate / dictionary.frame.n_fft
    burn_in = settings.steps - settings.keep
    return Channel(target, 0, dictionary.context, spacing, burn_in)


def warm_up(target: AlphaMF, start: Array, steps: int, seed: int, number: int) -> Array:
    """Return where EM takes a chain: near the mode, which a sampler may then leave.

    Parameters
    ----------
    target
        The model.
    start
        Starting value, shape (..., D).
    steps
        Of EM.
    seed, number
        Seed and stream number of the chain.
    """
    for state in run(
        target, kernel("em"), steps=steps, seed=seed, chain=Key.WARM_UP + number, start=start
    ):
        start = state.theta
    return start


def sources(dictionary: Dictionary, settings: Settings, level: Array) -> list[Source]:
    """Return the speech and the noise source for power in units of `level`.

    The columns of W get a mean of one. Another alpha keeps the shape of their spectra.

    Parameters
    ----------
    dictionary, settings
        Of the run.
    level
        As from `bin_levels`, shape (..., bins, 1).
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
