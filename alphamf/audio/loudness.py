"""Loudness and true peak as in ITU-R BS.1770-4, in blocks, and a limiter for true peaks."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphamf.errors import AlphaMFError
from alphamf.tools.arrays import Floats
from alphamf.tools.extras import install_packages

CEILING = -1.0
"""Highest true peak of what is normalized, in dB of full scale, as in EBU R 128."""

_MARGIN = 0.05
"""Distance in dB that the limiter keeps from it, because a varying gain shifts peaks between
samples."""

_LEAST_RATE = 3400
"""Lowest sampling rate in Hz: the filter's shelf, at 1682 Hz, must lie below half of it."""

_CHANNELS = (1.0, 1.0, 1.0, 1.41, 1.41)
"""Weights of left, right, centre and the two at the sides."""

_STEP = 0.1
"""A quarter of a gating block, in seconds."""

_AHEAD = 0.005
"""Attack before and hold after a peak of the limiter, in seconds; the release is twice as long."""

_OVER = 4
_CHUNK = 1 << 18

_ROUNDS, _MOST, _NEAR = 4, 60.0, 0.05
"""Attempts to find the gain, because the limiter reduces the loudness; the maximum increase per
attempt, and the tolerance, in dB."""

_TARGET = re.compile(r"(-?\d+(?:\.\d+)?) ?(?:LUFS)?", re.IGNORECASE)


NAMED = {"podcast": "-16", "broadcast": "-23"}
"""Loudness in LUFS by what it is for: the podcast platforms' for stereo, and EBU R 128's."""


def target(text: str) -> float:
    """Parse a loudness such as ``-16LUFS`` or ``podcast``; return it in LUFS."""
    found = _TARGET.fullmatch(NAMED.get(text.strip().lower(), text.strip()))
    if found is None or not -70 <= float(found[1]) <= 0:
        raise AlphaMFError(
            "`normalize` must be a loudness from -70 to 0 LUFS, such as -16LUFS, or "
            f"{' or '.join(NAMED)}, not {text!r}"
        )
    _meter(48000)
    return float(found[1])


def _meter(rate: int) -> Any:
    try:
        import pyloudnorm
    except ImportError as error:
        command = install_packages("pyloudnorm")
        raise AlphaMFError(
            f"measuring loudness needs pyloudnorm; install it with {command}"
        ) from error
    return pyloudnorm.Meter(rate)


class Meter:
    """Measures the integrated loudness of a recording in blocks.

    `rate`, `channels`: sampling rate in Hz and number of channels of the recording.
    """

    def __init__(self, rate: int, channels: int) -> None:
        if channels > len(_CHANNELS):
            raise AlphaMFError(
                f"loudness can be measured for up to {len(_CHANNELS)} channels, not {channels}"
            )
        if rate < _LEAST_RATE:
            raise AlphaMFError(
                f"loudness can be measured at {_LEAST_RATE} Hz or more, not at {rate} Hz"
            )
        filters = list(_meter(rate)._filters.values())
        self._filters = [(each.passband_gain * each.b, each.a) for each in filters]
        self._states = [np.zeros((2, channels)) for _ in filters]
        self._weights = np.array(_CHANNELS[:channels])
        self._rate = rate
        self._powers: list[float] = []
        self._left = np.zeros(0)

    def add(self, block: Floats) -> None:
        """Add samples, shape (n, channels)."""
        from scipy.signal import lfilter

        weighted: NDArray[np.float64] = block.astype(np.float64)
        for k, (b, a) in enumerate(self._filters):
            weighted, self._states[k] = lfilter(b, a, weighted, axis=0, zi=self._states[k])
        step = round(_STEP * self._rate)
        power = np.concatenate([self._left, np.square(weighted) @ self._weights])
        whole = len(power) // step * step
        self._powers += power[:whole].reshape(-1, step).mean(axis=1).tolist()
        self._left = power[whole:]

    def result(self) -> float | None:
        """Return the loudness in LUFS; None if it is undefined, as for less than 0.4 s."""
        if len(self._powers) < 4:
            return None
        powers = np.lib.stride_tricks.sliding_window_view(np.array(self._powers), 4).mean(axis=1)
        heard = powers[powers >= 10 ** ((-70 + 0.691) / 10)]
        if not len(heard) or not math.isfinite(heard.mean()):
            return None
        heard = heard[heard > heard.mean() / 10]
        return float(-0.691 + 10 * np.log10(heard.mean()))


def true_peaks(audio: Floats) -> Floats:
    """Return the peak from each sample to the next, over channels, at four times the rate.

    `audio`: shape (samples, channels).
    """
    from scipy.signal import resample_poly

    between = np.abs(resample_poly(audio, _OVER, 1, axis=0)).max(axis=1)
    found: Floats = np.maximum(between.reshape(-1, _OVER).max(axis=1), np.abs(audio).max(axis=1))
    return found


def limit_peaks(audio: Floats, rate: int, gain: float) -> Iterator[Floats]:
    """Apply a gain to a recording, and yield it with true peaks limited to `CEILING`.

    The gain of a sample is a weighted mean of local minima of the required gain, so that it never
    exceeds the gain that the sample requires, and changes smoothly.

    `audio`: shape (samples, channels). `rate`: in Hz.
    """
    from scipy.ndimage import minimum_filter1d

    ceiling = 10 ** ((CEILING - _MARGIN) / 20)
    ahead = max(1, round(_AHEAD * rate))
    window = np.hanning(2 * ahead + 3)[1:-1]
    margin = 2 * ahead + 64  # and the oversampling filter
    for start in range(0, len(audio), _CHUNK):
        end = min(len(audio), start + _CHUNK)
        first, last = max(0, start - margin), min(len(audio), end + margin)
        loud = audio[first:last] * np.float32(gain)
        needed = np.minimum(1, ceiling / np.maximum(true_peaks(loud), ceiling))
        least = minimum_filter1d(needed, 2 * ahead + 1, mode="nearest")
        padded = np.pad(least, ahead, mode="edge")
        smooth = np.convolve(padded, window / window.sum(), mode="valid")
        yield (loud * smooth[:, None].astype(np.float32))[start - first : end - first]


def chunks(audio: Floats) -> Iterator[Floats]:
    """Yield a recording in parts, shape (samples, channels), unchanged."""
    for start in range(0, len(audio), _CHUNK):
        yield audio[start : start + _CHUNK]


class LoudnessChange(NamedTuple):
    """A gain, and the loudness in LUFS before and after it."""

    gain: float
    before: float
    after: float


def normalizing_gain(audio: Floats, rate: int, loudness: float) -> LoudnessChange | None:
    """Return the gain that brings a recording to a target loudness after `limit_peaks`.

    `audio`: shape (samples, channels). `rate`: in Hz. `loudness`: in LUFS.
    """
    before = _loudness(audio, rate, None)
    if before is None:
        return None
    gain, after = 1.0, before
    for _ in range(_ROUNDS):
        gain *= 10 ** (min(_MOST, loudness - after) / 20)
        after = _loudness(audio, rate, gain) or before
        if abs(after - loudness) < _NEAR:
            break
    return LoudnessChange(gain, before, after)


def _loudness(audio: Floats, rate: int, gain: float | None) -> float | None:
    meter = Meter(rate, audio.shape[1])
    for block in chunks(audio) if gain is None else limit_peaks(audio, rate, gain):
        meter.add(block)
    return meter.result()


def amplitude_to_decibels(amplitude: float) -> float:
    """Convert an amplitude to dB of full scale."""
    return 20 * math.log10(max(amplitude, 1e-10))
