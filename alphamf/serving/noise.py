"""The noise of a recording in words: its level, its colour, how it changes, and knocks."""

from __future__ import annotations

import math

import numpy as np

from alphamf.tools.arrays import Floats

BLOCK_SECONDS = 0.004
"""Length of the blocks whose energy shows knocks and clicks."""

KNOCK_DB = 15.0
"""How far a block is above the median of its surroundings where there is a knock."""

_SURROUNDINGS = 125
"""Blocks whose median a knock stands out from: half a second."""


class NoiseDescription:
    """Collects what was removed and what was left, and describes the noise in a sentence.

    Parameters
    ----------
    rate
        Sampling rate in Hz.
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._size = max(1, round(BLOCK_SECONDS * rate))
        self._n_fft = 2 ** round(math.log2(0.25 * rate))
        self._noise: list[Floats] = []
        self._speech: list[Floats] = []
        self._spectrum = np.zeros(self._n_fft // 2 + 1)

    def add(self, speech: Floats, noise: Floats) -> None:
        """Add a segment, shape (samples, channels) each."""
        self._speech.append(_energies(speech, self._size))
        self._noise.append(_energies(noise, self._size))
        mono = noise.mean(1)
        count = len(mono) // self._n_fft
        blocks = mono[: count * self._n_fft].reshape(count, self._n_fft)
        self._spectrum += (np.abs(np.fft.rfft(blocks * np.hanning(self._n_fft))) ** 2).sum(0)

    def sentence(self) -> str:
        """Return the description."""
        noise, speech = np.concatenate(self._noise), np.concatenate(self._speech)
        if not noise.any():
            return "No noise was found."
        level = _level(speech)
        below = 10 * math.log10(level / noise.mean()) if level else None
        if below is not None and below > 40:
            return f"Hardly any noise: {below:.0f} dB below the speech."
        words = f"{_steadiness(noise)} {_colour(self._spectrum, self._rate)}"
        if below is None:
            where = "and no speech"
        elif abs(below) < 0.5:
            where = "as loud as the speech"
        else:
            where = f"{abs(below):.0f} dB {'below' if below > 0 else 'above'} the speech"
        return f"{words}, {where}{_knocks(noise, self._size / self._rate)}."


def _energies(audio: Floats, size: int) -> Floats:
    """Return the mean power of each block of `size` samples."""
    count = max(1, len(audio) // size)
    blocks = audio[: count * size].reshape(count, -1).astype(np.float64)
    energies: Floats = (blocks**2).mean(1)
    return energies


def _level(speech: Floats) -> float:
    """Return the mean power of the blocks that hold speech: within 30 dB of the loud ones."""
    loud = float(np.percentile(speech, 95))
    active = speech[speech > loud / 1000]
    return float(active.mean()) if len(active) else 0.0


def _steadiness(noise: Floats) -> str:
    """Say how far the level of a second strays, from its 10th to its 90th percentile."""
    second = round(1 / BLOCK_SECONDS)
    count = max(1, len(noise) // second)
    # The median of a second is that of the noise between knocks.
    seconds = np.median(noise[: count * second].reshape(count, -1), axis=1)
    low, high = np.percentile(seconds, [10, 90])
    if low <= 0:
        return "Changing"
    spread = 10 * math.log10(high / low)
    return "Steady" if spread < 4 else "Slowly changing" if spread < 9 else "Changing"


def _colour(spectrum: Floats, rate: int) -> str:
    """Name the part of the spectrum that holds most of the noise's energy."""
    frequencies = np.linspace(0, rate / 2, len(spectrum))
    total = spectrum.sum()
    low = frequencies < 300
    if spectrum[low].sum() > 0.6 * total:
        return "hum" if _tones(spectrum[low]) > 0.5 else "rumble"
    if spectrum[frequencies > 2000].sum() > 0.5 * total:
        return "hiss"
    middle = spectrum[frequencies < 1000].sum() > 0.6 * total
    return "noise of low and middle pitch" if middle else "noise"


def _tones(spectrum: Floats) -> float:
    """Return which part of the energy lies in bins that stand 10 dB out of those around."""
    around = np.lib.stride_tricks.sliding_window_view(np.pad(spectrum, 8, "reflect"), 17)
    out = spectrum > 10 * np.median(around, axis=1)
    return float(spectrum[out].sum() / spectrum.sum())


def _knocks(noise: Floats, seconds: float) -> str:
    """Say how often the energy of a block jumps above that of its surroundings."""
    count = len(noise) // _SURROUNDINGS
    if not count:
        return ""
    blocks = noise[: count * _SURROUNDINGS].reshape(count, -1)
    medians = np.median(blocks, axis=1, keepdims=True)
    # Silence has no knocks, only ends.
    high = (blocks > medians * 10 ** (KNOCK_DB / 10)) & (medians > 1e-9)
    starts = np.count_nonzero(np.diff(high.ravel().astype(np.int8)) == 1)
    minutes = high.size * seconds / 60
    if starts < 6 * minutes:
        return ""
    often = f"about {starts / minutes:.0f} a minute" if minutes > 1 else f"{starts} in all"
    return f", with knocks or clicks ({often})"
