"""Learn the rows of a dictionary above its band from full-band speech.

The dictionary itself is unchanged. Its columns below the band's end determine the activations; with
these held fixed, the same stochastic EM fits the rows of the bands above (`alphamf.learnt.bands`),
band by band. A voice is used for the bands that its recording contains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from alphamf.denoising import high_bands as of_sound
from alphamf.denoising.grids import Spectra
from alphamf.errors import AlphaMFError
from alphamf.factorization.stacking import stack
from alphamf.inference.random import Key, generator
from alphamf.learnt import bands
from alphamf.learnt.dictionary import Dictionary
from alphamf.tools.arrays import Floats
from alphamf.training.dictionary.activations import Activation, activate
from alphamf.training.dictionary.settings import check_seconds
from alphamf.training.dictionary.speech import read_beginning

STEPS, KEEP = 80, 30
"""Steps of EM, and how many of the last are averaged."""


class _Speech(NamedTuple):
    """Data that is stored per voice."""

    gains: Floats  # Activations of the columns of W, shape (columns, rank)
    power: Floats  # Power of the bands, shape (context * bands.ABOVE, columns)
    sounding: int  # Up to which band there is sound


def extend(
    dictionary: Dictionary,
    paths: Sequence[str],
    *,
    seconds: float = 5.0,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Dictionary:
    """Return a copy of a dictionary with rows for the bands above 7.5 kHz."""
    check_seconds(seconds)
    if dictionary.rate != 16000:
        raise AlphaMFError(
            f"a dictionary of {dictionary.rate} Hz does not reach {bands.FIRST_HZ:g} Hz, "
            "where the bands above it begin"
        )
    voices = list(_voices(dictionary, paths, seconds, seed, progress))
    frames = np.zeros((dictionary.context, bands.ABOVE, dictionary.rank), np.float32)
    for band in range(bands.ABOVE):
        known = [voice for voice in voices if voice.sounding > band]
        if not known:
            low, high = bands.edges()[bands.BELOW + band :][:2]
            raise AlphaMFError(f"no file has speech from {low:.0f} to {high:.0f} Hz")
        frames[:, band] = _fitted(known, band, dictionary, generator(seed, Key.CHAIN, band))
    about = {**dictionary.about, "above": {"files": len(voices), "seconds": seconds, "seed": seed}}
    return replace(dictionary, above=frames.reshape(-1, dictionary.rank), about=about)


def _voices(
    dictionary: Dictionary,
    paths: Sequence[str],
    seconds: float,
    seed: int,
    progress: Callable[[int, int], None] | None,
) -> Iterator[_Speech]:
    """Compute the activations of the dictionary for each file that is not silent."""
    if not paths:
        raise AlphaMFError("no files were given, so there is no speech to train on")
    for k, path in enumerate(paths):
        sound = read_beginning(path, bands.FULL_BAND, dictionary.frame, seconds)
        if sound.any():
            spectra = Spectra(sound / np.abs(sound).max(), bands.FULL_BAND)
            yield _speech(dictionary, spectra, (seed, k))
        if progress:
            progress(k + 1, len(paths))


def _speech(dictionary: Dictionary, spectra: Spectra, stream: tuple[int, int]) -> _Speech:
    count, bins = of_sound.count_sounding_bands(spectra, dictionary), dictionary.bins
    whole = of_sound.power(spectra, dictionary, count)
    whole = whole / whole[:bins].mean()
    low = stack(whole[:bins], dictionary.context)
    rng = generator(stream[0], Key.CHAIN + stream[1])
    found = _mean(activate(low, dictionary.basis, dictionary.alpha, STEPS, rng))
    high = np.zeros((bands.ABOVE, whole.shape[1]), np.float32)
    high[:count] = whole[bins:]
    return _Speech(found.T, stack(high, dictionary.context), count)


def _fitted(voices: Sequence[_Speech], band: int, dictionary: Dictionary, rng: Any) -> Floats:
    """Fit a band's rows of W, shape (context, rank)."""
    gains = np.concatenate([voice.gains for voice in voices])
    rows = slice(band, None, bands.ABOVE)
    # Transposed, the activations are the basis that rests, and W is what moves.
    found = np.concatenate([voice.power[rows].T for voice in voices])
    level = found.mean()
    fitted = _mean(activate(found / level, gains, dictionary.alpha, STEPS, rng))
    return fitted.T * np.float32(level ** (dictionary.alpha / 2))


def _mean(steps: Iterator[Activation]) -> Floats:
    """Return the mean of the varying quantities over the last steps."""
    last = islice(steps, STEPS - KEEP, None)
    mean: Floats = np.mean([each.gains for each in last], axis=0)
    return mean
