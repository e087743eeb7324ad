"""Denoise an array or blocks of sound, with options that have been checked."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator
from dataclasses import replace
from html import escape
from io import BytesIO
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from alphamf.audio.stft import Frame, frame_count
from alphamf.audio.survey import BLOCK
from alphamf.denoising.agreement import Agreement, sum_agreements
from alphamf.denoising.grids import Grid, native_grid
from alphamf.denoising.hints import TimeRanges, check_ranges, hints_of
from alphamf.denoising.samples import (
    Samples,
    check_orientation,
    check_rate,
    describe_samples,
    kind_of,
    real_samples,
    to_float,
)
from alphamf.denoising.segments import Segment
from alphamf.denoising.stream import open_stream
from alphamf.denoising.stream_options import StreamOptions
from alphamf.errors import AlphaMFError
from alphamf.tools.arguments import check_instance
from alphamf.tools.arrays import Floats


class Denoised(NamedTuple):
    """A denoised recording; `audio` and `noise` have the input's shape; see also `Segment`.

    If the input is integers, `audio` and `noise` have the same dtype; otherwise they are float32.

    ``rate`` is the sampling rate in Hz, which a file brings with it. ``frame_times`` (seconds) and
    ``frequencies`` (Hz) are the axes of the gain. `alphamf.speech_ranges` turns ``activity`` into
    time ranges with speech. With ``chains=2`` or more in the settings, ``agreement`` measures how
    well the chains agree (`alphamf.Agreement`). ``dry`` is that of the settings: `audio` and
    (1 - `dry`) times `noise` add up to the input.

    `numpy.asarray` returns ``audio``, and a notebook shows players with the sound before and after.

    Examples
    --------
    >>> import soundfile
    >>> audio, rate = soundfile.read("data/sample-noisy.wav", frames=32000)
    >>> from alphamf import denoise
    >>> result = denoise(audio, rate, "fast")
    >>> bool(abs(result.audio + result.noise - audio).max() < 1e-5)
    True
    """

    audio: Samples
    noise: Samples
    gain: Floats
    gain_std: Floats
    acceptance: list[float]
    frame_times: Floats
    frequencies: Floats
    activity: Floats
    agreement: Agreement | None = None
    rate: int = 0
    dry: float = 0.0

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Samples:
        return np.array(self.audio, dtype) if copy else np.asarray(self.audio, dtype)

    def save(self, path: str | PathLike[str]) -> None:
        """Write `audio` to a file in the format of its extension, without rounding if it can."""
        from alphamf.audio.writer import write

        write(path, _by_sample(self.audio, len(self.gain)), self.rate)

    def _repr_html_(self) -> str:
        """Return players with the first minute before and after, for notebooks."""
        import soundfile

        players = []
        after, noise = (
            to_float(_by_sample(each, len(self.gain))[: 60 * self.rate])
            for each in (self.audio, self.noise)
        )
        for name, sound in (("Before", after + (1 - self.dry) * noise), ("After", after)):
            file = BytesIO()
            soundfile.write(file, sound, self.rate, format="WAV")
            data = b64encode(file.getvalue()).decode()
            source = f"data:audio/wav;base64,{data}"
            players.append(f'<p>{name}<br><audio controls src="{source}"></audio></p>')
        return escape(repr(self)) + "".join(players)

    def __repr__(self) -> str:
        return f"Denoised({describe_samples(self.audio, len(self.gain), self.rate)})"


def denoise_array(
    audio: ArrayLike,
    rate: float,
    options: StreamOptions,
    noise_from: TimeRanges = (),
    speech_from: TimeRanges = (),
) -> Denoised:
    """Denoise a recording held in memory, with options that have been checked."""
    array, whole = real_samples(audio), check_rate(rate)
    if array.ndim not in (1, 2) or not array.size:
        raise AlphaMFError(
            f"audio must have the shape (samples,) or (samples, channels), not {array.shape}"
        )
    channels_first = options.channels_first
    check_orientation(array.shape, options.max_channels, channels_first=channels_first)
    known = check_ranges(noise_from, speech_from)
    weights = options.weights(whole)
    frame = native_grid(weights.dictionary, whole).frame
    found = _Collected(array, frame, channels_first=channels_first)
    hints = hints_of(map(to_float, found.blocks()), whole, found.samples / whole, known)
    options = replace(options, model=weights, hints=hints, channels_first=False)
    for segment in denoise_blocks(found.blocks(), whole, options):
        found.add(segment)
    return found.result(whole, options.settings.dry)


def _by_sample(audio: Samples, channels: int) -> Samples:
    """Return a view with the shape (samples, channels)."""
    whole = audio.reshape(len(audio), -1)
    return whole if whole.shape[1] == channels else whole.T


class _Collected:
    """A recording in memory and its results, each stored once.

    `audio`: samples, shape (samples,), or with channels, along the first axis if `channels_first`.
    """

    def __init__(self, audio: Samples, frame: Frame, *, channels_first: bool) -> None:
        self._turned = channels_first and audio.ndim == 2
        self._input, self._frame = self._by_sample(audio), frame
        for block in self.blocks():  # before any work is done
            to_float(block)
        self._audio, self._noise = (np.empty(audio.shape, kind_of(audio)) for _ in range(2))
        shape = self._input.shape[1], frame.n_fft // 2 + 1, frame_count(len(self._input), frame)
        self._gain, self._gain_std = (np.empty(shape, np.float32) for _ in range(2))
        self._acceptance: list[list[float]] = []
        self._activity: list[Floats] = []
        self._agreement: Agreement | None = None
        self._samples = self._frames = 0

    def _by_sample(self, audio: Samples) -> Samples:
        """Return a view of the array with the shape (samples, channels)."""
        return audio.T if self._turned else audio.reshape(len(audio), -1)

    def blocks(self) -> Iterator[Samples]:
        """Yield the recording in blocks, shape (samples, channels)."""
        return (self._input[k : k + BLOCK] for k in range(0, len(self._input), BLOCK))

    @property
    def samples(self) -> int:
        """Length of the recording."""
        return len(self._input)

    def add(self, segment: Segment) -> None:
        """Add the next segment."""
        samples = slice(self._samples, self._samples + len(segment.audio))
        frames = slice(self._frames, self._frames + segment.gain.shape[2])
        self._by_sample(self._audio)[samples] = segment.audio
        self._by_sample(self._noise)[samples] = segment.noise
        self._gain[..., frames], self._gain_std[..., frames] = segment.gain, segment.gain_std
        self._acceptance.append(segment.acceptance)
        self._activity.append(segment.activity)
        self._agreement = sum_agreements([self._agreement, segment.agreement])
        self._samples, self._frames = samples.stop, frames.stop

    def result(self, rate: int, dry: float) -> Denoised:
        """Return the result for the whole recording; `rate` is in Hz."""
        return Denoised(
            audio=self._audio,
            noise=self._noise,
            gain=self._gain,
            gain_std=self._gain_std,
            acceptance=[float(mean) for mean in np.mean(self._acceptance, axis=0)],
            frame_times=np.arange(self._gain.shape[2]) * (self._frame.hop_length / rate),
            frequencies=Grid(rate, self._frame).frequencies,
            activity=np.concatenate(self._activity),
            agreement=self._agreement,
            rate=rate,
            dry=dry,
        )


def denoise_blocks(
    blocks: Iterable[ArrayLike], rate: float, options: StreamOptions
) -> Iterator[Segment]:
    """Denoise a recording that arrives in blocks, with options that have been checked."""
    check_instance("blocks", blocks, Iterable, "an iterable of arrays")
    samples = 0
    with open_stream(rate, None, options) as stream:
        for block in blocks:
            yield from stream.segments(block)
            samples += np.size(block)
        if not samples:
            raise AlphaMFError("audio has no samples")
        yield from stream.rest()
