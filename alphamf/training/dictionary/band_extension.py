"""Learn the rows of a dictionary above its band from full-band speech.

The existing rows are unchanged and determine the activations. With these held fixed, the sampler
`em` fits the rows of the bands above (`alphamf.learnt.bands`), band by band. A recording is used
only for the bands up to the highest one in which it has sound.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from alphamf.denoising import high_bands as of_sound
from alphamf.denoising.grids import Spectra
from alphamf.denoising.settings import kernel
from alphamf.errors import AlphaMFError
from alphamf.factorization.alpha_mf import AlphaMFTarget, Source, stack
from alphamf.inference.chain import run
from alphamf.inference.records import Mean
from alphamf.learnt import bands
from alphamf.learnt.dictionary import Dictionary
from alphamf.tools.arrays import Floats
from alphamf.training.dictionary.api import check_seconds
from alphamf.training.dictionary.speech import read_beginning

STEPS, KEEP = 80, 30
"""Number of steps of EM, and how many of the last steps are averaged."""


class _Speech(NamedTuple):
    """Activations and band powers of one recording."""

    gains: Floats  # Activations of the dictionary, transposed: shape (stacked frames, rank)
    power: Floats  # Power of the bands, shape (context * bands.ABOVE, stacked frames)
    sounding: int  # Number of bands up to the highest one with sound


def extend(
    dictionary: Dictionary,
    paths: Sequence[str],
    *,
    seconds: float = 5.0,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Dictionary:
    """Return a 16 kHz dictionary with rows for bands above 7.5 kHz; files need 48 kHz or more."""
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
        frames[:, band] = _fitted(known, band, dictionary, seed, len(paths) + band)
    about = {**dictionary.about, "above": {"files": len(voices), "seconds": seconds, "seed": seed}}
    return replace(dictionary, above=frames.reshape(-1, dictionary.rank), about=about)


def _voices(
    dictionary: Dictionary,
    paths: Sequence[str],
    seconds: float,
    seed: int,
    progress: Callable[[int, int], None] | None,
) -> Iterator[_Speech]:
    """Yield the activations and band powers of each file that is not silent."""
    if not paths:
        raise AlphaMFError("no files were given, so there is no speech to train on")
    for k, path in enumerate(paths):
        sound = read_beginning(path, bands.FULL_BAND, dictionary.frame, seconds)
        if sound.any():
            spectra = Spectra(sound / np.abs(sound).max(), bands.FULL_BAND)
            yield _speech(dictionary, spectra, seed, k)
        if progress:
            progress(k + 1, len(paths))


def _speech(dictionary: Dictionary, spectra: Spectra, seed: int, chain: int) -> _Speech:
    count, bins = of_sound.count_sounding_bands(spectra, dictionary), dictionary.bins
    whole = of_sound.power(spectra, dictionary, count)
    whole = whole / whole[:bins].mean()
    low = stack(whole[:bins], dictionary.context)
    gains = _gains(low, dictionary.basis, dictionary.alpha, seed, chain)
    high = np.zeros((bands.ABOVE, whole.shape[1]), np.float32)
    high[:count] = whole[bins:]
    return _Speech(gains.T, stack(high, dictionary.context), count)


def _fitted(
    voices: Sequence[_Speech], band: int, dictionary: Dictionary, seed: int, chain: int
) -> Floats:
    """Return the rows of W that fit a band, shape (context, rank)."""
    gains = np.concatenate([voice.gains for voice in voices])
    rows = slice(band, None, bands.ABOVE)
    # Transposed, the activations are the fixed basis, and W is the unknown.
    power = np.concatenate([voice.power[rows].T for voice in voices])
    level = power.mean()
    fitted = _gains(power / level, gains, dictionary.alpha, seed, chain)
    return fitted.T * np.float32(level ** (dictionary.alpha / 2))


def _gains(power: Floats, basis: Floats, alpha: float, seed: int, chain: int) -> Floats:
    """Return the mean of H over the last `KEEP` steps for W = `basis`, shape (rank, columns)."""
    record = Mean(lambda theta, target: theta.reshape(basis.shape[1], -1), burn_in=STEPS - KEEP)
    target = AlphaMFTarget(power, [Source(alpha, basis.shape[1], basis)])
    deque(run(target, kernel("em"), steps=STEPS, seed=seed, chain=chain, record=record), maxlen=0)
    return record.mean
