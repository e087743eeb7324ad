"""Denoise a recording, or a stream of blocks.

A segment of one channel goes through an STFT, alpha-MF and a sampler at the dictionary's rate; a
small network may refine the gain (`Settings.refine`). The resulting gain is applied to the
STFT of the segment at its *own* rate. A second network may then decide, in short windows, how much
of the result and of the input is taken. Rate, length and alignment are those of the input.
"""

from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from html import escape
from io import BytesIO
from os import PathLike
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from alphamf.audio.reader import BLOCK, CHANNELS, read
from alphamf.audio.stft import Frame, frame_count
from alphamf.denoising.choices import LatencyName, PresetName
from alphamf.denoising.grids import Grid, native_grid
from alphamf.denoising.hints import Hints, TimeRanges, check_ranges, hints_of
from alphamf.denoising.posterior import Agreement, sum_agreements
from alphamf.denoising.segments import Segment
from alphamf.denoising.settings import Settings, choose_settings
from alphamf.denoising.stream import open_stream
from alphamf.denoising.stream_options import (
    Cancel,
    Samples,
    StreamOptions,
    check_orientation,
    check_rate,
    describe_samples,
    kind_of,
    real_samples,
    to_float,
)
from alphamf.denoising.weights import Weights
from alphamf.errors import AlphaMFError
from alphamf.learnt.dictionary import Dictionary
from alphamf.tools.arguments import check_instance, name_the_rate
from alphamf.tools.arrays import DeviceName, Floats
from alphamf.tools.files import printable_name


class Denoised(NamedTuple):
    """A denoised recording; `audio` and `noise` have the input's shape; see also `Segment`.

    For an array of integers, `audio` and `noise` have its dtype; otherwise they are float32.

    ``rate`` is the sampling rate in Hz, a file's own or as given. ``frame_times`` (seconds) and
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

    def __dir__(self) -> list[str]:
        return [name for name in object.__dir__(self) if name not in ("count", "index")]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Samples:
        return np.array(self.audio, dtype) if copy else np.asarray(self.audio, dtype)

    def save(self, path: str | PathLike[str]) -> None:
        """Write `audio` to a file in the format of its extension, without rounding if possible."""
        from alphamf.audio.writer import write

        write(path, _by_sample(self.audio, len(self.gain)), self.rate)

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: players of the first minute before and after denoising."""
        import soundfile

        players, count = [], 60 * self.rate
        after = to_float(_by_sample(self.audio, len(self.gain))[:count])
        noise = to_float(_by_sample(self.noise, len(self.gain))[:count])
        for name, sound in (("Before", after + (1 - self.dry) * noise), ("After", after)):
            file = BytesIO()
            soundfile.write(file, sound, self.rate, format="WAV")
            source = f"data:audio/wav;base64,{b64encode(file.getvalue()).decode()}"
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
    """Return a view of `audio` with the shape (samples, channels)."""
    whole = audio.reshape(len(audio), -1)
    return whole if whole.shape[1] == channels else whole.T


class _Collected:
    """A recording in memory and its results, each stored once.

    `audio`: shape (samples,), (samples, channels) or, if `channels_first`, (channels, samples).
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
        """Length of the recording in samples."""
        return len(self._input)

    def add(self, segment: Segment) -> None:
        """Store the results of the next segment."""
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
    """Yield denoised segments; raise an AlphaMFError if a block is unusable, or all are empty."""
    check_instance("blocks", blocks, Iterable, "an iterable of arrays")
    samples = 0
    with open_stream(rate, None, options) as stream:
        for block in blocks:
            yield from stream.segments(block)
            samples += np.size(block)
        if not samples:
            raise AlphaMFError("audio has no samples")
        yield from stream.rest()


@name_the_rate
def denoise(
    audio: ArrayLike | PathLike[str] | BinaryIO,
    rate: float | None = None,
    preset: PresetName | Settings = "fast",
    *,
    strength: float | None = None,
    dereverb: float | None = None,
    max_attenuation: float | None = None,
    model: str | PathLike[str] | Dictionary | Weights = "auto",
    seed: int = 0,
    device: DeviceName = "cpu",
    jobs: int = 1,
    max_channels: int = CHANNELS,
    channels_first: bool = False,
    noise_from: TimeRanges = (),
    speech_from: TimeRanges = (),
    progress: Callable[[float], None] | None = None,
    cancel: Cancel | None = None,
) -> Denoised:
    """Denoise a recording, a file or samples in memory, and return a `Denoised`.

    Parameters
    ----------
    audio
        A file, such as ``"talk.wav"``, or one that is open, such as a `BytesIO`, in any format that
        the command line reads; its samples are float32. Or samples, shape (samples,) or (samples,
        channels): finite floating-point numbers with full scale 1, or integers with their range as
        full scale (int16, int32, int8, and uint8, where 128 is silence).
    rate
        Sampling rate of the samples in Hz, from 1000 to 768000; a file has its own.
    preset
        The name of a preset, or `Settings`, for example
        ``dataclasses.replace(PRESETS["fast"], channels="separate")``.
    strength
        How much of the denoising to apply, from 0 (none) to 1 (all); None: what the preset says.
    dereverb
        How much of the room's echo to remove, from 0 to 1 (all), or True for all; None: what the
        preset says; each named preset has 0.
    max_attenuation
        Largest attenuation of a time-frequency cell in dB; None: as the preset (no limit if named).
    model
        A dictionary, its file, the name of a shipped one, or ``"auto"``: the one for the rate. The
        networks that fit it are loaded, too. Or `alphamf.Weights`: a dictionary and its networks.
    seed
        Seed of the random numbers, 0 or more; the same seed gives the same bits.
    device
        Device for the sampling: ``"cpu"``, ``"cuda"`` or ``"auto"``.
    jobs
        Number of segments or channels to process side by side. On the CPU the result does not
        depend on it; on a GPU it determines which segments share random numbers.
    max_channels
        Maximum number of channels: each of them takes as long as a recording of one channel.
    channels_first
        Whether the channels are along the first axis, as in librosa and torch.
    noise_from
        Time ranges with noise only, such as ``[(0, 3)]``: starts and ends in seconds. Their spectra
        are used for the noise in the whole recording, beside those learned per segment. The time
        ranges are silent in the result, except for what `dry` and `max_attenuation` leave.
    speech_from
        Time ranges that certainly contain speech: their `activity` is 1.
    progress
        Function that is called with the seconds of sound done so far.
    cancel
        An event that stops the work soon after it is set, such as a `threading.Event`.

    Raises
    ------
    concurrent.futures.CancelledError
        `cancel` was set.
    AlphaMFError
        The file cannot be read; samples have no rate, or a file is given one; the audio is empty,
        not finite, not real or of another shape; it has too many channels; the rate is out of
        range; a setting or the model cannot be used; a time range is too short, ends before it
        starts or after the recording, or overlaps another; a chain diverges.

    Examples
    --------
    >>> import soundfile
    >>> audio, rate = soundfile.read("data/sample-noisy.wav", frames=32000)
    >>> result = denoise(audio, rate)
    >>> result.audio.shape == audio.shape, result.gain.shape  # channels, bins, frames
    (True, (1, 513, 126))
    >>> denoise("data/sample-noisy.wav", strength=0.5)
    Denoised(9.14 s, 16000 Hz, 1 channel, float32)
    """
    samples, rate = _samples(audio, rate, max_channels, channels_first=channels_first)
    options = StreamOptions(
        choose_settings(preset, strength, dereverb, max_attenuation),
        model=model,
        seed=seed,
        device=device,
        jobs=jobs,
        max_channels=max_channels,
        channels_first=channels_first,
        progress=progress,
        cancel=cancel,
    )
    return denoise_array(samples, rate, options, noise_from, speech_from)


def _samples(
    audio: ArrayLike | PathLike[str] | BinaryIO,
    rate: float | None,
    channels: int,
    *,
    channels_first: bool,
) -> tuple[ArrayLike, float]:
    """Return the samples and their rate in Hz; if `audio` is a file, both are read from it."""
    if not (isinstance(audio, str | PathLike) or hasattr(audio, "read")):
        if rate is None:
            raise AlphaMFError("the rate of samples must be given, in Hz: denoise(audio, rate)")
        return audio, rate
    if rate is not None:
        name = printable_name(str(audio))
        raise AlphaMFError(f"audio is the file {name}, which has its own rate; leave out rate")
    samples, rate = read(cast("str | PathLike[str] | BinaryIO", audio), max_channels=channels)
    if samples.shape[1] == 1:
        return samples[:, 0], rate
    return samples.T if channels_first else samples, rate


@name_the_rate
def denoise_stream(
    blocks: Iterable[ArrayLike],
    rate: float,
    preset: PresetName | Settings = "fast",
    *,
    strength: float | None = None,
    dereverb: float | None = None,
    max_attenuation: float | None = None,
    model: str | PathLike[str] | Dictionary | Weights = "auto",
    latency: LatencyName = "segments",
    seed: int = 0,
    device: DeviceName = "cpu",
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
        Arrays of samples as in `denoise`, of any length each, and all of one dtype.
    rate, preset, strength, dereverb, max_attenuation, model, seed, device, jobs, max_channels, \
    channels_first, progress, cancel
        As in `denoise`.
    latency, hints
        As in `alphamf.Stream`.

    Yields
    ------
    Segment
        Segments in order, whose audio together has the input's length.

    Raises
    ------
    concurrent.futures.CancelledError
        `cancel` was set.
    AlphaMFError
        As in `denoise` and `alphamf.Stream`, or there are no samples in any block.

    Examples
    --------
    >>> import soundfile
    >>> audio, rate = soundfile.read("data/sample-noisy.wav", frames=32000)
    >>> blocks = audio.reshape(4, -1)  # of any length
    >>> sum(len(segment.audio) for segment in denoise_stream(blocks, rate, "fast"))
    32000
    """
    options = StreamOptions(
        choose_settings(preset, strength, dereverb, max_attenuation),
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
    )
    yield from denoise_blocks(blocks, rate, options)
