"""Spectrogram grids: spectra at several rates and windows, and interpolation between grids."""

import math
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from alphamf.audio import stft
from alphamf.audio.resample import resample
from alphamf.audio.stft import Complexes, Frame
from alphamf.learnt.dictionary import Dictionary
from alphamf.learnt.network_file import TrainedNetwork
from alphamf.tools.arrays import Floats, Reals

BAND_TOP = (0.85, 0.95)
"""Limits of the top of a model's band, as fractions of it; above the upper one, the mean value
in between is used. The resampler's edge begins at .92 to .94; it does no harm (docs/quality.md)."""

KERNELS = (2, 3, 5, 7, 11)
"""Prime factors that NumPy's FFT, PocketFFT, has kernels for."""


class Grid(NamedTuple):
    """A spectrogram grid: a sampling rate in Hz, and a window and hop in samples."""

    rate: int
    frame: Frame

    @property
    def frequencies(self) -> Reals:
        """Frequencies of the bins in Hz, shape (bins,)."""
        return np.arange(self.frame.bins) * (self.rate / self.frame.n_fft)


def grid_of(model: Dictionary | TrainedNetwork) -> Grid:
    """Return the grid that a model works on."""
    return Grid(model.rate, model.frame)


def native_grid(model: Dictionary | TrainedNetwork | Grid, rate: int) -> Grid:
    """Return the grid at `rate` Hz whose windows have about the same duration as the model's."""
    overlap = model.frame.n_fft // model.frame.hop_length
    hop = nearest_hop(model.frame.hop_length * rate / model.rate)
    return Grid(rate, Frame(hop * overlap, hop))


def nearest_hop(length: float) -> int:
    """Return the hop nearest to `length` whose prime factors are all in `KERNELS`.

    With a large prime factor the FFT takes several times as long: at 44.1 kHz, with hops of 706
    samples, or 353 at low latency, it would take a sixth of the total time.
    """
    whole, smooth = int(length), math.prod(KERNELS)
    # Only numbers without other prime factors divide a high power of the product of these.
    below = next(hop for hop in count(max(1, whole), -1) if pow(smooth, 64, hop) == 0)
    above = next(hop for hop in count(whole + 1) if pow(smooth, 64, hop) == 0)
    return min(below, above, key=lambda hop: abs(hop - length))


class Spectra:
    """A segment of one channel, and its STFT on any grid, each computed once."""

    sound: Floats  # Finite samples, shape (samples,), float32
    rate: int  # Sampling rate in Hz

    def __init__(self, sound: Floats, rate: int) -> None:
        self.sound, self.rate = sound, rate
        self._resampled: dict[int, Floats] = {rate: sound}
        self._spectra: dict[Grid, Complexes] = {}

    def spectrum_on(self, grid: Grid) -> Complexes:
        """Return the spectrum on a grid, shape (bins, frames)."""
        if grid not in self._spectra:
            if grid.rate not in self._resampled:
                self._resampled[grid.rate] = resample(self.sound, self.rate, grid.rate)
            self._spectra[grid] = stft.forward(self._resampled[grid.rate], grid.frame)
        return self._spectra[grid]


def density(source: Grid, target: Grid) -> np.float32:
    """Return the factor that converts |X|^2 of noise from one grid to another."""
    return np.float32((target.rate * target.frame.n_fft) / (source.rate * source.frame.n_fft))


def regrid(values: Floats, source: Grid, target: Grid, shape: tuple[int, ...]) -> Floats:
    """Interpolate linearly to another grid; above the range `BAND_TOP` of `source`, use its mean.

    `values`: gains or power, shape (bins, frames) on `source`. `shape`: shape on `target`.
    """
    if source == target:
        return values
    low, high = (int(fraction * (values.shape[0] - 1)) for fraction in BAND_TOP)
    top = values[low : high + 1].mean(axis=0, keepdims=True)
    values = np.concatenate([values[: high + 1], top])
    for axis, positions in enumerate(_positions(source, target, shape)):
        values = interpolate_linearly(values, positions, axis)
    return values


def count_bins_within(source: Grid, target: Grid) -> int:
    """Return how many bins of `target` lie in the band of `source`, up to `BAND_TOP[1]` of it."""
    return int(np.sum(target.frequencies <= BAND_TOP[1] * source.rate / 2))


def interpolate_frames(values: Floats, source: Grid, target: Grid, frames: int) -> Floats:
    """Interpolate rows linearly from the frames of one grid to those of another.

    `values`: shape (rows, frames) on `source`.
    """
    return interpolate_linearly(values, _positions(source, target, (1, frames))[1], 1)


def interpolate_linearly(values: Floats, positions: Any, axis: int) -> Floats:
    """Interpolate values linearly at positions along an axis; the last value is repeated."""
    at = np.minimum(positions, values.shape[axis] - 1)
    first = at.astype(int)
    if (at == first).all():  # as between 16 and 48 kHz
        return values.take(first, axis)
    first = np.minimum(first, max(values.shape[axis] - 2, 0))
    second = np.minimum(first + 1, values.shape[axis] - 1)
    weight = (at - first).astype(np.float32)
    weight = weight[:, None] if axis == 0 else weight
    return values.take(first, axis) * (1 - weight) + values.take(second, axis) * weight


def _positions(source: Grid, target: Grid, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Return the positions of the bins and frames of `target` in units of those of `source`."""
    seconds = source.frame.n_fft / source.rate
    bins = np.arange(shape[0]) * (target.rate / target.frame.n_fft * seconds)
    step = source.frame.hop_length / source.rate
    return bins, np.arange(shape[1]) * (target.frame.hop_length / target.rate / step)
