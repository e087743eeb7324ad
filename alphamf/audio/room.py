"""Estimate a room from recorded speech: reverberation times and direct-to-reverberant ratio.

Only the recording is needed. The room limits how fast the level of speech falls in an octave band.
The main features are quantiles of falls within a lag, and of falling slopes. Linear functions of
them, fitted to voices in known rooms, give the ratio in dB, and the logarithms of the reverberation
time (RT60) and of the size of the error. The statistics are those of Wen, Habets and Naylor, ICASSP
2008, and Eaton, Gaubitch and Naylor, ICASSP 2013.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from alphamf.tools.arrays import Floats, Reals, parts

BANDS = (250, 500, 1000, 2000, 4000)
"""Centres of the octave bands, in Hz."""

MIDDLE = (500, 1000)
"""Bands whose mean represents the room, as in ISO 3382-1."""

RATIO_BANDS = BANDS[:4]
"""Bands that the direct-to-reverberant ratio is estimated from, at all sampling rates."""

WINDOW, STEP = 0.032, 0.008
"""Length of the frames and distance between them, in seconds."""

SHORTEST, PIECE, LONGEST = 3.0, 20.0, 120.0
"""Least length of a recording; length of the pieces that are estimated by themselves; how much of
the recording is used, from its start; in seconds."""

DROPS = ((4, 50), (4, 90), (8, 50), (12, 75), (12, 90), (16, 50), (24, 90), (48, 90))
"""Lags in frames after a peak, and the percentile of the falls within each lag."""

SLOPES = ((8, 5), (8, 50), (12, 5), (12, 50), (20, 5), (20, 50), (30, 50))
"""Lengths in frames of straight lines, and the percentile of the falling lines' slopes."""

COUNTS = (12, 30)
"""Lengths in frames of straight lines; the log of the proportion of falling ones is a feature."""

FEATURES = len(DROPS) + len(SLOPES) + len(COUNTS) + 3

PEAK, PEAK_TOP = 6, 15.0
"""Frames per side of a peak, at most 1.5 dB louder; its least level in dB below the loud part."""

DEEPEST, LEAST = 60.0, 15.0
"""Depth in dB below the loud part to which lower levels are raised; least depth of the quiet part.
The loud part is the 95th percentile of levels, the quiet part the 3rd percentile."""

ABOVE = 6.0
"""Distance in dB that all levels of a falling line keep above the 3rd percentile of all levels."""

LEAST_SLOPE = -10.0
"""Slope in dB per second; lines with lower slopes count as falling."""

SILENT = -100.0
"""A band is silent if the 95th percentile of its levels in dB is lower than this."""

TOGETHER = 256
"""Number of frames that are transformed at once."""

WIDEST_TIME, WIDEST_RATIO = 1.3, 12.0
"""No estimate is given if half its interval is this or more: for the logarithm of RT60, and for the
ratio in dB."""


class Fit(NamedTuple):
    """A linear function of features, and one for the logarithm of its error."""

    # value, size: a constant and a weight for each feature, for the value and for the logarithm of
    # the size of the error.
    value: Reals
    size: Reals
    width: float  # Ratio of half the interval to the size of the error


_CONSTANTS = json.loads(Path(__file__).with_name("room.json").read_text(encoding="utf-8"))
FITS = {
    name: Fit(np.array(fit["value"]), np.array(fit["size"]), fit["width"])
    for name, fit in _CONSTANTS["fits"].items()
}
OFFSETS: list[float] = _CONSTANTS["offsets"]
"""Offsets of log RT60 per band; ``python -m benchmarks.room_constants`` finds these and `FITS`."""


class Estimate(NamedTuple):
    """An estimate with its interval, which covers the truth in nine of ten recordings."""

    value: float
    low: float
    high: float


class RoomEstimate(NamedTuple):
    """Estimated properties of a room, or the reason why there are none."""

    # RT60 in seconds by the centre of its octave band in Hz; None where it cannot be estimated.
    bands: dict[int, Estimate | None]
    rt60: Estimate | None = None  # RT60 in seconds of both bands in `MIDDLE`, or None
    drr: Estimate | None = None  # Direct-to-reverberant ratio in dB, or None
    reason: str | None = None  # Why there is no estimate; otherwise None


class RoomMeter:
    """An estimator of the room of a recording that comes in blocks.

    `rate`: sampling rate in Hz; bands that reach half of it are left out.
    """

    def __init__(self, rate: int) -> None:
        self.rate: int = rate
        self.bands: list[int] = [band for band in BANDS if band * 2**0.5 < rate / 2]
        self._hop = round(STEP * rate)
        self._frames = round(PIECE / STEP)
        self._left: Floats | None = None
        self._powers: list[Reals] = []
        self._pieces: list[Reals] = []
        self.samples: int = 0

    @property
    def full(self) -> bool:
        """Whether at least `LONGEST` seconds were added, so that no more are needed."""
        return self.samples >= LONGEST * self.rate

    def add(self, audio: Floats) -> None:
        """Take the next samples, shape (samples, channels); the channels' powers are averaged."""
        self.samples += len(audio)
        sound = audio if self._left is None else np.concatenate([self._left, audio])
        powers = [band_powers(channel, self.rate, self.bands) for channel in sound.T]
        power: Reals = np.mean(powers, axis=0)
        self._left = sound[power.shape[1] * self._hop :]
        self._powers.append(power)
        while sum(each.shape[1] for each in self._powers) >= self._frames:
            whole = np.concatenate(self._powers, axis=1)
            self._pieces.append(features(whole[:, : self._frames]))
            self._powers = [whole[:, self._frames :]]

    def estimate(self) -> RoomEstimate:
        """Return the estimated properties of the room."""
        if not set(RATIO_BANDS) <= set(self.bands):
            return RoomEstimate({}, reason=f"the sampling rate, {self.rate} Hz, is too low")
        pieces = list(self._pieces)
        if self._powers:
            rest = np.concatenate(self._powers, axis=1)
            if rest.shape[1] * STEP > SHORTEST - 2 * WINDOW:
                pieces.append(features(rest))
        if not pieces:
            return RoomEstimate({}, reason=f"the recording is shorter than {SHORTEST:g} s")
        found = np.array(pieces)
        bands = {
            band: _time(FITS["BAND"], found[:, [k]], OFFSETS[k])
            for k, band in enumerate(self.bands)
        }
        middle = [self.bands.index(band) for band in MIDDLE]
        rt60 = _time(FITS["MIDDLE"], found[:, middle])
        drr = _predict(FITS["RATIO"], found[:, : len(RATIO_BANDS)], WIDEST_RATIO)
        if rt60 is None and drr is None and not any(bands.values()):
            reason = "no speech, or too much noise: the sound never falls far enough"
            return RoomEstimate(bands, reason=reason)
        return RoomEstimate(bands, rt60, drr)


def estimate_room(audio: Floats, rate: int) -> RoomEstimate:
    """Estimate the room of a recording of speech, of which the first two minutes are used.

    `audio`: shape (samples,) or (samples, channels).
    """
    meter = RoomMeter(rate)
    meter.add(audio[: int(LONGEST * rate)].reshape(-1, 1 if audio.ndim == 1 else audio.shape[1]))
    return meter.estimate()


def band_powers(audio: Floats, rate: int, bands: Sequence[int]) -> Reals:
    """Return the powers of all frames that lie wholly in a sound, shape (bands, frames)."""
    size, hop = round(WINDOW * rate), round(STEP * rate)
    frequencies = np.fft.rfftfreq(size, 1 / rate)
    if len(audio) < size:
        return np.zeros((len(bands), 0))
    blocks = np.lib.stride_tricks.sliding_window_view(audio, size)[::hop]
    window = np.hanning(size + 1)[:-1].astype(np.float32)
    edges = [np.searchsorted(frequencies, (b / 2**0.5, b * 2**0.5)) for b in bands]
    found = np.empty((len(bands), len(blocks)))
    for part in parts(len(blocks), TOGETHER):
        power = np.abs(np.fft.rfft(blocks[part] * window, axis=1)) ** 2
        for k, (first, last) in enumerate(edges):
            found[k, part] = power[:, first:last].sum(axis=1)
    return found


def features(powers: Reals) -> Reals:
    """Return the features, shape (bands, `FEATURES`), of powers, shape (bands, frames).

    All features are NaN in a band that is silent, or whose power does not fall far enough.
    """
    return np.array([_features(10 * np.log10(band + 1e-30)) for band in powers])


def _features(levels: Reals) -> Reals:
    loud = np.percentile(levels, 95)
    levels = np.maximum(levels, loud - DEEPEST)
    quiet = float(np.percentile(levels, 3))
    if loud - quiet < LEAST or loud < SILENT:
        return np.full(FEATURES, np.nan)
    around = np.pad(levels, PEAK, constant_values=-np.inf)
    loudest = np.lib.stride_tricks.sliding_window_view(around, 2 * PEAK + 1).max(axis=1)
    peaks = np.flatnonzero((levels >= loudest - 1.5) & (levels > loud - PEAK_TOP))
    found = [loud - quiet, np.log(0.1 + np.mean(np.minimum(np.abs(np.diff(levels)), 10)))]
    for lag, percentage in DROPS:
        before = peaks[peaks + lag < len(levels)]
        found.append(np.percentile(levels[before] - levels[before + lag], percentage))
    falling = {length: _falling(levels, length, quiet) for length, _ in SLOPES}
    for length, percentage in SLOPES:
        slope = np.percentile(falling[length], percentage) if len(falling[length]) > 4 else -20.0
        found.append(np.log(-60 / slope))
    found += [np.log((1 + len(falling[length])) / len(levels)) for length in COUNTS]
    return np.array([*found, np.log(len(levels))])


def _falling(levels: Reals, length: int, quiet: float) -> Reals:
    """Return slopes in dB/s of falling lines through `length` levels over `quiet` + `ABOVE`."""
    pieces = np.lib.stride_tricks.sliding_window_view(levels, length)
    time = (np.arange(length) - (length - 1) / 2) * STEP
    slopes = pieces @ (time / (time @ time))
    lowest = pieces.min(axis=1)
    return slopes[(lowest > quiet + ABOVE) & (slopes < LEAST_SLOPE)]


def _predict(fit: Fit, found: Reals, widest: float, offset: float = 0.0) -> Estimate | None:
    """Return an estimate from features, shape (pieces, bands, `FEATURES`); None if unreliable.

    Each piece without NaN is estimated from its bands' mean features; the estimates are averaged.
    """
    pieces = found.mean(axis=1)
    pieces = pieces[np.isfinite(pieces).all(axis=1)]
    if not len(pieces):
        return None
    with_one = np.column_stack([np.ones(len(pieces)), pieces])
    value = float(np.mean(with_one @ fit.value)) + offset
    half = fit.width * float(np.exp(np.mean(with_one @ fit.size)))
    return Estimate(value, value - half, value + half) if half < widest else None


def _time(fit: Fit, found: Reals, offset: float = 0.0) -> Estimate | None:
    logarithm = _predict(fit, found, WIDEST_TIME, offset)
    return None if logarithm is None else Estimate(*map(math.exp, logarithm))
