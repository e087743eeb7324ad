"""Sample the posterior of speech and noise given a power spectrogram, with alpha-MF."""

from __future__ import annotations

from typing import Any, NamedTuple

from alphamf.denoising.sampling import Progress, sample
from alphamf.denoising.settings import Settings
from alphamf.factorization.alpha_mf import AlphaMF
from alphamf.factorization.stacking import unstack
from alphamf.inference.diagnostics import Moments, merge_moments
from alphamf.inference.records import Mean
from alphamf.learnt.dictionary import Dictionary
from alphamf.tools.arrays import Array, Floats

LEAST_OF_HALF = 2
"""Minimum number of draws of half a chain that have a variance."""

VARIANCE_THIN = 6
"""Distance between the steps whose variances are averaged: these need fewer than the gain."""


class Chains(NamedTuple):
    """Results of the individual chains."""

    posteriors: list[Posterior]  # Posterior of each chain
    # Moments of the gain over the first and the second half of the kept draws, shape (chains, ...);
    # None if there are too few draws.
    halves: tuple[Moments, Moments] | None

    def rows(self, which: slice) -> Chains:
        """Select frequency bins."""
        halves = None
        if self.halves is not None:
            first, second = (
                each._replace(mean=each.mean[..., which, :], variance=each.variance[..., which, :])
                for each in self.halves
            )
            halves = first, second
        return Chains([each.rows(which) for each in self.posteriors], halves)


class Posterior(NamedTuple):
    """Posterior summaries of a power spectrogram; the arrays have its shape."""

    # gain, gain_std: mean and standard deviation of the speech's Wiener gain.
    gain: Array
    gain_std: Array
    # speech, noise: means of the variances v^(2/alpha) of both sources, in the power's units.
    speech: Array
    noise: Array
    acceptance: list[float]  # Acceptance, as from `sample`
    draws: int  # Number of draws of the gain that each chain kept
    chains: Chains | None = None  # Results of each chain; None for a single chain.

    @property
    def arrays(self) -> tuple[Array, Array, Array, Array]:
        """The four arrays: gain, gain_std, speech and noise."""
        return self.gain, self.gain_std, self.speech, self.noise

    def rows(self, which: slice) -> Posterior:
        """Select frequency bins."""
        gain, gain_std, speech, noise = (each[..., which, :] for each in self.arrays)
        chains = None if self.chains is None else self.chains.rows(which)
        return Posterior(
            gain, gain_std, speech, noise, self.acceptance, draws=self.draws, chains=chains
        )


def sample_posterior(
    power: Array,
    dictionary: Dictionary,
    settings: Settings,
    stream: tuple[int, int],
    progress: Progress | None = None,
    noise: Array | None = None,
    shares: Floats | None = None,
) -> Posterior:
    """Sample the posterior of speech and noise given |X|^2.

    `power`: |X|^2, shape (bins, frames) or (clips, bins, frames), nowhere zero throughout a clip.
    """
    summary = _Summary(settings, dictionary.context, power.ndim - 2)
    level, acceptance = sample(
        power, dictionary, settings, stream, summary, progress, noise, shares
    )
    return summary.posterior(level, acceptance)


class _Summary:
    """Running means of the gain and of both variances; steps of a chain may add gains directly.

    Several chains have separate means.
    """

    def __init__(self, settings: Settings, context: int, clips: int) -> None:
        burn_in, thin = settings.steps - settings.keep, min(settings.thin, settings.keep)
        self._several = settings.chains > 1
        apart = clips + self._several

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

        self._gains = [Mean(gain, burn_in=burn_in, thin=thin, apart=apart)]
        draws = settings.keep // thin
        if self._several and draws >= 2 * LEAST_OF_HALF:
            middle = burn_in + draws // 2 * thin
            self._gains.append(Mean(gain, burn_in=middle, thin=thin, apart=apart))
        thin = min(VARIANCE_THIN, settings.keep)
        self._variances = [
            Mean(each, burn_in=burn_in, thin=thin, apart=apart) for each in (speech, noise)
        ]

    def add(self, state: Any, target: AlphaMF) -> None:
        """Add one state of the chain."""
        first, last = self._gains[0], self._gains[-1]
        (last if state.step > last.burn_in else first).add(state, target)
        for record in self._variances:
            record.add(state, target)

    def needs_gain(self, step: int) -> bool:
        """Return whether the draw of a step is to store the gain; the first is at the start."""
        return step > 1 and self._gains[0].keeps(step)

    def posterior(self, level: Array, acceptance: list[float]) -> Posterior:
        """Return the posterior, given the units of power and the acceptance of the Phi moves."""
        speech, noise = (variance.mean * level for variance in self._variances)
        if not self._several:
            (gain,) = self._gains
            return Posterior(gain.mean, gain.std, speech, noise, acceptance, gain.count)
        parts = [Moments(each.count, each.mean, each.std**2) for each in self._gains]
        whole = parts[0] if len(parts) == 1 else merge_moments(*parts)
        found = whole.mean, whole.variance**0.5, speech, noise
        chains = Chains(
            [Posterior(*each, acceptance, whole.draws) for each in zip(*found, strict=True)],
            None if len(parts) == 1 else (parts[0], parts[1]),
        )
        return Posterior(
            whole.mean.mean(0),
            whole.pooled_variance**0.5,
            speech.mean(0),
            noise.mean(0),
            acceptance,
            whole.draws,
            chains,
        )
