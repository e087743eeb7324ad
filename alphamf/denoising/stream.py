"""Sound in chunks of any size: cut into segments, denoised, faded into each other.

Every segment learns its noise for itself, which lets segments be done side by side.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from os import PathLike
from typing import NamedTuple

import numpy as np

from alphamf.audio.reader import CHANNELS
from alphamf.audio.survey import RATES
from alphamf.denoising.gain import with_dry
from alphamf.denoising.grids import native_grid
from alphamf.denoising.segments import Cutter, fade_in
from alphamf.denoising.settings import PRESETS, Settings
from alphamf.denoising.weights import Weights, find
from alphamf.denoising.workers import Estimated, Workers
from alphamf.errors import AlphaMFError
from alphamf.learnt.dictionary import Dictionary
from alphamf.tools.arrays import Floats, module

SEGMENT_SECONDS = 10
OVERLAP_SECONDS = 1


class Segment(NamedTuple):
    """A denoised segment.

    Attributes
    ----------
    audio, noise
        Speech and noise estimate, float32, shape (samples, channels); they add up to the input
        where `dry` is 0 and no attenuation limit is set.
    gain, gain_std
        Mean and standard deviation of the gain, of the posterior or of the refiner, before any
        second stage; shape (channels, bins, frames), of the frames that begin in this segment.
    acceptance
        Proportion of accepted Phi proposals of speech and noise.
    """

    audio: Floats
    noise: Floats
    gain: Floats
    gain_std: Floats
    acceptance: list[float]


class Stream:
    """Denoises sound that comes in chunks, in constant memory.

    What comes out, put together, is what `alphamf.denoise` makes of the whole, to the bit, whatever
    the size of the chunks.

    Parameters
    ----------
    rate
        Sampling rate in Hz.
    channels
        Number of channels.
    settings, model, seed, device, jobs, max_channels, progress
        As in `alphamf.denoise`.

    Attributes
    ----------
    latency
        The longest that sound is held back, in seconds: what comes in is out when so much more has
        followed, and `jobs` - 1 segments of ten seconds more where there are several jobs.

    Raises
    ------
    AlphaMFError
        The rate is none of sound, there are more channels than `max_channels`, or a setting or the
        model does not do.

    Examples
    --------
    >>> with Stream(16000, channels=1) as stream:
    ...     for chunk in chunks:
    ...         play(stream.process(chunk))
    ...     play(stream.flush())
    """

    def __init__(
        self,
        rate: int,
        channels: int,
        settings: Settings = PRESETS["balanced"],
        *,
        model: str | PathLike[str] | Dictionary | Weights = "auto",
        seed: int = 0,
        device: str = "cpu",
        jobs: int = 1,
        max_channels: int = CHANNELS,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        rate = checked_rate(rate)
        if not 1 <= channels <= max_channels:
            raise AlphaMFError(
                f"a stream has 1 to {max_channels} channels, the second axis of its sound, not "
                f"{channels}: max_channels allows more"
            )
        if jobs < 1:
            raise AlphaMFError(f"jobs must be at least 1, not {jobs}")
        self.rate, self.channels, self.settings = rate, channels, settings
        weights = find(rate, model)
        self._hop = native_grid(weights.dictionary, rate).frame.hop_length
        step = SEGMENT_SECONDS * rate // self._hop * self._hop
        self._cutter = Cutter(step, OVERLAP_SECONDS * rate)
        self.latency = (self._cutter.limit + (jobs - 1) * step) / rate
        self._workers = Workers(
            rate, weights, settings, seed=seed, xp=module(device), jobs=jobs, progress=progress
        )
        self._tail: Floats | None = None
        self._ended = False

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop work that is still under way; what has not come out is lost."""
        self._ended = True
        self._workers.close()

    def process(self, chunk: Floats) -> Floats:
        """Take in a chunk and return the speech that is ready, often none.

        Parameters
        ----------
        chunk
            Finite samples, shape (samples, channels), or (samples,) of one channel.

        Returns
        -------
        ndarray
            float32, shape (samples, channels), or (samples,) as the chunk.

        Raises
        ------
        AlphaMFError
            The chunk is not finite or of another shape; the stream has ended; a chain diverged.
        """
        return self._joined(self.segments(chunk), np.ndim(chunk))

    def flush(self) -> Floats:
        """End the stream, and return the speech still held back, shape (samples, channels)."""
        return self._joined(self.rest(), 2)

    def _joined(self, segments: Iterable[Segment], axes: int) -> Floats:
        nothing = np.empty((0, self.channels), np.float32)
        audio = np.concatenate([nothing, *(segment.audio for segment in segments)])
        return audio[:, 0] if axes == 1 else audio

    def segments(self, chunk: Floats) -> Iterator[Segment]:
        """Do as `process`, and yield segments with their gains."""
        block = self._checked(chunk)
        for piece in self._cutter.push(block):
            yield from map(self._end, self._workers.submit(piece))

    def rest(self) -> Iterator[Segment]:
        """Do as `flush`, and yield segments with their gains."""
        self._check_open()
        for piece in self._cutter.finish():
            yield from map(self._end, self._workers.submit(piece))
        yield from map(self._end, self._workers.drain())
        self.close()

    def _check_open(self) -> None:
        if self._ended:
            raise AlphaMFError("the stream has ended")

    def _checked(self, chunk: Floats) -> Floats:
        self._check_open()
        chunk = real(chunk)
        block = chunk[:, None] if chunk.ndim == 1 else chunk
        if block.ndim != 2 or block.shape[1] != self.channels:
            raise AlphaMFError(
                f"audio must have the shape (samples, {self.channels}), not {chunk.shape}"
            )
        if not np.isfinite(block).all():
            raise AlphaMFError("audio holds samples that are NaN or infinite")
        with np.errstate(over="ignore"):  # refused below
            block = block.astype(np.float32)
        if not np.isfinite(block).all():
            raise AlphaMFError("audio holds samples beyond the range of single precision")
        return block

    def _end(self, estimated: Estimated) -> Segment:
        piece, estimates = estimated
        speech = np.stack([e.speech for e in estimates], axis=1)
        if self._tail is not None:
            fade_in(speech, self._tail)
        self._tail = speech[piece.step :]
        speech, audio = speech[: piece.step], piece.audio[: piece.step]
        last = piece.step == len(piece.audio)
        frames = slice(None) if last else slice(piece.step // self._hop)
        return Segment(
            audio=with_dry(audio, speech, self.settings),
            noise=audio - speech,
            gain=np.stack([e.gain[:, frames] for e in estimates]),
            gain_std=np.stack([e.gain_std[:, frames] for e in estimates]),
            acceptance=[float(a) for a in np.mean([e.acceptance for e in estimates], axis=0)],
        )


def checked_rate(rate: int) -> int:
    """Return a sampling rate as an int.

    Raises
    ------
    AlphaMFError
        It is no whole number, or outside `alphamf.audio.survey.RATES`.
    """
    try:
        whole = operator.index(rate)
    except TypeError:
        raise AlphaMFError(f"the rate must be a whole number of Hz, not {rate!r}") from None
    if not RATES[0] <= whole <= RATES[1]:
        raise AlphaMFError(f"the rate must be from {RATES[0]} to {RATES[1]} Hz, not {whole}")
    return whole


def real(audio: Floats) -> Floats:
    """Return samples as an array, whatever its shape.

    Raises
    ------
    AlphaMFError
        They are something else than real numbers: complex, truth values, objects, text.
    """
    try:
        array = np.asarray(audio)
    except ValueError as error:  # rows of several lengths
        raise AlphaMFError(f"audio is no array: {error}") from None
    if array.dtype.kind not in "fiu":
        raise AlphaMFError(f"audio must hold real numbers, not {array.dtype}")
    return array
