"""Noise out, speech left: a gain from the posterior of alpha-MF, segment by segment.

A segment of one channel goes at the dictionary's rate through STFT, alpha-MF and a sampler, whose
posterior a small network may then refine (`Settings.refine`); what comes back is a gain, laid over
the STFT of the segment at its *own* rate. At 16 kHz and above, a second network then says, in short
windows, how much of that and how much of the sound itself is taken. Nothing but these gains ever
touches the sound, so rate, length and alignment are the input's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from os import PathLike
from typing import NamedTuple

import numpy as np

from alphamf.audio.reader import CHANNELS
from alphamf.denoising.grids import native_grid
from alphamf.denoising.settings import PRESETS, Settings
from alphamf.denoising.stream import Segment, Stream, checked_rate, real
from alphamf.denoising.weights import Weights, find
from alphamf.errors import AlphaMFError
from alphamf.learnt.dictionary import Dictionary
from alphamf.tools.arrays import Floats

__all__ = ["PRESETS", "Denoised", "Segment", "Settings", "denoise", "denoise_stream"]


class Denoised(NamedTuple):
    """A denoised recording; `audio` and `noise` have the input's shape, the rest is a `Segment`'s.

    ``frame_times`` (seconds) and ``frequencies`` (Hz) are the axes of the gain.
    """

    audio: Floats
    noise: Floats
    gain: Floats
    gain_std: Floats
    acceptance: list[float]
    frame_times: Floats
    frequencies: Floats


def denoise(
    audio: Floats,
    rate: int,
    settings: Settings = PRESETS["balanced"],
    *,
    model: str | PathLike[str] | Dictionary | Weights = "auto",
    seed: int = 0,
    device: str = "cpu",
    jobs: int = 1,
    max_channels: int = CHANNELS,
    progress: Callable[[float], None] | None = None,
) -> Denoised:
    """Denoise a recording held in memory.

    Parameters
    ----------
    audio
        Finite real samples, shape (samples,) or (samples, channels).
    rate
        Sampling rate in Hz, from 1000 to 768000.
    settings
        A preset, or one changed by ``dataclasses.replace``.
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
    progress
        Called with the seconds of sound done so far.

    Raises
    ------
    AlphaMFError
        The audio is empty, not finite, not of real numbers or of another shape; it has too many
        channels; the rate is none of sound; a setting or the model does not do.

    Examples
    --------
    >>> import soundfile
    >>> audio, rate = soundfile.read("data/sample-noisy.wav")
    >>> clean = denoise(audio, rate).audio
    """
    audio, rate = real(audio), checked_rate(rate)
    if audio.ndim not in (1, 2) or not audio.size:
        raise AlphaMFError(
            f"audio must have the shape (samples,) or (samples, channels), not {audio.shape}"
        )
    block = audio.reshape(len(audio), -1)
    weights = find(rate, model)
    segments = list(
        denoise_stream(
            [block],
            rate,
            settings,
            model=weights,
            seed=seed,
            device=device,
            jobs=jobs,
            max_channels=max_channels,
            progress=progress,
        )
    )
    gain = np.concatenate([s.gain for s in segments], axis=2)
    frame = native_grid(weights.dictionary, rate).frame
    return Denoised(
        audio=np.concatenate([s.audio for s in segments]).reshape(audio.shape),
        noise=np.concatenate([s.noise for s in segments]).reshape(audio.shape),
        gain=gain,
        gain_std=np.concatenate([s.gain_std for s in segments], axis=2),
        acceptance=list(np.mean([s.acceptance for s in segments], axis=0)),
        frame_times=np.arange(gain.shape[2]) * (frame.hop_length / rate),
        frequencies=np.arange(gain.shape[1]) * (rate / frame.n_fft),
    )


def denoise_stream(
    blocks: Iterable[Floats],
    rate: int,
    settings: Settings = PRESETS["balanced"],
    *,
    model: str | PathLike[str] | Dictionary | Weights = "auto",
    seed: int = 0,
    device: str = "cpu",
    jobs: int = 1,
    max_channels: int = CHANNELS,
    progress: Callable[[float], None] | None = None,
) -> Iterator[Segment]:
    """Denoise a recording that comes in blocks, in constant memory.

    Parameters
    ----------
    blocks
        Arrays of finite samples, shape (samples, channels), of any number of samples.
    rate, settings, model, seed, device, jobs, max_channels, progress
        As in `denoise`.

    Yields
    ------
    Segment
        Segments in order, whose audio together has the input's length.

    Raises
    ------
    AlphaMFError
        As `denoise`; no block held a sample.
    """
    blocks = iter(blocks)
    first = real(next(blocks, np.empty((0, 1), np.float32)))
    if first.ndim != 2:
        raise AlphaMFError(f"audio must have the shape (samples, channels), not {first.shape}")
    samples = 0
    with Stream(
        rate,
        first.shape[1],
        settings,
        model=model,
        seed=seed,
        device=device,
        jobs=jobs,
        max_channels=max_channels,
        progress=progress,
    ) as stream:
        for block in chain([first], blocks):
            samples += len(block)
            yield from stream.segments(block)
        if not samples:
            raise AlphaMFError("audio holds no samples")
        yield from stream.rest()
