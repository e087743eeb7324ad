"""Denoise a recording, or a stream of blocks.

A segment of one channel goes through an STFT, alpha-MF and a sampler at the dictionary's rate; a
small network may refine the posterior (`Settings.refine`). The resulting gain is applied to the
STFT of the segment at its *own* rate. A second network then decides, in short windows, how much of
the result and how much of the input is taken. The sound is changed in its own spectrogram only, so
rate, length and alignment are those of the input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from os import PathLike
from typing import BinaryIO, cast

from numpy.typing import ArrayLike

from alphamf.audio.reader import CHANNELS, read
from alphamf.denoising.choices import LatencyName, PresetName
from alphamf.denoising.denoised import Denoised, denoise_array, denoise_blocks
from alphamf.denoising.hints import Hints, TimeRanges
from alphamf.denoising.segments import Segment
from alphamf.denoising.settings import PRESETS, Settings, choose_settings
from alphamf.denoising.stream_options import Cancel, StreamOptions
from alphamf.denoising.weights import Weights
from alphamf.errors import AlphaMFError
from alphamf.learnt.dictionary import Dictionary
from alphamf.tools.arguments import name_the_rate
from alphamf.tools.arrays import DeviceName
from alphamf.tools.files import printable_name

__all__ = [
    "PRESETS",
    "Denoised",
    "Segment",
    "Settings",
    "denoise",
    "denoise_stream",
]


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
    """Denoise a recording: a file, or samples in memory.

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
        How much of the room's echo to remove, from 0 (none) to 1 (all), or True for all; None: what
        the preset says, which is none.
    max_attenuation
        Largest attenuation of a time-frequency cell in dB; None: what the preset says, which is no
        limit.
    model
        A dictionary, its file, the name of a shipped one, or ``"auto"``: the one for the rate. The
        networks that fit the dictionary are loaded with it; `alphamf.Weights` names all of them.
    seed
        The same seed gives the same bits.
    device
        Device for the sampling: ``"cpu"``, ``"cuda"`` or ``"auto"``.
    jobs
        Segments processed side by side. On the CPU the result does not depend on it; on a GPU it
        determines which segments share random numbers.
    max_channels
        The most channels that are accepted, because each takes as long as a recording.
    channels_first
        Whether the channels are along the first axis, as in librosa and torch.
    noise_from
        Time ranges with noise only, such as ``[(0, 3)]``: starts and ends in seconds. Their spectra
        are used for the noise in the whole recording, beside those learned from each segment. They
        are silent in the result, except for what `dry` and `max_attenuation` leave.
    speech_from
        Time ranges that certainly contain speech: their `activity` is 1.
    progress
        Called with the seconds of sound done so far.
    cancel
        Stops the work soon after it is set, a `threading.Event` for example.

    Raises
    ------
    concurrent.futures.CancelledError
        `cancel` was set.
    AlphaMFError
        The file cannot be read; samples have no rate, or a file is given one; the audio is empty,
        not finite, not real or of another shape; it has too many channels; the rate is out of
        range; a setting or the model cannot be used; a time range is too short, ends before it
        starts or after the recording, or overlaps another.

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
    """Return samples and their rate; a file is read."""
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
        Arrays of samples as in `denoise`, with any number of samples each and the same dtype.
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
    AlphaMFError
        As `denoise`; no block held a sample.

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
