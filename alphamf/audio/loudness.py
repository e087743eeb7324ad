"""Loudness and true peak as in ITU-R BS.1770-4, a limiter for true peaks, and a `Normalizer`."""

import math
import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphamf.audio.writer import Writer
from alphamf.errors import AlphaMFError
from alphamf.tools.arrays import Floats
from alphamf.tools.files import system_errors, temporary_place

CEILING = -1.0
"""Highest true peak of normalized sound, in dB relative to full scale, as in EBU R 128."""

_MARGIN = 0.05
"""Distance in dB that the limiter keeps from `CEILING`, because a varying gain can raise peaks that
lie between samples."""

_LEAST_RATE = 3400
"""Lowest sampling rate in Hz: the loudness filter's shelf, at 1682 Hz, must lie below its half."""

_CHANNELS: dict[int, tuple[float, ...]] = {
    **{count: (1.0, 1.0, 1.0, 1.41, 1.41)[:count] for count in range(1, 6)},
    6: (1.0, 1.0, 1.0, 0.0, 1.41, 1.41),
    7: (1.0, 1.0, 1.0, 0.0, 1.0, 1.41, 1.41),
    8: (1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.41, 1.41),
}
"""Weights of the channels' powers by the number of channels, in WAV's order: left, right, centre,
low frequencies (from six channels on), back, sides (BS.1770-4, annex 3)."""

_STEP = 0.1
"""A quarter of a gating block, in seconds."""

_AHEAD = 0.005
"""Half of the limiter's attack before a peak, and of its release after it, in seconds."""

_BLOCKS = 1500
"""Approximate number of blocks per second, for powers, true peaks and the limiter's gain."""

_OVER, _REACH = 4, 10
"""Factor of oversampling for true peaks, and samples that its filter reaches to each side."""

_CHUNK = 1 << 16

_ROUNDS, _MOST, _NEAR = 10, 60.0, 0.01
"""Maximum number of attempts to find the gain, as the limiter reduces the loudness; the maximum
increase per attempt, and the tolerance, in dB."""

_TARGET = re.compile(r"(-?\d+(?:\.\d+)?) ?(?:LUFS)?", re.IGNORECASE)


NAMED = {"podcast": "-16", "broadcast": "-23"}
"""Loudness in LUFS by its use: what podcast platforms ask for in stereo, and EBU R 128."""


def target(text: str) -> float:
    """Return the LUFS in a text such as ``-16LUFS`` or ``podcast``, or raise an AlphaMFError."""
    found = _TARGET.fullmatch(NAMED.get(text.strip().lower(), text.strip()))
    if found is None or not -70 <= float(found[1]) <= 0:
        raise AlphaMFError(
            "`normalize` must be a loudness from -70 to 0 LUFS, such as -16LUFS, or "
            f"{' or '.join(NAMED)}, not {text!r}"
        )
    return float(found[1])


class Levels(NamedTuple):
    """K-weighted power and true peak of each block of a recording."""

    powers: NDArray[np.float64]  # Weighted sums of squares over a block's samples and channels
    peaks: Floats  # Largest amplitude, also between samples, until the next block begins
    size: int  # Samples of a block
    step: int  # Samples of a quarter of a gating block
    frames: int  # Samples of the recording


def check(rate: int, channels: int) -> None:
    """Raise an AlphaMFError if loudness is undefined for a rate in Hz or a number of channels."""
    if channels > max(_CHANNELS):
        raise AlphaMFError(
            f"loudness can be measured for up to {max(_CHANNELS)} channels, not {channels}"
        )
    if rate < _LEAST_RATE:
        raise AlphaMFError(
            f"loudness can be measured at {_LEAST_RATE} Hz or more, not at {rate} Hz"
        )


def measure(audio: Floats, rate: int) -> Levels:
    """Return the powers and true peaks of `audio`, shape (samples, channels), at `rate` Hz."""
    from pyloudnorm import Meter
    from scipy.signal import sosfilt

    channels = audio.shape[1]
    check(rate, channels)
    filters = Meter(rate)._filters.values()
    sections = np.array([[*(each.passband_gain * each.b), *each.a] for each in filters])
    state = np.zeros((len(sections), channels, 2))
    size = rate // _BLOCKS
    table = _between(size)
    powers, peaks = [np.zeros(0)], [np.zeros(0, np.float32)]
    for start, part in parts(audio, size):
        weighted, state = sosfilt(sections, np.array(part.T, np.float64, order="C"), zi=state)
        power = np.array(_CHANNELS[channels]) @ np.square(weighted, out=weighted)
        power = np.pad(power, (0, -len(power) % size))
        powers.append(power.reshape(-1, size).sum(axis=1))
        peaks.append(_true_peaks(audio, start, len(part), table))
    step = round(_STEP * rate)
    return Levels(np.concatenate(powers), np.concatenate(peaks), size, step, len(audio))


def loudness(levels: Levels, gains: NDArray[np.float64] | None = None) -> float | None:
    """Return the LUFS after `gains` per block; None if shorter than 0.4 s or below -70 LUFS."""
    powers = levels.powers if gains is None else levels.powers * gains**2
    total = np.concatenate([[0.0], np.cumsum(powers)])
    steps = np.arange(levels.frames // levels.step + 1) * levels.step / levels.size
    quarters = np.diff(total[np.rint(steps).astype(int)]) / levels.step
    if len(quarters) < 4:
        return None
    powers = np.lib.stride_tricks.sliding_window_view(quarters, 4).mean(axis=1)
    heard = powers[powers >= 10 ** ((-70 + 0.691) / 10)]
    if not len(heard) or not math.isfinite(heard.mean()):
        return None
    heard = heard[heard > heard.mean() / 10]
    return float(-0.691 + 10 * np.log10(heard.mean()))


def _between(size: int) -> Floats:
    """Return the matrix, shape (size + 20, 3 size), that interpolates 3 values per sample."""
    from scipy.signal import firwin

    taps = _OVER * firwin(2 * _REACH * _OVER + 1, 1 / _OVER, window=("kaiser", 5.0))
    table = np.zeros((size + 2 * _REACH, size, _OVER - 1), np.float32)
    for place in range(size):
        for phase in range(1, _OVER):
            own = taps[phase::_OVER][::-1]  # for the samples from the tenth before on
            table[place + 1 : place + 1 + len(own), place, phase - 1] = own
    return table.reshape(len(table), -1)


def _true_peaks(
    audio: Floats, start: int, count: int, table: Floats, chosen: Any = slice(None)
) -> Floats:
    """Return true peaks over all channels, of `chosen` blocks among `count` samples from `start`.

    One product with `table` finds what `scipy.signal.resample_poly` finds at four times the rate.
    """
    size = len(table) - 2 * _REACH
    blocks = -(-count // size)
    first, last = max(0, start - _REACH), min(len(audio), start + blocks * size + _REACH)
    peaks = []
    for channel in range(audio.shape[1]):
        sound = np.zeros(blocks * size + 2 * _REACH, np.float32)
        sound[first - start + _REACH : last - start + _REACH] = audio[first:last, channel]
        windows = np.lib.stride_tricks.sliding_window_view(sound, len(table))[::size][chosen]
        for values in (windows @ table, windows[:, _REACH:-_REACH]):
            peaks += [values.max(axis=1), -values.min(axis=1)]
    return np.maximum.reduce(peaks)


def parts(audio: Floats, size: int) -> Iterator[tuple[int, Floats]]:
    """Yield each part's start and samples; all parts but the last are whole blocks of `size`."""
    length = _CHUNK // size * size
    for start in range(0, len(audio), length):
        yield start, audio[start : start + length]


def limiter(levels: Levels, gain: float) -> NDArray[np.float64]:
    """Return the limiter's gain at the edges of all blocks, for a recording amplified by `gain`.

    It is a weighted mean of local minima of the required gain, so that it never exceeds the gain
    that the blocks beside an edge require, and changes smoothly.
    """
    ceiling = 10 ** ((CEILING - _MARGIN) / 20)
    needed = np.minimum(1, ceiling / np.maximum(gain * levels.peaks.astype(float), ceiling))
    reach = max(1, round(_AHEAD * _BLOCKS))
    windows = np.lib.stride_tricks.sliding_window_view
    least = windows(np.pad(needed, reach, mode="edge"), 2 * reach).min(axis=1)
    weights = np.hanning(2 * reach + 1)[1:-1]
    padded = np.pad(least, reach - 1, mode="edge")
    edges = np.convolve(padded, weights / weights.sum(), mode="valid")
    return np.where(edges > 1 - 1e-9, 1.0, edges)


class LoudnessChange(NamedTuple):
    """A gain factor, the limiter's gain at block edges, and the LUFS before and after both."""

    gain: float
    edges: NDArray[np.float64]
    before: float
    after: float


def normalizing_gain(levels: Levels, wanted: float) -> LoudnessChange | None:
    """Return the change to `wanted` LUFS, with the limiter; None if `loudness` returns None."""
    before = loudness(levels)
    if before is None:
        return None
    gain, after = 1.0, before
    for _ in range(_ROUNDS):
        gain *= 10 ** (min(_MOST, wanted - after) / 20)
        edges = limiter(levels, gain)
        after = loudness(levels, gain * (edges[1:] + edges[:-1]) / 2) or before
        if abs(after - wanted) < _NEAR:
            break
    return LoudnessChange(gain, edges, before, after)


def amplified(
    audio: Floats, levels: Levels, change: LoudnessChange
) -> Iterator[tuple[Floats, float]]:
    """Yield the amplified and limited recording in parts, each with its true peak (amplitude)."""
    size, edges = levels.size, change.edges
    ramp = ((np.arange(size) + 0.5) / size).astype(np.float32)
    table = _between(size)
    for start, part in parts(audio, size):
        block = start // size
        peaks = levels.peaks[block : block + -(-len(part) // size)]
        own = edges[block : block + len(peaks) + 1].astype(np.float32)
        louder = part * np.float32(change.gain)
        limited = (own[1:] < 1) | (own[:-1] < 1)
        highest = change.gain * float(peaks[~limited].max(initial=0))
        if limited.any():
            curve = own[:-1, None] + np.diff(own)[:, None] * ramp
            louder *= curve.reshape(-1, 1)[: len(part)]
            found = _true_peaks(louder, 0, len(part), table, limited)
            highest = max(highest, float(found.max()))
        yield louder, highest


class Normalizer:
    """Buffer for samples, which `finish` passes to a `Writer` at the wanted loudness.

    The samples are stored in a temporary file, which `stack` closes; a sample takes four bytes.

    `rate`, `channels`: sampling rate in Hz and number of channels of the recording. `loudness`: the
    loudness to reach, in LUFS.
    """

    def __init__(
        self, writer: Writer, rate: int, channels: int, loudness: float, stack: ExitStack
    ) -> None:
        check(rate, channels)
        self._writer, self._rate, self._loudness = writer, rate, loudness
        self._shape = 0, channels
        self._copying = f"cannot write a temporary copy in {temporary_place()}"
        with system_errors(self._copying):
            self._file = stack.enter_context(tempfile.TemporaryFile(prefix="alphamf-"))

    def write(self, block: Floats) -> None:
        """Add samples, shape (n, channels)."""
        with system_errors(self._copying):
            self._file.write(np.ascontiguousarray(block, np.float32).data)
        self._shape = self._shape[0] + len(block), self._shape[1]

    def finish(self) -> dict[str, float] | None:
        """Write the recording; return loudness before and after in LUFS, and new true peak in dB.

        A recording that is too short or too quiet to be measured is written unchanged, and the
        result is None.
        """
        with system_errors(self._copying):
            self._file.flush()
        audio: Floats = np.memmap(self._file, np.float32, "r", shape=self._shape)
        levels = measure(audio, self._rate)
        found = normalizing_gain(levels, self._loudness)
        if found is None:
            for _, block in parts(audio, 1):
                self._writer.write(block)
            return None
        peak = 0.0
        for block, highest in amplified(audio, levels, found):
            peak = max(peak, highest)
            self._writer.write(block)
        return {
            "before": found.before,
            "after": found.after,
            "true_peak_db": 20 * math.log10(max(peak, 1e-10)),
        }
