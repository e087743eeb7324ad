"""Picture of a denoised file: spectrograms before and after, and the uncertainty."""

import math
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphamf.audio.stft import Frame, frame_count, sqrt_hann
from alphamf.denoising.uncertainty import levels, powers
from alphamf.tools import extras
from alphamf.tools.arrays import Floats, Reals
from alphamf.tools.files import atomic_file, file_errors

COLUMNS = 1200
"""Maximum number of columns of a picture: about one per pixel."""

_RANGE = 80.0
"""Range of the picture in dB, below the input's loudest time-frequency cell or full scale."""

_HEARD = 50.0
"""Depth in dB below the loudest cell of the speech from which on cells are drawn black."""

_SURE = -15.0
"""Error relative to the speech, in dB, up to which the speech is drawn as certain."""

_DOUBTS = ("#3b8bff", "#e0e0e0", "#ff7a1a")
"""Colours from certain to uncertain."""

_QUIETEST = 1e-20
"""Reference power for digital silence."""

_CHUNK = 256
"""Number of frames that are transformed at a time."""


class Columns:
    """Means of `total` vectors of `rows` numbers, added in order, over equally long columns."""

    added: int

    def __init__(self, rows: int, total: int) -> None:
        self._total = max(1, total)
        self.count: int = min(COLUMNS, self._total)
        self._sum = np.zeros((self.count, rows))
        self._rows = np.zeros(self.count)
        self.added = 0
        self._taken = 0

    def place(self, count: int) -> NDArray[np.intp]:
        """Return the column index of each of the next `count` vectors."""
        index = self.added + np.arange(count)
        return np.minimum(index * self.count // self._total, self.count - 1)

    def add(self, rows: Reals) -> None:
        """Add the next n vectors, shape (n, rows)."""
        place = self.place(len(rows))
        np.add.at(self._sum, place, rows)
        np.add.at(self._rows, place, 1)
        self.added += len(rows)

    def complete_columns(self, *, end: bool = False) -> tuple[slice, NDArray[np.float64]]:
        """Return the columns completed since the last call (`end`: all others), and their means."""
        last = self.count if end else int(self.place(1)[0])
        part = slice(self._taken, max(last, self._taken))
        self._taken = part.stop
        return part, self.means(part)

    def means(self, part: slice = slice(None)) -> NDArray[np.float64]:
        """Return the means of columns, shape (columns, rows)."""
        return self._sum[part] / np.maximum(self._rows[part], 1)[:, None]


class Spectrogram:
    """Power spectrogram of a signal in blocks, averaged over its channels.

    `frames`, `rate`: length of the signal in samples, and samples per second.
    """

    def __init__(self, frames: int, rate: int) -> None:
        # About 30 ms, and no more rows than there are pixels for.
        n_fft = min(2 ** round(math.log2(0.03 * rate)), 1024)
        self._hop = n_fft // 4
        self._window = (sqrt_hann(n_fft) ** 2).astype(np.float32)
        self._columns = Columns(n_fft // 2 + 1, 1 + frames // self._hop)
        # Frame j is centred on sample j * hop.
        self._rest: Floats = np.zeros((n_fft // 2, 1), np.float32)

    def add(self, block: Floats) -> None:
        """Add the next samples, shape (n, channels)."""
        before = np.broadcast_to(self._rest, (len(self._rest), block.shape[1]))
        audio = np.concatenate([before, block])
        if len(audio) < len(self._window):
            self._rest = audio
            return
        windows = np.lib.stride_tricks.sliding_window_view(audio, len(self._window), axis=0)
        windows = windows[:: self._hop]
        for start in range(0, len(windows), _CHUNK):
            spectrum = np.fft.rfft(windows[start : start + _CHUNK] * self._window)
            self._columns.add((np.abs(spectrum) ** 2).mean(1))
        self._rest = audio[len(windows) * self._hop :]

    def power(self) -> NDArray[np.float32]:
        """Return the power, shape (bins, columns), after the whole signal was added."""
        self.add(np.zeros((len(self._window) // 2, self._rest.shape[1]), np.float32))
        return self._columns.means().T.astype(np.float32)


class Picture:
    """Data of the picture of a file, collected while the file is denoised.

    `frames`, `rate`: length of the file in samples, and samples per second.
    """

    def __init__(self, title: str, frames: int, rate: int) -> None:
        self.before: Spectrogram = Spectrogram(frames, rate)
        self.after: Spectrogram = Spectrogram(frames, rate)
        self._title = title
        self._frames = frames
        self._rate = rate
        self._found: list[Columns] = []

    def add_gain(self, audio: Floats, gain: Floats, gain_std: Floats, frame: Frame) -> None:
        """Add the speech and the uncertainty of the next segment.

        `audio`: the input, shape (samples, channels). `gain`, `gain_std`: shape (channels, bins,
        frames), from 0 Hz to half the rate. `frame`: the gain's window and hop, in samples.
        """
        if not self._found:
            total = frame_count(self._frames, frame)
            self._found = [Columns(rows, total) for rows in (frame.bins, frame.bins, 3)]
        power = powers(audio, frame, gain.shape[2])
        means = ((each**2 * power).mean(0).T for each in (gain, gain_std))
        found = *means, levels(power, gain, gain_std)
        for columns, values in zip(self._found, found, strict=True):
            columns.add(values)

    def save(
        self, path: str | os.PathLike[str], *, mode: int = 0o666, replace: bool = True
    ) -> None:
        """Draw the picture and write it as PNG; `mode`: file permissions."""
        FigureCanvasAgg = extras.load_library("matplotlib.backends.backend_agg").FigureCanvasAgg
        Figure = extras.load_library("matplotlib.figure").Figure

        before, after = self.before.power(), self.after.power()
        loudest = max(float(before.max()), _QUIETEST)
        colours = {"cmap": "magma", "vmin": -_RANGE, "vmax": 0.0}
        figure = Figure(figsize=(12, 11), dpi=110, layout="constrained")
        FigureCanvasAgg(figure)
        figure.suptitle(self._title, parse_math=False)
        panels = figure.subplots(4, 1, sharex=True, height_ratios=(3, 3, 3, 2))
        for axes, power, title in zip(panels, (before, after), ("Before", "After"), strict=False):
            image = self._spectrogram(axes, _decibels(power, loudest), title, **colours)
            figure.colorbar(image, ax=axes, label="dB", pad=0.01)
        if self._found:
            speech, error, level = (each.means().T for each in self._found)
            self._doubts(panels[2], speech, error)
            self._levels(panels[3], level)
        with file_errors(path, "written"), atomic_file(path, mode=mode, replace=replace) as part:
            figure.savefig(part, format="png")
        figure.clear()

    def _spectrogram(self, axes: Any, data: Reals, title: str, **colours: Any) -> Any:
        display = extras.load_library("librosa.display")

        image = display.specshow(
            data,
            x_coords=np.linspace(0, self._frames / self._rate, data.shape[1]),
            y_coords=np.linspace(0, self._rate / 2, data.shape[0]),
            x_axis="time",
            y_axis="mel",
            ax=axes,
            **colours,
        )
        axes.set(title=title)
        axes.label_outer()
        return image

    def _doubts(self, axes: Any, speech: Reals, error: Reals) -> None:
        """Draw the speech: orange where `error` is near `speech` (powers), bright where loud."""
        ScalarMappable = extras.load_library("matplotlib.cm").ScalarMappable
        LinearSegmentedColormap = extras.load_library("matplotlib.colors").LinearSegmentedColormap
        Normalize = extras.load_library("matplotlib.colors").Normalize

        colours = LinearSegmentedColormap.from_list("doubts", _DOUBTS)
        scale = Normalize(_SURE, 0.0, clip=True)
        both = speech + error
        loud = _decibels(both, max(float(both.max()), _QUIETEST))
        ratio = 10 * np.log10((error + _QUIETEST) / (speech + _QUIETEST))
        brightness = np.clip(1 + loud / _HEARD, 0, 1)
        picture = colours(scale(ratio))[..., :3] * brightness[..., None]
        title = "Uncertainty of the speech (bright: loud, orange: uncertain)"
        self._spectrogram(axes, picture, title)
        label = "error relative to speech, dB"
        axes.figure.colorbar(ScalarMappable(scale, colours), ax=axes, label=label, pad=0.01)

    def _levels(self, axes: Any, level: Reals) -> None:
        """Draw the level of the speech with its range of uncertainty."""
        low, middle, high = _decibels(level, 1.0)
        seconds = np.linspace(0, self._frames / self._rate, level.shape[1])
        axes.fill_between(seconds, low, high, color=_DOUBTS[2], alpha=0.5, linewidth=0)
        axes.plot(seconds, middle, color=_DOUBTS[0], linewidth=1)
        axes.set(title="Level of the speech with its range of uncertainty", ylim=(-_RANGE, 0))
        axes.set(xlabel="Time", ylabel="dB of full scale")


def _decibels(power: Reals, reference: float) -> Reals:
    floor = reference * 10 ** (-_RANGE / 10 - 2)
    return 10 * np.log10(np.maximum(power, floor) / reference)
