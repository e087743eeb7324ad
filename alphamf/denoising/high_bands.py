"""Frequencies above the dictionary's band: power in wide bands for alpha-MF, and their gains.

Up to 7.6 kHz the result is nearly that for sound at 16 kHz. Above, alpha-MF continues in wide bands
(`alphamf.learnt.bands`): each adds one row of power, which the same activations explain. In windows
of 16 ms, a small network may predict their gains from their posterior and the result below them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from alphamf.audio.stft import Complexes
from alphamf.denoising.grids import (
    Grid,
    Spectra,
    density,
    grid_of,
    interpolate_frames,
    interpolate_linearly,
    native_grid,
    regrid,
)
from alphamf.denoising.posterior import Posterior
from alphamf.learnt import bands, second_stage
from alphamf.learnt.dictionary import Dictionary
from alphamf.learnt.high_band import HighBand
from alphamf.learnt.second_stage import Coefficients, SecondStage
from alphamf.tools.arrays import Array, Floats, Reals, to_host

QUIETEST = 1e-8
"""Mean power of a band, relative to that of all bins, below which it counts as empty."""

NARROW_TOP, MOST_ABOVE = 4400.0, 1e-5
"""A sound counts as narrow if no bin above this frequency in Hz has more power than this part of
the mean over the bins below. Telephones end at 4 kHz; a resampler's slope adds a tenth."""

NARROW_RATE = 2.2 * NARROW_TOP
"""Sampling rate in Hz below which no sound counts as narrow: all end near `NARROW_TOP` or below."""

TOP, SLOPE = (0.65, 0.85, 0.95), (0.25, 4.0)
"""Borders of two ranges at the top of a sound's band, as fractions of it, and limits of the ratio
of their powers. This ratio sets the power above: the refiner was not trained on empty bands."""

MOST_RAISED = np.float32(3.0)
"""Largest factor by which the first-stage speech is multiplied in a wide band."""

CROSSED = (7600.0, 8000.0)
"""Range in Hz where the gains of bins fade into those of the wide bands, above the resampler's
edge. Gains of bins follow the speech more closely, which PESQ measures up to 8 kHz."""


def count_modelled_bands(spectra: Spectra, dictionary: Dictionary) -> int:
    """Return the number of wide bands to model for a segment: up to the highest one with sound."""
    possible = count_possible_bands(spectra.rate, dictionary)
    return count_sounding_bands(spectra, dictionary) if possible else 0


def count_sounding_bands(spectra: Spectra, dictionary: Dictionary) -> int:
    """Return the number of wide bands up to the highest one with sound, for one channel."""
    native = native_grid(dictionary, spectra.rate)
    pool, power = high_pooling(native), _mean_power(spectra.sound, native.frame.n_fft, 2)[:, None]
    loud = pool(power)[: pool.inside, 0] > QUIETEST * power.mean()
    return int(np.flatnonzero(loud)[-1]) + 1 if loud.any() else 0


def is_narrow(sounds: Sequence[Floats], rate: int) -> bool:
    """Return whether all sounds end with the telephone band; False for low rates and silence.

    `sounds`: shape (samples,) each. `rate`: sampling rate in Hz.
    """
    if rate < NARROW_RATE:
        return False
    length = rate * 8 // 125
    frequencies = np.fft.rfftfreq(length, 1 / rate)
    powers = [_mean_power(sound, length, 1) for sound in sounds]
    inside = [power[frequencies <= NARROW_TOP].mean() for power in powers]
    above = [power[frequencies > NARROW_TOP].max() for power in powers]
    return max(inside) > 0 and all(
        high <= MOST_ABOVE * low for high, low in zip(above, inside, strict=True)
    )


def _mean_power(sound: Floats, length: int, overlap: int) -> Reals:
    """Return each bin's mean power over windows, shape (bins,); `overlap` of them cover a sample.

    The first and last `length` samples are left out if others remain: a segment may continue there
    as its mirror image (`segments`), and the corner in the sound has power at all frequencies.
    """
    inner = sound[length:-length]
    sound = inner if len(inner) else sound
    sound = np.pad(sound, (0, max(0, length - len(sound))))
    # Blackman's window: that of the STFT would leak more than there is beyond an edge.
    pieces = sliding_window_view(sound, length)[:: length // overlap] * np.blackman(length)
    return (np.abs(np.fft.rfft(pieces)) ** 2).mean(axis=0)


def count_possible_bands(rate: int, dictionary: Dictionary) -> int:
    """Return the largest number of wide bands that a dictionary can model at a rate in Hz."""
    if dictionary.above is None or rate <= dictionary.rate:
        return 0
    return high_pooling(native_grid(dictionary, rate)).inside


def high_pooling(grid: Grid) -> bands.Pooling:
    """Return the pooling of a grid's bins into the wide bands above the dictionary's band."""
    return bands.Pooling(grid.frame.bins, grid.rate / grid.frame.n_fft, bands.BELOW, bands.COUNT)


def low_pooling(grid: Grid) -> bands.Pooling:
    """Return the pooling of a grid's bins into the wide bands below 7.5 kHz."""
    return bands.Pooling(grid.frame.bins, grid.rate / grid.frame.n_fft, 0, bands.BELOW)


def power(spectra: Spectra, dictionary: Dictionary, count: int) -> Floats:
    """Return |X|^2 on the dictionary's grid, with one more row per wide band after the bins.

    Above the band of a sound at a lower rate, power is continued by the slope at the band's top.

    Returns: shape (bins + count, frames).
    """
    grid = grid_of(dictionary)
    native = native_grid(dictionary, spectra.rate)
    found: Floats = np.abs(spectra.spectrum_on(grid)) ** 2
    if spectra.rate < dictionary.rate:
        own = np.abs(spectra.spectrum_on(native)) ** 2 * density(native, grid)
        found = regrid(own, native, grid, found.shape)
        bins = spectra.rate / 2 / dictionary.rate * dictionary.frame.n_fft
        below, start, end = (int(part * bins) for part in TOP)
        if below < start < end:  # a few bins have no slope
            top, less = found[start:end].mean(axis=0), found[below:start].mean(axis=0)
            found[end + 1 :] *= np.clip(top / (less + np.float32(1e-30)), *SLOPE)
    if not count:
        return found
    rows = high_pooling(native)(np.abs(spectra.spectrum_on(native)) ** 2)[:count] * density(
        native, grid
    )
    return np.concatenate([found, interpolate_frames(rows, native, grid, found.shape[1])])


def spread_band_gains(gains: Floats, values: Floats, native: Grid) -> Floats:
    """Return gains of bins; above the dictionary's band they are those of the wide bands.

    `gains`: gains of the wide bands that have sound, shape (bands, frames); without any, `values`
    is returned unchanged. `values`: gains of the bins, shape (bins, frames) on `native`; those
    above are replaced.
    """
    if not len(gains):
        return values
    frequencies = native.frequencies
    first = int(np.searchsorted(frequencies, CROSSED[0]))
    inside = frequencies[first:]
    edges = bands.edges()[bands.BELOW :]
    centres = (edges[:-1] + edges[1:])[: len(gains)] / 2
    at = np.interp(inside, centres, np.arange(len(gains)))
    taken = interpolate_linearly(gains, at, 0)
    weight = _crossing(inside)
    result: Floats = values.copy()
    result[first:] += weight * (taken - values[first:])
    return result


def fade(values: Complexes, native: Grid) -> None:
    """Fade out values of the lower bins in place where the gains of the wide bands take over."""
    values *= 1 - _crossing(native.frequencies[: len(values)])


def features_of(
    spectra: Spectra,
    first: Spectra,
    factors: Coefficients,
    posterior: Posterior,
    dictionary: Dictionary,
    network: SecondStage,
) -> list[Floats]:
    """Return the inputs of `HighBand.gains` for each band, from which it computes its features.

    `posterior`: posterior of the wide bands that have sound, shape (bands, frames) on the
    dictionary's grid. Returns: power, gain and its standard deviation, power of the speech and of
    the noise, shape (bands.COUNT, frames) each.
    """
    native = native_grid(network, spectra.rate)
    noisy = spectra.spectrum_on(native)
    low, high = low_pooling(native), high_pooling(native)
    top = int(np.ceil(bands.FIRST_HZ * native.frame.n_fft / native.rate)) + 1
    part = noisy[:top]
    lower_factors = Coefficients(
        factors.sound[:top], factors.speech[:top], tuple(tap[:top] for tap in factors.taps)
    )
    speech = second_stage.speech(part, first.spectrum_on(native)[:top], lower_factors, np)
    noisy_power, left, removed = (low(_square(each)) for each in (part, speech, part - speech))
    gain = np.sqrt(left / (noisy_power + np.float32(1e-20)))
    whole = high(_square(noisy))
    whole[posterior.gain.shape[0] :] = 0
    grid, frames = grid_of(dictionary), noisy.shape[1]
    unit = density(grid, native)
    found = [
        _filled(interpolate_frames(to_host(each) * factor, grid, native, frames))
        for each, factor in zip(posterior.arrays, (1, 1, unit, unit), strict=True)
    ]
    lower = [noisy_power, np.minimum(gain, 1), np.zeros_like(gain), left, removed]
    return [np.concatenate(each) for each in zip(lower, [whole, *found], strict=True)]


def gains(inputs: list[Floats], count: int, network: HighBand, xp: Any) -> Floats:
    """Predict the gains of the wide bands that have sound, shape (count, frames)."""
    found = network.gains([xp.asarray(each) for each in inputs])
    return to_host(found)[bands.BELOW : bands.BELOW + count]


def extend_gains_upwards(gains: Floats, native: Grid) -> Floats:
    """Return a copy whose gains above the dictionary's band are the mean gain just below its top.

    `gains`: shape (channels, bins, frames) on `native`.
    """
    spacing = native.rate / native.frame.n_fft
    first, top = (int(edge / spacing) for edge in (0.8 * CROSSED[0], CROSSED[0]))
    flat: Floats = gains.copy()
    flat[:, top:] = gains[:, first:top].mean(axis=1, keepdims=True)
    return flat


def split_band_gains(
    gains: Floats, noisy: Complexes, first: Complexes, native: Grid
) -> tuple[Floats, Floats]:
    """Split the gains of the wide bands into coefficients of input and first-stage speech.

    First-stage speech of linked channels keeps the voice in its place; a gain of the input would
    not. Therefore that speech is multiplied by a factor, `MOST_RAISED` at most, and the input
    contributes the rest.

    `gains`: gains of the wide bands that have sound, shape (bands, frames).
    """
    pool = high_pooling(native)
    of_noisy, of_first = (pool(_square(each))[: len(gains)] for each in (noisy, first))
    tiny = np.float32(1e-20)
    ratio: Floats = np.sqrt(of_noisy / (of_first + tiny) + tiny)
    raised: Floats = np.minimum(gains * ratio, MOST_RAISED)
    rest: Floats = gains - raised / ratio
    return rest, raised


def _crossing(frequencies: Reals) -> Floats:
    """Return the weight of the wide bands' gains at frequencies in Hz, shape (bins, 1)."""
    low, high = CROSSED
    return np.clip((frequencies - low) / (high - low), 0, 1)[:, None].astype(np.float32)


def _square(spectrum: Array) -> Floats:
    return spectrum.real**2 + spectrum.imag**2


def _filled(rows: Floats) -> Floats:
    """Append rows of zeros for wide bands without sound, up to `bands.ABOVE` rows."""
    full = np.zeros((bands.ABOVE, rows.shape[1]), np.float32)
    full[: len(rows)] = rows
    return full
