"""The posterior of speech and noise given a power spectrogram, by a chain on alpha-MF."""

from __future__ import annotations

from typing import Any, NamedTuple

from alphamf.denoising.sampling import Progress, sample
from alphamf.denoising.settings import Settings
from alphamf.factorization.alpha_mf import AlphaMF
from alphamf.factorization.stacking import unstack
from alphamf.inference.records import Mean, Statistic
from alphamf.learnt.dictionary import Dictionary
from alphamf.tools.arrays import Array

VARIANCE_THIN = 6
"""Distance between the steps whose variances are averaged: these need fewer than the gain."""


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

    @property
    def arrays(self) -> tuple[Array, Array, Array, Array]:
        """All but the acceptance."""
        return self.gain, self.gain_std, self.speech, self.noise

    def rows(self, which: slice) -> Posterior:
        """Return the same of some of the bins."""
        gain, gain_std, speech, noise = (each[..., which, :] for each in self.arrays)
        return Posterior(gain, gain_std, speech, noise, self.acceptance)


def sample_posterior(
    power: Array,
    dictionary: Dictionary,
    settings: Settings,
    stream: tuple[int, int],
    progress: Progress | None = None,
    noise: Array | None = None,
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
    noise
        As for `sample`.

    Raises
    ------
    AlphaMFError
        The chain diverged.
    """
    summary = _Summary(settings, dictionary.context, power.ndim - 2)
    level, acceptance = sample(power, dictionary, settings, stream, summary.add, progress, noise)
    speech, noise = (variance.mean * level for variance in summary.variances)
    return Posterior(summary.gain.mean, summary.gain.std, speech, noise, acceptance)


class _Summary:
    """Means of the gain, which steps note on their way where they can, and of both variances.

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

        def gain(theta: Array, target: AlphaMF) -> Array:
            noted = target.notes.gain
            return unstack(target.gain(theta, 0) if noted is None else noted, context)

        def speech(theta: Array, target: AlphaMF) -> Array:
            return unstack(target.variance(theta, 0), context)

        def noise(theta: Array, target: AlphaMF) -> Array:
            whole = target.variance(theta, 1)
            for source in range(2, len(target.sources)):
                whole = whole + target.variance(theta, source)
            return unstack(whole, context)

        self.gain = mean(gain, settings.thin)
        self.variances = [mean(each, VARIANCE_THIN) for each in (speech, noise)]

    def add(self, state: Any, target: AlphaMF) -> None:
        """Take in one state."""
        for record in (self.gain, *self.variances):
            record.add(state, target)
        target.notes.wants_gain = self.gain.keeps(state.step + 1)
