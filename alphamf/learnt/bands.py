"""Wide frequency bands of a full-band recording: some above 7.5 kHz, others below.

A dictionary at 16 kHz ends below 8 kHz, and so do the networks. Sound above has no separate
harmonics: bands with half the width of the ear's critical bands describe it up to the end of
hearing, for a few per cent of the cost of the bins below. The gain of the top band also
applies to everything higher.

References
----------
Glasberg and Moore, Hearing Research 47 (1990), for the width of the ear's filters (ERB).
"""

from typing import Any

import numpy as np

from alphamf.tools.arrays import Floats, Reals

FIRST_HZ, LAST_HZ = 7500.0, 20000.0
"""Frequencies in Hz where the bands above the dictionary's band start, below the cut-off of
resampling to 16 kHz, and where they end, as their training data do."""

FULL_BAND = 48000
"""Sampling rate of the training sound, in Hz."""

BELOW, ABOVE = 12, 18
"""Number of bands below `FIRST_HZ` and above it."""

COUNT = BELOW + ABOVE


def _number(frequency: float | Reals) -> Any:
    """Return the number of critical bands below a frequency in Hz (ERB-rate scale)."""
    return 21.4 * np.log10(1 + 0.00437 * np.asarray(frequency))


def edges() -> Reals:
    """Return COUNT + 1 band edges in Hz, evenly spaced in ERB rate on each side of `FIRST_HZ`."""
    below = np.linspace(0, _number(FIRST_HZ), BELOW + 1)[:-1]
    above = np.linspace(_number(FIRST_HZ), _number(LAST_HZ), ABOVE + 1)
    return (10 ** (np.concatenate([below, above]) / 21.4) - 1) / 0.00437


class Pooling:
    """A function that averages the bins of each band, from band `first` to below `last`.

    `bins`, `spacing`: number of bins, and distance between them in Hz.
    """

    def __init__(self, bins: int, spacing: float, first: int, last: int) -> None:
        starts = np.round(edges()[first : last + 1] / spacing).astype(int)
        self.inside: int = int(np.sum(starts[1:] < bins))
        self._count = last - first
        self._starts = starts[: self.inside + 1]

    def __call__(self, values: Floats) -> Floats:
        """Return band means, shape (bands, frames); bands not wholly below the top bin are zero.

        `values`: shape (bins, frames).
        """
        means = np.zeros((self._count, *values.shape[1:]), values.dtype)
        if self.inside:
            used = values[: self._starts[-1]]
            sums = np.add.reduceat(used, self._starts[:-1], axis=0)
            means[: self.inside] = sums / np.diff(self._starts)[:, None].astype(values.dtype)
        return means
