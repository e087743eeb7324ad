"""Denoise arrays: a recording in memory, or a stream of blocks, segment by segment.

A segment of one channel goes at the dictionary's rate through STFT, alpha-MF and a sampler, whose
posterior a small network may then refine (`Settings.refine`); what comes back is a gain, laid over
the STFT of the segment at its *own* rate. At 16 kHz and above, a second network then says, in short
windows, how much of that and how much of the sound itself is taken. The sound is changed in its own
spectrogram alone, so rate, length and alignment are the input's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from os import PathLike
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from alphamf.audio.reader import CHANNELS
from alphamf.audio.stft import Frame, frame_count
from alphamf.audio.survey import BLOCK
from alphamf.denoising.agreement import Agreement
from alphamf.denoising.grids import Grid, native_grid
from alphamf.denoising.hints import NAMES, Hints, Stretches, check_stretches, hints_of
from alphamf.denoising.samples import (
    Samples,
    check_orientation,
    checked_rate,
    kind_of,
    real_samples,
    to_float,
)
from alphamf.denoising.settings import PRESETS, Settings
from alphamf.denoising.stream import Segment, Stream
from alphamf.denoising.weights import Weights, find
from alphamf.denoising.workers import Cancel
from alphamf.errors import AlphaMFError
from alphamf.learnt.dictionary import Dictionary
from alphamf.tools.arguments import flag, instance, whole
from alphamf.tools.arrays import Floats
from alphamf.tools.sums import total

__all__ = ["PRESETS", "Denoised", "Segment", "Settings", "denoise", "denoise_stream"]


class Denoised(NamedTuple):
    """A denoised recording; `audio` and `noise` have the input's shape; see also `Segment`.

    Integers make integers of the same kind, and everything else makes float32.

    ``frame_times`` (seconds) and ``frequencies`` (Hz) are the axes of the gain. Of ``activity``,
    `alphamf.speech_stretches` makes stretches of speech. With ``chains=2`` or more in the settings,
    ``agreement`` says how far these agree (`alphamf.Agreement`).

    Examples
    --------
    >>> import soundfile
    >>> audio, rate = soundfile.read("data/sample-noisy.wav", frames=32000)
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


def denoise(
    audio: ArrayLike,
    rate: int,
    settings: Settings | str = "fast",
    *,
    model: str | PathLike[str] | Dictionary | Weights = "auto",
    seed: int = 0,
    device: str = "cpu",
    jobs: int = 1,
    max_channels: int = CHANNELS,
    channels_first: bool = False,
    noise_from: Stretches = (),
    speech_from: Stretches = (),
    progress: Callable[[float], None] | None = None,
    cancel: Cancel | None = None,
) -> Denoised:
    """Denoise a recording held in memory.

    Parameters
    ----------
    audio
        Samples, shape (samples,) or (samples, channels): finite floating-point numbers, 1 at full
        scale, or integers, whose full scale is their range (int16, int32, int8, and uint8, which
        is silent at 128).
    rate
        Sampling rate in Hz, from 1000 to 768000.
    settings
        The name of a preset, or `Settings`, for example
        ``dataclasses.replace(PRESETS["fast"], dry=0.1)``.
    model
        A dictionary, a file, the name of a shipped one, or ``"auto"``: the one for the rate. The
        networks that fit it are found with it; `alphamf.Weights` name them all.
    seed
        The same seed gives the same bits.
    device
        Where the sampling runs: ``"cpu"``, ``"cuda"`` or ``"auto"``.
    jobs
        Segments side by side. On the CPU this makes no difference to the result; on a device it
        decides which segments share random numbers.
    max_channels
        More are refused, as each costs as much as a recording.
    channels_first
        Whether the channels are along the first axis, as librosa and torch have them.
    noise_from
        Stretches that hold noise alone, such as ``[(0, 3)]``: starts and ends in seconds. The
        noise has their spectra beside those that each segment teaches, and they are silent in the
        result, but for what `dry` and `max_attenuation` leave.
    speech_from
        Stretches that surely hold speech: their `activity` is 1.
    progress
        Called with the seconds of sound done so far.
    cancel
        Stops the work soon after it is set, a `threading.Event` for example.

    Raises
    ------
    concurrent.futures.CancelledError
        `cancel` was set.
    AlphaMFError
        The audio is empty, not finite, not of real numbers or of another shape; it has too many
        channels; the rate is none of sound; a setting or the model does not do; a stretch is too
        short, ends before it starts or beyond the recording, or overlaps another.

    Examples
    --------
    >>> import soundfile
    >>> audio, rate = soundfile.read("data/sample-noisy.wav", frames=32000)
    >>> result = denoise(audio, rate)
    >>> result.audio.shape == audio.shape, result.gain.shape  # channels, bins, frames
    (True, (1, 513, 126))
    """
    array, rate = real_samples(audio), checked_rate(rate)
    max_channels = whole("max_channels", max_channels, 1)
    channels_first = flag("channels_first", channels_first)
    if array.ndim not in (1, 2) or not array.size:
        raise AlphaMFError(
            f"audio must have the shape (samples,) or (samples, channels), not {array.shape}"
        )
    check_orientation(array.shape, max_channels, channels_first=channels_first)
    known = check_stretches(noise_from, speech_from, NAMES)
    weights = find(rate, model)
    frame = native_grid(weights.dictionary, rate).frame
    found = _Collected(array, frame, channels_first=channels_first)
    hints = hints_of(map(to_float, found.blocks()), rate, found.samples / rate, known)
    for segment in denoise_stream(
        found.blocks(),
        rate,
        settings,
        model=weights,
        seed=seed,
        device=device,
        jobs=jobs,
        max_channels=max_channels,
        progress=progress,
        cancel=cancel,
        hints=hints,
    ):
        found.add(segment)
    return found.result(rate)


class _Collected:
    """A recording in memory and its results, each stored once.

    Parameters
    ----------
    audio
        Samples, shape (samples,), or with channels, along the first axis if `channels_first`.
    frame
        Of the gain.

    Raises
    ------
    AlphaMFError
        Some samples are no numbers of sound.
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
        self._agreement = total([self._agreement, segment.agreement])
        self._samples, self._frames = samples.stop, frames.stop

    def result(self, rate: int) -> Denoised:
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
        )


def denoise_stream(
    blocks: Iterable[ArrayLike],
    rate: int,
    settings: Settings | str = "fast",
    *,
    model: str | PathLike[str] | Dictionary | Weights = "auto",
    latency: str = "segments",
    seed: int = 0,
    device: str = "cpu",
    jobs: int = 1,
    max_channels: int = CHANNELS,
    channels_first: bool = False,
    progress: Callable[[float], None] | None = None,
    cancel: Cancel | None = None,
    hints: Hints | None = None,
) -> Iterator[Segment]:
    """Denoise a recording that arrives in blocks, in constant memory.

    Parameters
    ----------
    blocks
        Arrays of samples as in `denoise`, shape (samples, channels), of any number of samples and
        all of one kind.
    rate, settings, model, seed, device, jobs, max_channels, channels_first, progress, cancel
        As in `denoise`.
    latency
        As in `alphamf.Stream`.
    hints
        As in `Stream`.

    Yields
    ------
    Segment
        Segments in order, whose audio together has the input's length.

    Raises
    ------
    AlphaMFError
        As `denoise`; no block held a sample.

    Examples
    --------
    >>> import soundfile
    >>> audio, rate = soundfile.read("data/sample-noisy.wav", frames=32000)
    >>> blocks = audio.reshape(4, -1, 1)  # of any length, shape (samples, channels)
    >>> sum(len(segment.audio) for segment in denoise_stream(blocks, rate, "fast"))
    32000
    """
    max_channels = whole("max_channels", max_channels, 1)
    channels_first = flag("channels_first", channels_first)
    instance("blocks", blocks, Iterable, "an iterable of arrays")
    blocks = iter(blocks)
    first = real_samples(next(blocks, np.empty((1, 0) if channels_first else (0, 1), np.float32)))
    if first.ndim != 2:
        raise AlphaMFError(f"audio must have the shape (samples, channels), not {first.shape}")
    check_orientation(first.shape, max_channels, channels_first=channels_first)
    samples = 0
    with Stream(
        rate,
        first.shape[0 if channels_first else 1],
        settings,
        model=model,
        latency=latency,
        seed=seed,
        device=device,
        jobs=jobs,
        max_channels=max_channels,
        channels_first=channels_first,
        progress=progress,
        cancel=cancel,
        hints=hints,
    ) as stream:
        for block in chain([first], blocks):
            yield from stream.segments(block)
            samples += np.size(block)
        if not samples:
            raise AlphaMFError("audio has no samples")
        yield from stream.rest()
