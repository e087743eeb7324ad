"""Sample the posterior of speech and noise given a power spectrogram, with alpha-MF."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import log10, sqrt
from typing import Any, NamedTuple

import numpy as np

from alphamf.audio import stft
from alphamf.audio.stft import Complexes, Frame
from alphamf.denoising.sampling import Progress, sample
from alphamf.denoising.settings import Settings
from alphamf.factorization.alpha_mf import AlphaMFTarget, unstack
from alphamf.inference.diagnostics import Moments, merge_moments, split_rhat
from alphamf.inference.records import Mean
from alphamf.learnt.dictionary import Dictionary
from alphamf.tools.arrays import Array, Floats, Reals, to_host

LEAST_OF_HALF = 2
"""Minimum number of draws in half a chain from which a variance can be computed."""

VARIANCE_THIN = 6
"""Steps between averaged variances of the sources: these need fewer draws than the gain."""


class Chains(NamedTuple):
    """Results of the individual chains."""

    posteriors: list[Posterior]  # Posterior of each chain
    # Moments of the gain over the first and the second half of the kept draws, shape (chains, ...);
    # None if there are too few draws.
    halves: tuple[Moments, Moments] | None

    def rows(self, which: slice) -> Chains:
        """Return the results for a slice of the frequency bins."""
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
    # speech, noise: posterior means of the variances of both, in the power's units.
    speech: Array
    noise: Array
    acceptance: list[float]  # Proportions of accepted moves, as from `sample`
    draws: int  # Number of draws of the gain that each chain kept
    chains: Chains | None = None  # Results of each chain; None for a single chain.

    @property
    def arrays(self) -> tuple[Array, Array, Array, Array]:
        """The four arrays: gain, gain_std, speech and noise."""
        return self.gain, self.gain_std, self.speech, self.noise

    def rows(self, which: slice) -> Posterior:
        """Return the posterior for a slice of the frequency bins."""
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

    `power`: |X|^2, shape (bins, frames) or (clips, bins, frames). Others: as in `sample`.
    """
    summary = _Summary(settings, dictionary.context, power.ndim - 2)
    level, acceptance = sample(
        power, dictionary, settings, stream, summary, progress, noise, shares
    )
    return summary.posterior(level, acceptance)


class _Summary:
    """Running means of the gain and of both variances, over a chain's kept steps.

    Several chains have separate means.
    """

    def __init__(self, settings: Settings, context: int, clips: int) -> None:
        burn_in, thin = settings.steps - settings.keep, min(settings.thin, settings.keep)
        self._several = settings.chains > 1
        apart = clips + self._several

        def gain(theta: Array, target: AlphaMFTarget) -> Array:
            noted = target.notes.gain
            return unstack(target.gain(theta, 0) if noted is None else noted, context)

        def speech(theta: Array, target: AlphaMFTarget) -> Array:
            return unstack(target.variance(theta, 0), context)

        def noise(theta: Array, target: AlphaMFTarget) -> Array:
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

    def add(self, state: Any, target: AlphaMFTarget) -> None:
        """Add one state of the chain."""
        first, last = self._gains[0], self._gains[-1]
        (last if state.step > last.burn_in else first).add(state, target)
        for record in self._variances:
            record.add(state, target)

    def needs_gain(self, step: int) -> bool:
        """Return whether a step is to store the gain: if it is averaged, except at step 1."""
        return step > 1 and self._gains[0].keeps(step)

    def posterior(self, level: Array, acceptance: list[float]) -> Posterior:
        """Return the posterior, given the units of power and the proportions of accepted moves."""
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


EDGES = np.geomspace(0.7, 70, 1001)
"""Edges of the histogram of the cells' R-hat, half a per cent apart; values outside are counted in
the first or the last class."""


@dataclass(frozen=True, eq=False)
class Agreement:
    """Measures of how well the chains of a run agree; part of a result if ``chains`` is 2 or more.

    Attributes
    ----------
    chains
        Number of chains.
    draws
        Number of draws of the gain that each of them kept.

    Examples
    --------
    >>> import soundfile
    >>> from dataclasses import replace
    >>> from alphamf import PRESETS, denoise
    >>> audio, rate = soundfile.read("data/sample-noisy.wav", frames=32000)
    >>> found = denoise(audio, rate, replace(PRESETS["fast"], chains=2)).agreement
    >>> found.chains, found.draws, found.mcse_db < found.difference_db < 2
    (2, 4, True)
    """

    chains: int
    draws: int
    _output: float
    _apart: float
    _variance: float
    _error: float
    _rhats: Reals | None = field(repr=False)

    def __repr__(self) -> str:
        return (
            f"Agreement({self.chains} chains, difference {self.difference_db:.2f} dB, "
            f"error {self.mcse_db:.2f} dB)"
        )

    @property
    def difference_db(self) -> float:
        """Difference between two chains' outputs, as the output's rise in dB if it is added."""
        return self._decibels(2)

    @property
    def mcse_db(self) -> float:
        """Monte Carlo standard error of the output, as the output's rise in dB if it is added."""
        return self._decibels(1 / self.chains)

    @property
    def ess(self) -> float:
        """Effective sample size of the posterior mean of the gain, over all chains.

        This is the number of independent draws that would give the output the same error: the
        variance of a draw over the squared standard error of the mean, which is estimated from the
        differences between chains; both are summed over the cells, weighted by their power. It is
        at most the number of draws.
        """
        most = self.chains * self.draws
        return most if self._variance >= most * self._error else self._variance / self._error

    @property
    def rhat(self) -> float | None:
        """Median over cells of split R-hat of the gain; None if a chain kept fewer than four draws.

        Cells are weighted by their output power. Independent draws give about 1, silence None.
        """
        return self._quantile(0.5)

    @property
    def rhat_95(self) -> float | None:
        """95th percentile of split R-hat, weighted by the output's power; None as for `rhat`.

        With few draws it is above 1 even if these are independent: 1.16 for two chains of 12.
        """
        return self._quantile(0.95)

    def facts(self) -> dict[str, float | None]:
        """Return all measures by name, as in the JSON object that is printed for a file."""
        names = ("chains", "draws", "rhat", "rhat_95", "ess", "mcse_db", "difference_db")
        return {name: getattr(self, name) for name in names}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Agreement):
            return NotImplemented
        own, others = vars(self).values(), vars(other).values()
        return all(np.array_equal(one, two) for one, two in zip(own, others, strict=True))

    def __add__(self, other: Agreement) -> Agreement:
        """Return the agreement over two sounds, whose numbers of chains and of draws are equal."""
        rhats = None
        if self._rhats is not None and other._rhats is not None:
            rhats = self._rhats + other._rhats
        names = ("_output", "_apart", "_variance", "_error")
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        return replace(self, **sums, _rhats=rhats)

    def _decibels(self, share: float) -> float:
        if not self._output:
            return 0.0
        return 20 * log10(1 + sqrt(share * self._apart / self._output))

    def _quantile(self, probability: float) -> float | None:
        if self._rhats is None or not self._rhats.sum():
            return None
        place = np.searchsorted(self._rhats.cumsum(), probability * self._rhats.sum())
        return float(np.sqrt(EDGES[place] * EDGES[place + 1]))


def sum_agreements(found: Iterable[Agreement | None]) -> Agreement | None:
    """Return the sum of agreements, without those that are None; None if there are no others."""
    present = [each for each in found if each is not None]
    return sum(present[1:], present[0]) if present else None


def agreements(
    spectra: Sequence[Complexes],
    posterior: Posterior,
    refine: Callable[[Posterior], Array],
    frame: Frame,
    units: Sequence[float],
) -> Sequence[Agreement | None]:
    """Compute for each clip how well the chains of a posterior agree; None for a single chain.

    `spectra`: X of each clip, shape (bins, frames). `units`: factors from |X|^2 to true power.
    """
    chains = posterior.chains
    if chains is None:
        return [None] * len(units)
    shape = len(units), *spectra[0].shape
    each_refined = [to_host(refine(each)).reshape(shape) for each in chains.posteriors]
    each_mean = [to_host(each.gain).reshape(shape) for each in chains.posteriors]
    gains, means = np.stack(each_refined, axis=1), np.stack(each_mean, axis=1)
    variances = to_host(posterior.gain_std).reshape(shape) ** 2
    rhats: Sequence[Reals | None] = [None] * len(units)
    if chains.halves is not None:
        rhats = list(split_rhat(*chains.halves).reshape(shape))
    found = zip(spectra, gains, means, variances, rhats, units, strict=True)
    return [_agreement(*each, draws=posterior.draws, frame=frame) for each in found]


def _agreement(
    spectrum: Complexes,
    gains: Reals,
    means: Reals,
    variance: Reals,
    rhat: Reals | None,
    unit: float,
    *,
    draws: int,
    frame: Frame,
) -> Agreement:
    """Compute how well the chains agree on a clip.

    `spectrum`: X, shape (bins, frames). `gains`, `means`: gains of each chain after link 2 and link
    1; shape (chains, bins, frames). `variance`: variance over all draws of the gain, shape (bins,
    frames).
    """
    mean, power = gains.mean(0), unit * np.abs(spectrum).astype(np.float64) ** 2

    def energy(gain: Reals) -> float:
        samples = (spectrum.shape[1] - 1) * frame.hop_length
        return unit * float((stft.inverse(gain * spectrum, frame, samples) ** 2).sum())

    weights = power * mean**2
    counts = None
    if rhat is not None:
        counts = np.histogram(rhat.clip(EDGES[0], EDGES[-1]), EDGES, weights=weights)[0]
    return Agreement(
        chains=len(gains),
        draws=draws,
        _output=energy(mean),
        _apart=sum(energy(own - mean) for own in gains) / (len(gains) - 1),
        _variance=float((power * variance).sum()),
        _error=float((power * means.var(0, ddof=1)).sum() / len(means)),
        _rhats=counts,
    )
