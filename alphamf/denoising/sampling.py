"""Run a chain on the alpha-MF of a power spectrogram: the model, its start and its steps."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from alphamf.denoising.settings import METROPOLIS, Settings, kernel
from alphamf.errors import AlphaMFError
from alphamf.factorization.alpha_mf import AlphaMFTarget, Source, stack
from alphamf.inference.chain import run
from alphamf.inference.random import START, Key, generator
from alphamf.learnt.dictionary import Dictionary
from alphamf.tools import machine
from alphamf.tools.arrays import Array, Floats, namespace

SMOOTH_HZ = 60.0
"""Standard deviation in Hz of the Gaussian that smooths the channel response over frequency."""


class Channel:
    """Estimates the channel response d of a source, and rewrites its fixed basis in place.

    `spacing`: distance between bins in Hz. `components`: how many there are, each with its own d.
    """

    target: AlphaMFTarget  # The model
    source: int  # Index of the source; the target's notes must be of this source
    context: int  # Number of frames stacked in a column

    def __init__(
        self,
        target: AlphaMFTarget,
        source: int,
        context: int,
        spacing: float,
        burn_in: int,
        components: int = 1,
    ) -> None:
        xp = namespace(target.power)
        self.target, self.source, self.context = target, source, context
        self._components = components
        self.steps: range = range(burn_in // 10 + 1, 3 * burn_in // 4 + 1, max(1, burn_in // 40))
        reach = int(3 * SMOOTH_HZ / spacing)
        distance = xp.arange(-reach, reach + 1) * (spacing / SMOOTH_HZ)
        self._kernel = xp.exp(-0.5 * distance**2).astype(target.power.dtype)

    def move(self, state: Any) -> None:
        """Update d, and with it the basis, from the chain's state; only at the steps in `steps`."""
        if state.step not in self.steps:
            return
        xp = namespace(self.target.power)
        found: Any = self.target.notes.rows
        if found is None:
            found = self.target.row_parts(state.theta, self.source)
        plus, minus = (self._fold(rows) for rows in found)
        tiny = xp.finfo(plus.dtype).tiny
        log_ratio = xp.log((minus + tiny) / (plus + tiny))
        log_ratio -= log_ratio.mean(-1, keepdims=True)
        basis = self.target.sources[self.source].basis
        basis *= xp.tile(xp.exp(log_ratio), self.context)[..., None]

    def _fold(self, rows: Array) -> Array:
        """Sum over chains and over the stacked frames, and smooth each component over frequency.

        Returns: shape (*clips, components * bins).
        """
        xp = namespace(rows)
        chains = rows.ndim - 1 - (self.target.power.ndim - 2)
        rows = rows.sum(tuple(range(chains)))
        frame = rows.reshape(*rows.shape[:-1], self.context, -1).sum(-2)
        bins = frame.reshape(*frame.shape[:-1], self._components, -1)
        reach = len(self._kernel) // 2
        smooth: Array = xp.empty_like(bins)
        for place in np.ndindex(bins.shape[:-1]):
            padded = xp.pad(bins[place], reach, mode="edge")
            smooth[place] = xp.convolve(padded, self._kernel, mode="valid")
        return smooth.reshape(frame.shape)


QUIETEST = 1e-6
"""Lower limit of a bin's mean power, as a fraction of the mean over bins."""

SPEECH_LEVEL = 2e-3
"""Scale at which H_speech starts, about as far below the mean power as the noise: EM stays in the
first mode that it reaches, which is wrong if one source starts much louder than the other."""

KNOWN_LEVEL = 5e-4
"""Scale at which H of a known noise starts, as faint as the learned noise, for the same reason."""

LAST_STEPS = 3
"""Steps of EM on all frames, after those on a subset."""

FEWEST = 64
"""Minimum number of frames in a subset for a warm-up: with fewer, noise is not learned well."""

CELL_ARRAYS = 6
"""Number of arrays like the stacked spectrogram that each chain holds: Phi, power, statistics."""

STATE_ARRAYS = 8
"""Number of arrays as large as W and H that each chain holds: theta, its successor, gradients."""

Progress = Callable[[float], None]
"""Function that is called with the number of steps so far: of a chain, or a mean over several."""


class Summary(Protocol):
    """Running averages of values of a chain's states."""

    def add(self, state: Any, target: AlphaMFTarget) -> None:
        """Add one state of the chain."""
        ...

    def needs_gain(self, step: int) -> bool:
        """Return whether the draw of a step is to store the gain."""
        ...


def sample(
    power: Array,
    dictionary: Dictionary,
    settings: Settings,
    stream: tuple[int, int],
    summary: Summary,
    progress: Progress | None = None,
    noise: Array | None = None,
    shares: Floats | None = None,
) -> tuple[Array, list[float]]:
    """Run a chain given |X|^2, and pass every state to `summary`.

    `power`: |X|^2, shape (bins, frames) or (clips, bins, frames), no clip of which is all zeros.
    `stream`: seed, and number of the random stream. `noise`: K known spectra, as from
    `hints.noise_spectra`, shape (stacked bins, K) or (clips, stacked bins, K): a source of its own,
    whose W is fixed. `shares`: for several `components`, which have H in common: the proportion of
    the speech's power in each, above zero, shape (components, bins). Returns: the model's units of
    power, shape (..., bins, 1); proportions of accepted moves of Phi of speech and of noise, and of
    W and H if the sampler is in `METROPOLIS`.
    """
    check_memory(power, dictionary, settings)
    level = bin_levels(power)
    target = AlphaMFTarget(
        stack(power / level, dictionary.context),
        sources(dictionary, settings, level, noise, shares),
        blocks=settings.blocks,
    )
    seed, number = stream
    chains = (settings.chains,) if settings.chains > 1 else ()
    channel = _channel(target, dictionary, settings, 1 if shares is None else len(shares))

    def request(step: int) -> None:
        rows = channel is not None and step in channel.steps
        target.notes.request(gain=summary.needs_gain(step), rows=rows)

    factors = _FactorMoves(settings)
    # A chain that diverges raises an error; NumPy must not warn, too.
    with np.errstate(all="ignore"):
        start = start_chain(target, chains, settings, stream)
        request(1)
        for state in run(
            target,
            kernel(settings.sampler),
            steps=settings.steps,
            seed=seed,
            chain=number,
            start=start,
        ):
            summary.add(state, target)
            factors.count(state)
            if channel:
                channel.move(state)
            request(state.step + 1)
            if progress:
                progress(state.step)
    speech, *noises = target.acceptance
    return level, [speech, sum(noises) / len(noises), *factors.acceptance]


class _FactorMoves:
    """Counter of the accepted moves of W and H in the last `Settings.keep` steps."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._ends = {settings.steps - settings.keep: 0.0}

    def count(self, state: Any) -> None:
        """Note the mean number of acceptances before and after the kept steps."""
        if self._settings.sampler in METROPOLIS and state.step in (
            self._settings.steps - self._settings.keep,
            self._settings.steps,
        ):
            self._ends[state.step] = float(state.accepted.mean())

    @property
    def acceptance(self) -> list[float]:
        """The proportion of accepted moves, in a list; empty if the sampler never rejects moves."""
        if self._settings.sampler not in METROPOLIS:
            return []
        first, last = self._ends.values()
        return [(last - first) / self._settings.keep]


def check_memory(power: Array, dictionary: Dictionary, settings: Settings) -> None:
    """Raise an AlphaMFError if the arrays would not fit into this machine's memory (CPU only).

    `power`: |X|^2, shape (bins, frames) or (clips, bins, frames).
    """
    most = machine.total_memory()
    if most is None or not isinstance(power, np.ndarray):
        return
    rows = dictionary.context * power.shape[-2]
    columns = power.shape[-1] + dictionary.context - 1
    size = columns * (dictionary.rank + settings.noise_rank) + rows * settings.noise_rank
    numbers = CELL_ARRAYS * rows * columns + STATE_ARRAYS * size
    clips = power.size // (power.shape[-2] * power.shape[-1])
    needed = power.itemsize * numbers * settings.chains * clips
    if needed > most:
        seconds = power.shape[-1] * dictionary.frame.hop_length / dictionary.rate
        raise AlphaMFError(
            f"chains = {settings.chains} and noise_rank = {settings.noise_rank} would need "
            f"{machine.format_gigabytes(needed)} of memory for {clips * seconds:.1f} s of sound, "
            f"but this machine has {machine.format_gigabytes(most)}"
        )


def bin_levels(power: Array) -> Array:
    """Return the model's unit for each bin: its mean power, with a lower limit; (..., bins, 1).

    In this unit, the factors of speech and noise, of loud and of faint bins are all of order one.
    Otherwise no kernel with a single step size could sample them together.
    """
    xp = namespace(power)
    level = power.mean(axis=-1, keepdims=True)
    return xp.maximum(level, QUIETEST * level.mean(axis=-2, keepdims=True))


def _channel(
    target: AlphaMFTarget, dictionary: Dictionary, settings: Settings, components: int
) -> Channel | None:
    if not settings.learn_channel:
        return None
    spacing = dictionary.rate / dictionary.frame.n_fft
    burn_in = settings.steps - settings.keep
    return Channel(target, 0, dictionary.context, spacing, burn_in, components)


def start_chain(
    target: AlphaMFTarget, chains: tuple[int, ...], settings: Settings, stream: tuple[int, int]
) -> Array:
    """Draw a start and improve it by EM; EM may first run on a subset of the frames.

    A subset suffices to learn W of the noise; the last `LAST_STEPS` steps read all frames. If there
    are fewer than `FEWEST` times `Settings.coarse` frames, all steps read all of them.

    `chains`: shape of the chains. Others: as in `sample`. Returns: shape (*chains, *clips, D).
    """
    seed, number = stream
    xp, apart = namespace(target.power), settings.coarse
    theta = target.start(generator(seed, Key.CHAIN + number, START, xp=xp), chains)
    columns, steps = target.power.shape[-1], settings.warm_up
    if apart > 1 and steps > LAST_STEPS and columns >= FEWEST * apart:
        few = AlphaMFTarget(target.power[..., ::apart], target.sources, blocks=settings.blocks)
        found = few.start(generator(seed, Key.COARSE + number, START, xp=xp), chains)
        found = warm_up(few, found, steps - LAST_STEPS, seed, Key.COARSE + number)
        for (w, h), (known, gains), source in zip(
            target.unpack(theta), few.unpack(found), target.sources, strict=True
        ):
            if source.basis is None:
                w[...] = known
            h[...] = xp.repeat(gains, apart, axis=-1)[..., :columns]
        steps = LAST_STEPS
    return warm_up(target, theta, steps, seed, Key.WARM_UP + number)


def warm_up(target: AlphaMFTarget, start: Array, steps: int, seed: int, key: int) -> Array:
    """Run EM from a start, shape (..., D), and return its last theta, closer to a mode."""
    for state in run(target, kernel("em"), steps=steps, seed=seed, chain=key, start=start):
        start = state.theta
    return start


def sources(
    dictionary: Dictionary,
    settings: Settings,
    level: Array,
    noise: Array | None = None,
    shares: Floats | None = None,
) -> list[Source]:
    """Return the sources for power in units of `level`: speech, noise and the known noise, if any.

    The speech's columns of W get a mean of one; with `alpha_speech`, their spectra keep the shape.

    `level`: as from `bin_levels`, shape (..., bins, 1). `noise`, `shares`: as in `sample`.
    """
    xp = namespace(level)
    alpha = settings.alpha_speech or dictionary.alpha
    basis = xp.asarray(dictionary.basis) ** np.float32(alpha / dictionary.alpha)
    if shares is not None:
        basis = basis.reshape(dictionary.context, 1, -1, dictionary.rank)
        basis = basis * xp.asarray(shares, basis.dtype)[..., None] ** np.float32(alpha / 2)
        basis = basis.reshape(-1, dictionary.rank)
    basis = basis / xp.tile(level, (dictionary.context, 1)) ** np.float32(alpha / 2)
    basis /= basis.mean(axis=-2, keepdims=True)
    prior, free = settings.speech_prior, noise_source(settings)
    speech = Source(alpha, dictionary.rank, basis, prior_gains=prior, level=SPEECH_LEVEL)
    if noise is None:
        return [speech, free]
    unit = xp.tile(level, (dictionary.context, 1)) ** np.float32(free.alpha / 2)
    known = xp.asarray(noise) / unit
    return [speech, free, replace(free, rank=known.shape[-1], basis=known, level=KNOWN_LEVEL)]


def noise_source(settings: Settings) -> Source:
    """Return the source of a noise whose spectra are learned."""
    return Source(
        settings.alpha_noise,
        settings.noise_rank,
        prior_basis=settings.prior_noise_basis,
        prior_gains=settings.prior_noise,
    )
