"""Separate a recording into any number of sources, each an alpha-stable factorization.

Sources of known spectra have a fixed W; those of a free source are learned from the recording. All
activations are sampled together, and the masks are posterior means of the sources' parts of the
variance, so they add up to one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from alphamf.audio import stft
from alphamf.audio.reader import read
from alphamf.audio.resample import resample
from alphamf.audio.stft import Frame
from alphamf.denoising.grids import Grid, Spectra, grid_of, native_grid, nearest_hop, regrid
from alphamf.denoising.sampling import SPEECH_LEVEL, bin_levels, start_chain
from alphamf.denoising.settings import PRESETS, kernel
from alphamf.denoising.stream_options import check_rate, real_samples, to_float
from alphamf.errors import AlphaMFError
from alphamf.factorization.alpha_mf import AlphaMFTarget, stack, unstack
from alphamf.factorization.priors import Gamma, Source
from alphamf.factorization.stable import check_alpha
from alphamf.inference.chain import run
from alphamf.inference.records import Mean
from alphamf.learnt.dictionary import Dictionary, load
from alphamf.separation.fitting import Plan, em_steps
from alphamf.tools.arguments import check_instance, name_the_rate, whole_number
from alphamf.tools.arrays import Floats
from alphamf.tools.machine import format_gigabytes, one_thread, total_memory

Known = str | os.PathLike[str] | Dictionary | Floats | int
"""A source: name or file of a dictionary, a sound file, a dictionary, W, or a number of columns."""

WINDOW, CONTEXT = 0.064, 3
"""Length of a window in seconds and frames in a column, if no source is a dictionary."""

CLIP_COLUMNS, CLIP_STEPS, CLIP_SECONDS, CLIP_ALPHA = 20, 100, 30.0, 1.0
"""Number of spectra that are learned from a clip, steps of EM, seconds that are read, and alpha."""

ALPHA, FREE_ALPHA = 1.8, 1.89
"""Index alpha if none is given: of each source where all are known, and of free sources. Beside
these, known sources have the alpha of their dictionaries: it tells them apart."""

SPARSE = Gamma(0.1, 20.0)
"""Prior of the activations of known spectra, as of speech in the presets."""

FREE = Gamma(1.0, 20.0)
"""Prior of the activations of spectra that are learned from the recording."""

MOST_COLUMNS = 10_000
"""Maximum number of spectra that are learned for a source."""

CELL_BYTES = 40
"""Memory for a cell of the stacked spectrogram: its power and sums; each source needs 12 more."""


class Separated(NamedTuple):
    """The sources of a recording, by name.

    Attributes
    ----------
    sounds
        Sound of each source, float32, of the recording's shape; they add up to the recording.
    masks, masks_std
        Posterior mean and standard deviation of each source's part, shape (bins, frames). The
        deviation is that of the model; the true error is several times as large.
    rate
        Sampling rate in Hz.

    Examples
    --------
    >>> noise = np.random.default_rng(0).uniform(-1, 1, 4000)
    >>> separate(noise, 16000, {"one": 1, "two": 1}).masks["one"].shape
    (513, 17)
    """

    sounds: dict[str, Floats]
    masks: dict[str, Floats]
    masks_std: dict[str, Floats]
    rate: int


@name_the_rate
def separate(
    audio: ArrayLike,
    rate: float,
    sources: Mapping[str, Known | tuple[Known, float]],
    *,
    seed: int = 0,
) -> Separated:
    """Separate a recording into named sources.

    Parameters
    ----------
    audio
        Samples, shape (samples,) or (samples, channels). Channels get the same masks.
    rate
        Sampling rate in Hz.
    sources
        At least two. A source with known spectra is the name of a shipped dictionary
        (``"speech-16k"``), a file of ``alphamf train``, a sound file with this source alone, a
        `Dictionary`, or W of shape (rows, columns) on the grid of another dictionary. A number is
        that of the spectra to learn from the recording. A pair such as ``(8, 1.5)`` also sets the
        source's alpha. All dictionaries must have the same rate and windows.
    seed
        Seed of the random numbers.

    Returns
    -------
    Separated

    Raises
    ------
    AlphaMFError
        An argument is invalid, a file cannot be read, or the memory would not suffice.

    Examples
    --------
    >>> import soundfile
    >>> audio, rate = soundfile.read("data/sample-noisy.wav", frames=32000)
    >>> found = separate(audio, rate, {"voice": "speech-16k", "rest": 8})
    >>> bool(abs(sum(found.sounds.values()) - audio).max() < 1e-5)
    True
    """
    whole, samples = check_rate(rate), to_float(real_samples(audio))
    if samples.ndim not in (1, 2) or not samples.size:
        raise AlphaMFError(
            f"audio must have the shape (samples,) or (samples, channels), not {samples.shape}"
        )
    seed = whole_number("seed", seed, 0)
    grid, context, found = _sources(sources, whole)
    native = native_grid(grid, whole)
    with one_thread():
        channels = [Spectra(each, whole) for each in samples.reshape(len(samples), -1).T]
        power = np.mean([np.abs(each.spectrum_on(grid)) ** 2 for each in channels], axis=0)
        shape = channels[0].spectrum_on(native).shape
        masks = [
            [regrid(values, grid, native, shape) for values in pair]
            for pair in _masks(power, list(found.values()), context, seed)
        ]
        sounds = {
            name: np.stack(
                [
                    stft.inverse(mask * each.spectrum_on(native), native.frame, len(samples))
                    for each in channels
                ],
                axis=-1,
            ).reshape(samples.shape)
            for name, (mask, _) in zip(found, masks, strict=True)
        }
    means, deviations = (dict(zip(found, each, strict=True)) for each in zip(*masks, strict=True))
    return Separated(sounds, means, deviations, whole)


def _sources(
    given: Mapping[str, Known | tuple[Known, float]], rate: int
) -> tuple[Grid, int, dict[str, tuple[Dictionary | int, float]]]:
    """Return the grid and the frames in a column, and dictionary or rank and alpha of each."""
    check_instance("sources", given, Mapping, "a dict of names and sources")
    if len(given) < 2:
        raise AlphaMFError(f"give two sources or more, not {len(given)}")
    found = {}
    for name, each in given.items():
        check_instance("a name in sources", name, str, "a str")
        what, alpha = each if isinstance(each, tuple) and len(each) == 2 else (each, None)
        with _named(name):
            found[name] = _loaded(what), alpha
            if alpha is not None:
                check_alpha(alpha)
    dictionaries = {name: each for name, (each, _) in found.items() if isinstance(each, Dictionary)}
    if dictionaries:
        first, *others = dictionaries.items()
        grid, context = grid_of(first[1]), first[1].context
        for name, each in others:
            if (grid_of(each), each.context) != (grid, context):
                raise AlphaMFError(
                    f"the sources {first[0]} and {name} have different rates, windows or numbers "
                    f"of frames in a column: {first[1]!r} and {each!r}"
                )
    else:
        hop = nearest_hop(WINDOW / 4 * rate)
        grid, context = Grid(rate, Frame(4 * hop, hop)), CONTEXT
    result: dict[str, tuple[Dictionary | int, float]] = {}
    free = any(isinstance(what, int) for what, _ in found.values())
    for name, (what, alpha) in found.items():
        with _named(name):
            if isinstance(what, np.ndarray):
                if what.dtype.kind not in "fiu":
                    raise AlphaMFError(f"W must be real numbers, not {what.dtype}")
                what = Dictionary(what.astype(np.float32), CLIP_ALPHA, *grid, context)
            elif isinstance(what, Path):
                what = learn(*read(what), grid, context)
        usual = FREE_ALPHA if isinstance(what, int) else what.alpha if free else ALPHA
        result[name] = what, usual if alpha is None else alpha
    return grid, context, result


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Name the source in an AlphaMFError of this block."""
    try:
        yield
    except AlphaMFError as error:
        raise AlphaMFError(f"sources, {name}: {error}") from error


def _loaded(given: Known) -> Dictionary | Floats | int | Path:
    """Return a source as it is, with a dictionary loaded; a sound file as a Path."""
    if isinstance(given, Dictionary | np.ndarray) and not np.ma.is_masked(given):
        return given
    if isinstance(given, str | os.PathLike):
        sound = Path(given).suffix.lower() not in ("", ".npz")
        return Path(given) if sound else load(given)
    return whole_number("the number of columns of a source", given, 1, MOST_COLUMNS)


def learn(sound: Floats, rate: int, grid: Grid, context: int) -> Dictionary:
    """Learn spectra from a sound, shape (samples, channels): the W of an alpha-MF of it alone."""
    mono = resample(sound[: round(CLIP_SECONDS * rate)].mean(1), rate, grid.rate)
    power = np.abs(stft.forward(mono, grid.frame)) ** 2
    if not power.any():
        raise AlphaMFError("the clip of a source is silent")
    target = AlphaMFTarget(stack(power / power.mean(), context), [Source(CLIP_ALPHA, CLIP_COLUMNS)])
    total: Floats = np.zeros((len(target.power), CLIP_COLUMNS), np.float32)
    plan = Plan("em", CLIP_STEPS, 1, 1, 0)
    for step, theta in enumerate(em_steps(target, CLIP_STEPS, plan)):
        if step >= CLIP_STEPS // 2:
            (basis,) = target.unpack(theta)[0][0]
            total += basis / basis.sum(0)
    return Dictionary(total, CLIP_ALPHA, *grid, context)


def _masks(
    power: Floats, sources: list[tuple[Dictionary | int, float]], context: int, seed: int
) -> list[tuple[Floats, Floats]]:
    """Return mean and deviation of each source's part; `power`: |X|^2, shape (bins, frames)."""
    level = bin_levels(power)
    if not level.any():
        same = np.full(power.shape, 1 / len(sources), np.float32)
        return [(same, np.zeros_like(same))] * len(sources)
    _check_memory(context * power.size, len(sources))
    models = [_model(each, alpha, level, context) for each, alpha in sources]
    target = AlphaMFTarget(stack(power / level, context), models)
    settings = PRESETS["plain"]
    records = [
        Mean(partial(_part, s), burn_in=settings.steps - settings.keep, thin=settings.thin)
        for s in range(len(models))
    ]
    with np.errstate(all="ignore"):  # a chain that diverges raises an error
        start = start_chain(target, (), settings, (seed, 0))
        for state in run(
            target, kernel(settings.sampler), steps=settings.steps, seed=seed, start=start
        ):
            for record in records:
                record.add(state, target)
    means, deviations = (
        [unstack(each, context) for each in every]
        for every in ([record.mean for record in records], [record.std for record in records])
    )
    total: Any = sum(means)
    return [(mean / total, std) for mean, std in zip(means, deviations, strict=True)]


def _part(source: int, theta: Floats, target: AlphaMFTarget) -> Floats:
    return target.gain(theta, source)


def _model(given: Dictionary | int, alpha: float, level: Floats, context: int) -> Source:
    """Return the alpha-MF source for power in units of `level`, as from `bin_levels`."""
    if isinstance(given, int):
        return Source(alpha, given, prior_gains=FREE)
    basis = given.basis ** np.float32(alpha / given.alpha)
    basis = basis / np.tile(level, (context, 1)) ** np.float32(alpha / 2)
    basis /= basis.mean(axis=0)
    return Source(alpha, given.rank, basis, prior_gains=SPARSE, level=SPEECH_LEVEL)


def _check_memory(cells: int, sources: int) -> None:
    most, needed = total_memory(), cells * (CELL_BYTES + 12 * sources)
    if most is not None and needed > most:
        raise AlphaMFError(
            f"separating this recording would need {format_gigabytes(needed)} of memory, but this "
            f"machine has {format_gigabytes(most)}; separate parts of it"
        )
