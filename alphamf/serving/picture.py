"""Pictures for the page: waveforms, spectrograms and levels, computed column by column.

A column is a record of bytes, so that the browser can read what was added since its last request.
"""

import math
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from alphamf.audio import stft
from alphamf.audio.stft import Frame
from alphamf.batch.plot import Columns
from alphamf.denoising.uncertainty import LOUDEST, levels, powers
from alphamf.tools.arrays import Floats

BANDS = 96
"""Number of rows of a spectrogram, evenly spaced on the mel scale up to half the sampling rate."""

RECORD = 2 + BANDS
"""Number of bytes of a column: lowest and highest sample, then the bands from low to high."""

BAND_RECORD = 3
"""Number of bytes of a column of the level: lower end, middle, upper end."""

FLOOR = -120.0
"""Level in dB of full scale that the byte 0 stands for; the byte 255 stands for 0 dB."""

_CHUNK = 512
"""Maximum number of STFT frames that are transformed at a time."""


def decibel_bytes(power: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Convert powers (1 is full scale) to bytes that represent `FLOOR` to 0 dB."""
    decibels = 10 * np.log10(np.maximum(power, 10 ** (FLOOR / 10)))
    return np.rint((1 - decibels / FLOOR) * 255).clip(0, 255).astype(np.uint8)


class SoundPicture:
    """Waveform and spectrogram of a signal that arrives in blocks, written column by column.

    `frames`, `rate`: length of the signal in samples, and samples per second.
    """

    def __init__(self, frames: int, rate: int, file: BinaryIO) -> None:
        n_fft = max(16, 2 ** round(math.log2(0.025 * rate)))
        self._hop, self._file = n_fft // 2, file
        self._window = (stft.sqrt_hann(n_fft) ** 2).astype(np.float32)
        self._filters = _filters(n_fft, rate)
        self._columns = Columns(BANDS, -(-frames // self._hop))
        self._lowest = np.full(self._columns.count, np.inf)
        self._highest = np.full(self._columns.count, -np.inf)
        self._rest: Floats | None = None

    def add(self, block: Floats) -> None:
        """Add samples, shape (n, channels), and write the columns that are complete."""
        block = block.clip(-LOUDEST, LOUDEST)
        if self._rest is not None:
            block = np.concatenate([self._rest, block])
        frames = max(0, (len(block) - self._hop) // self._hop)
        for start in range(0, frames, _CHUNK):
            self._transform(block, start, min(_CHUNK, frames - start))
        self._rest = block[frames * self._hop :]
        self._write()

    def finish(self) -> None:
        """Write the remaining columns."""
        if self._rest is not None and len(self._rest):
            channels = self._rest.shape[1]
            self.add(np.zeros((2 * self._hop - 1, channels), np.float32))
        self._write(end=True)

    def _transform(self, block: Floats, start: int, count: int) -> None:
        first = start * self._hop
        audio = block[first : first + (count + 1) * self._hop]
        windows = np.lib.stride_tricks.sliding_window_view(audio, len(self._window), axis=0)
        spectrum = np.fft.rfft(windows[:: self._hop] * self._window)
        power = (np.abs(spectrum) ** 2).mean(1) / (self._window.sum() / 2) ** 2
        steps = audio[: count * self._hop].mean(1).reshape(count, self._hop)
        place = self._columns.place(count)
        np.minimum.at(self._lowest, place, steps.min(1))
        np.maximum.at(self._highest, place, steps.max(1))
        self._columns.add(power @ self._filters)

    def _write(self, *, end: bool = False) -> None:
        part, power = self._columns.complete_columns(end=end)
        ends = np.stack([self._lowest[part], self._highest[part]], 1)
        ends[~np.isfinite(ends)] = 0
        wave = np.rint(ends.clip(-1, 1) * 127 + 128).astype(np.uint8)
        self._file.write(np.concatenate([wave, decibel_bytes(power)], 1).tobytes())
        self._file.flush()


class Band:
    """Level of the speech and its range of uncertainty, written column by column.

    `frames`: length of the recording in samples. `frame`: STFT window and hop of the gain.
    """

    def __init__(self, frames: int, frame: Frame, file: BinaryIO) -> None:
        self._frame, self._file = frame, file
        self._columns = Columns(BAND_RECORD, stft.frame_count(frames, frame))

    def add(self, audio: Floats, gain: Floats, gain_std: Floats) -> None:
        """Add a segment, and write the columns that are complete.

        `audio`: the input, shape (samples, channels). `gain`, `gain_std`: shape (channels, bins,
        frames).
        """
        power = powers(audio, self._frame, gain.shape[2])
        self._columns.add(levels(power, gain, gain_std))
        self._write()

    def finish(self) -> None:
        """Write the remaining columns."""
        self._write(end=True)

    def _write(self, *, end: bool = False) -> None:
        self._file.write(decibel_bytes(self._columns.complete_columns(end=end)[1]).tobytes())
        self._file.flush()


def _filters(n_fft: int, rate: int) -> Floats:
    """Return triangular filters on the mel scale, shape (bins, `BANDS`), each with a sum of one."""
    top = 2595 * math.log10(1 + rate / 2 / 700)
    centres = 700 * (10 ** (np.linspace(0, top, BANDS + 2) / 2595) - 1)
    bins = np.arange(n_fft // 2 + 1) * (rate / n_fft)
    width = np.maximum(np.diff(centres), rate / n_fft)
    rise = 1 - (centres[1:-1] - bins[:, None]) / width[:-1]
    fall = 1 - (bins[:, None] - centres[1:-1]) / width[1:]
    filters = np.maximum(np.minimum(rise, fall), 0)
    return (filters / np.maximum(filters.sum(0), 1e-9)).astype(np.float32)
