"""Noise out, speech left: the posterior mean of the speech's Wiener gain, segment by segment.

A segment of one channel goes at the dictionary's rate through STFT, alpha-MF and a sampler; what
comes back is a gain, laid over the STFT of the segment at its *own* rate. Nothing but that gain
ever touches the sound, so rate, length and alignment are the input's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from os import PathLike
from typing import NamedTuple

import numpy as np

from alphamf.arrays import module
from alphamf.dictionary import Dictionary, choose
from alphamf.errors import AlphaMFError
from alphamf.estimate import Estimate, estimate, native_frame
from alphamf.presets import PRESETS, Settings
from alphamf.segments import cut, fade_in
from alphamf.stft import Floats

__all__ = ["PRESETS", "Denoised", "Segment", "Settings", "denoise", "denoise_stream"]

SEGMENT_SECONDS = 10
OVERLAP_SECONDS = 1


class Segment(NamedTuple):
    """A stretch of the output.

    Attributes
    ----------
    audio, noise
        Speech and noise estimate, float32, shape (samples, channels); they add up to the input
        where `dry` is 0 and no attenuation limit is set.
    gain, gain_std
        Posterior mean and standard deviation of the gain, shape (channels, bins, frames), of the
        frames that begin in this stretch.
    acceptance
        Share of accepted Phi proposals of speech and noise.
    """

    audio: Floats
    noise: Floats
    gain: Floats
    gain_std: Floats
    acceptance: list[float]


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
    model: str | PathLike[str] | Dictionary = "auto",
    seed: int = 0,
    device: str = "cpu",
    progress: Callable[[float], None] | None = None,
) -> Denoised:
    """Denoise a recording held in memory.

    Parameters
    ----------
    audio
        Finite samples, shape (samples,) or (samples, channels).
    rate
        Sampling rate in Hz.
    settings
        A preset, or one changed by ``dataclasses.replace``.
    model
        A dictionary, a file, the name of a shipped one, or ``"auto"``: the one for the rate.
    seed
        The same seed gives the same bits.
    device
        Where the sampling runs: ``"cpu"``, ``"cuda"`` or ``"auto"``.
    progress
        Called with the seconds of sound done so far.

    Raises
    ------
    AlphaMFError
        The audio is empty, not finite or of another shape; a setting or the model does not do.

    Examples
    --------
    >>> import soundfile
    >>> audio, rate = soundfile.read("data/sample-noisy.wav")
    >>> clean = denoise(audio, rate).audio
    """
    audio = np.asarray(audio)
    if audio.ndim not in (1, 2) or not audio.size:
        raise AlphaMFError(
            f"audio must have the shape (samples,) or (samples, channels), not {audio.shape}"
        )
    if not np.isfinite(audio).all():
        raise AlphaMFError("audio holds samples that are NaN or infinite")
    block = audio.astype(np.float32).reshape(len(audio), -1)
    dictionary = model if isinstance(model, Dictionary) else choose(model, rate)
    segments = list(
        denoise_stream(
            [block], rate, settings, model=dictionary, seed=seed, device=device, progress=progress
        )
    )
    gain = np.concatenate([s.gain for s in segments], axis=2)
    frame = native_frame(dictionary, rate)
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
    model: str | PathLike[str] | Dictionary = "auto",
    seed: int = 0,
    device: str = "cpu",
    progress: Callable[[float], None] | None = None,
) -> Iterator[Segment]:
    """Denoise a recording that comes in blocks, in constant memory.

    Parameters
    ----------
    blocks
        Arrays of finite samples, shape (samples, channels), of any number of samples.
    rate, settings, model, seed, device, progress
        As in `denoise`.

    Yields
    ------
    Segment
        Stretches in order, whose audio adds up to the input's length.

    Raises
    ------
    AlphaMFError
        As `denoise`; no block held a sample.
    """
    xp = module(device)
    if not isinstance(model, Dictionary):
        model = choose(model, rate)
    frame = native_frame(model, rate)
    step = SEGMENT_SECONDS * rate // frame.hop_length * frame.hop_length
    tail: Floats | None = None
    begun = 0.0
    for index, piece in enumerate(cut(blocks, step, OVERLAP_SECONDS * rate)):
        seconds = piece.step / rate / piece.audio.shape[1]
        estimates: list[Estimate] = []
        channels = piece.audio.T
        for channel, sound in enumerate(channels):
            twin = next((c for c in range(channel) if np.array_equal(channels[c], sound)), None)
            if twin is None:
                tick = partial(_tick, progress, begun, seconds / settings.steps)
                estimates.append(estimate(sound, rate, model, settings, (seed, index), xp, tick))
            else:
                estimates.append(estimates[twin])
            begun += seconds
        speech = np.stack([e.speech for e in estimates], axis=1)
        if tail is not None:
            fade_in(speech, tail)
        tail = speech[piece.step :]
        speech, audio = speech[: piece.step], piece.audio[: piece.step]
        last = piece.step == len(piece.audio)
        frames = slice(None) if last else slice(piece.step // frame.hop_length)
        yield Segment(
            audio=settings.dry * audio + (1 - settings.dry) * speech,
            noise=audio - speech,
            gain=np.stack([e.gain[:, frames] for e in estimates]),
            gain_std=np.stack([e.gain_std[:, frames] for e in estimates]),
            acceptance=[float(a) for a in np.mean([e.acceptance for e in estimates], axis=0)],
        )
    if not begun:
        raise AlphaMFError("audio holds no samples")


def _tick(
    progress: Callable[[float], None] | None, begun: float, seconds: float, steps: int
) -> None:
    if progress is not None:
        progress(begun + seconds * steps)
