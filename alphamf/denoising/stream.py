"""Denoise sound in chunks of any size: in segments that are crossfaded, or at 40 ms of latency.

Each segment learns its own noise, which allows segments to be processed side by side. At low
latency the noise is learned continuously, hop by hop, by the engine in C
(`alphamf.native.engine`), and link 6 of the chain of gains is applied here.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from os import PathLike
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from alphamf.audio.reader import CHANNELS
from alphamf.denoising.choices import LatencyName, PresetName
from alphamf.denoising.gain import least_gain, mix_dry
from alphamf.denoising.hints import Hints
from alphamf.denoising.segments import Segment, SegmentDenoiser
from alphamf.denoising.settings import Settings, choose_settings
from alphamf.denoising.stream_options import (
    Cancel,
    Samples,
    SoundProgress,
    StreamOptions,
    check_channels,
    check_chunk,
    check_rate,
    count_channels,
    from_float,
    kind_of,
    real_samples,
    to_float,
)
from alphamf.denoising.weights import Weights, find_online
from alphamf.errors import AlphaMFError
from alphamf.learnt.dictionary import Dictionary
from alphamf.native.engine import Engine
from alphamf.tools.arguments import name_the_rate
from alphamf.tools.arrays import DeviceName, Floats


class Stream:
    """Denoises sound that arrives in chunks, in constant memory.

    The joined output equals that of `alphamf.denoise` for the whole recording, to the bit and for
    any size of the chunks. At low latency the output differs, but is the same for all chunk sizes.

    A stream can be copied or pickled between two chunks, and the copy continues to the same bits.
    The copy has no `progress` and no `cancel`.

    Chunks are processed one after the other. A call during another call, from a second thread or
    from `progress`, raises an error and its chunk is not used. Any error during the work ends the
    stream. A stream with several jobs that has started cannot continue in a forked process.

    Parameters
    ----------
    rate
        Sampling rate in Hz.
    channels
        Number of channels; None: that of the first chunk.
    preset, strength, dereverb, max_attenuation, model, seed, device, jobs, max_channels, \
    channels_first, progress, cancel
        As in `alphamf.denoise`.
    latency
        ``"segments"``: segments of ten seconds; ``"low"``: 40 ms, at lower quality
        (docs/streams.md). At low latency only the settings `dry`, `max_attenuation`, `channels` and
        `refine` apply, the networks are causal, and `process` does the work on the CPU with one
        job.
    hints
        Hints about the sound, with times from the stream's start; None if there are none.

    Attributes
    ----------
    latency
        The longest time that sound is held back, in seconds. Each further job adds a segment of ten
        seconds.

    Raises
    ------
    AlphaMFError
        The rate or the number of channels is out of range, a setting or the model cannot be used,
        or low latency was not compiled or is used with a GPU, several jobs, dereverb or hints.

    Examples
    --------
    >>> import soundfile
    >>> audio, rate = soundfile.read("data/sample-noisy.wav", frames=32000)
    >>> with Stream(rate, latency="low") as stream:
    ...     cleaned = [stream.process(chunk) for chunk in audio.reshape(-1, 160)]
    ...     cleaned.append(stream.flush())
    >>> sum(map(len, cleaned)), stream.latency
    (32000, 0.04)
    """

    @name_the_rate
    def __init__(
        self,
        rate: float,
        channels: int | None = None,
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
    ) -> None:
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
        self._open(rate, channels, options)

    def _open(self, rate: float, channels: int | None, options: StreamOptions) -> None:
        self._most = options.max_channels
        self.rate: int = (rate := check_rate(rate))
        self.channels: int | None = (
            None if channels is None else check_channels(channels, self._most)
        )
        self.settings: Settings = options.settings
        progress = SoundProgress(options.progress, options.cancel)
        self._denoiser: SegmentDenoiser | FrameDenoiser
        if options.latency == "low":
            self._denoiser = FrameDenoiser(rate, self.channels or 1, options, progress)
        else:
            self._denoiser = SegmentDenoiser(rate, options.weights(rate), options, progress)
        self.latency: float = self._denoiser.latency / rate
        self._channels_first = options.channels_first
        self._kind: np.dtype[Any] | None = None
        self._one_axis = False  # Whether the newest chunk has the shape (samples,)
        self._last_came = False
        self._ended = ""
        self._busy = Lock()

    def __repr__(self) -> str:
        number = self.channels
        channels = f", {number} channel{'s' * (number > 1)}" if number else ""
        return f"Stream({self.rate} Hz{channels}, latency {self.latency:g} s)"

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the stream: stop the work in progress and discard its output."""
        self._ended = self._ended or "the stream has ended"
        self._denoiser.close()

    def __copy__(self) -> Stream:
        return deepcopy(self)

    def __getstate__(self) -> dict[str, Any]:
        with self._turn():
            return {**self.__dict__, "_busy": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._busy = Lock()

    def process(self, chunk: ArrayLike) -> Samples:
        """Process a chunk and return the speech that is ready, often none.

        Parameters
        ----------
        chunk
            Samples as in `alphamf.denoise`, shape (samples, channels), or (samples,) for one
            channel; all chunks have the same dtype.

        Returns
        -------
        ndarray
            Any number of samples, with axes like the chunk's; float32 or its integer dtype.

        Raises
        ------
        concurrent.futures.CancelledError
            `cancel` was set.
        AlphaMFError
            The chunk is not finite or has another shape or dtype; the stream has ended, or is at
            work for another call; a chain diverged.
        """
        with self._turn():
            self._take(chunk)
            return self._joined()

    def flush(self) -> Samples:
        """End the stream and return the remaining speech, with axes like the last chunk's."""
        with self._turn():
            self._take_end()
            return self._joined()

    def segments(self, chunk: ArrayLike) -> Iterator[Segment]:
        """Process a chunk, and return an iterator over the segments that are ready.

        The chunk is stored immediately, and the work is done when segments are requested. Segments
        that are not consumed are returned by the next call.
        """
        with self._turn():
            self._take(chunk)
        return self._segments()

    def rest(self) -> Iterator[Segment]:
        """End the stream, and return an iterator over the remaining segments."""
        with self._turn():
            self._take_end()
        return self._segments()

    def _segments(self) -> Iterator[Segment]:
        while True:
            with self._turn():
                self._check_open()
                segment = self._step()
            if segment is None:
                return
            yield segment

    def _joined(self) -> Samples:
        """Return the speech of all segments that are ready."""
        audio = [segment.audio for segment in iter(self._step, None)]
        if not audio:
            return self._in_users_form(np.empty((0, self.channels or 1), np.float32))
        return np.concatenate(audio, axis=int(self._channels_first and not self._one_axis))

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Allow one call at a time: others, from threads or callbacks, raise an AlphaMFError."""
        if not self._busy.acquire(blocking=False):
            raise AlphaMFError(
                "the stream is already processing a chunk, in another thread or in the call that "
                "runs this callback; pass one chunk after the other"
            )
        try:
            yield
        finally:
            self._busy.release()

    def _take(self, chunk: ArrayLike) -> None:
        """Check and store a chunk; raise an AlphaMFError if it cannot be used."""
        self._check_open()
        if self._last_came:
            raise AlphaMFError("the stream has ended; no chunk can follow flush() or rest()")
        array = real_samples(chunk)
        first = self._channels_first
        channels = self.channels or count_channels(array.shape, self._most, channels_first=first)
        check_chunk(array.shape, channels, channels_first=first)
        block = array[:, None] if array.ndim == 1 else array.T if first else array
        kind = kind_of(array)
        if self._kind not in (None, kind):
            raise AlphaMFError(
                f"all chunks of a stream must have the same dtype: it started with {self._kind}, "
                f"but this chunk is {kind}"
            )
        self._denoiser.push(to_float(block))
        self._kind, self.channels, self._one_axis = kind, channels, array.ndim == 1

    def _take_end(self) -> None:
        self._check_open()
        self._last_came = True

    def _check_open(self) -> None:
        if self._ended:
            raise AlphaMFError(self._ended)

    def _step(self) -> Segment | None:
        """Return the next segment that is ready, or None; an error ends the stream."""
        try:
            segment = self._denoiser.next(ended=self._last_came)
        except BaseException as error:
            name = type(error).__name__
            self._ended = self._ended or f"the stream has ended: {name} interrupted it"
            self._denoiser.close()
            raise
        if segment is None:
            if self._last_came:
                self.close()
            return None
        audio, noise = (self._in_users_form(each) for each in (segment.audio, segment.noise))
        return segment._replace(audio=audio, noise=noise)

    def _in_users_form(self, audio: Floats) -> Samples:
        """Return samples in the user's dtype and axis order."""
        found = from_float(audio, self._kind or audio.dtype)
        if self._one_axis:
            return found.reshape(-1)
        return found.T if self._channels_first else found


def open_stream(rate: float, channels: int | None, options: StreamOptions) -> Stream:
    """Return a stream with options that have been checked."""
    stream = Stream.__new__(Stream)
    stream._open(rate, channels, options)
    return stream


_LOGGER = logging.getLogger(__name__)


class FrameDenoiser:
    """Denoises a stream at low latency; the methods are those of `segments.SegmentDenoiser`."""

    def __init__(
        self, rate: int, channels: int, options: StreamOptions, progress: SoundProgress
    ) -> None:
        self._weights = find_online(rate, options.model, refine=options.settings.refine)
        self._rate, self._settings, self._seed = rate, options.settings, options.seed
        self._progress = progress
        self._blocks: deque[Floats] = deque()
        self._finished = self._was_reset = False
        self._begin(channels)
        self.latency: int = self._engine.latency

    def _begin(self, channels: int) -> None:
        self._engine = Engine(
            self._rate,
            channels,
            self._weights.dictionary,
            self._weights.online,
            linked=self._settings.channels == "linked",
            least=float(least_gain(self._settings)),
            seed=self._seed,
        )
        self._waiting: Floats = np.empty((0, channels), np.float32)
        self._delayed: Floats = np.empty((0, channels), np.float32)

    def push(self, block: Floats) -> None:
        """Add a block, shape (samples, channels)."""
        if block.shape[1] != self._waiting.shape[1]:  # the channel count was unknown
            self._begin(block.shape[1])
        self._blocks.append(block)

    def next(self, *, ended: bool) -> Segment | None:
        """Return the next block's output; without a block, the rest (once) if `ended`, or None."""
        if self._blocks:
            block = self._blocks.popleft()
            self._delayed = np.concatenate([self._delayed, block])
            segment = self._ready(block)
        elif ended and not self._finished:
            self._finished = True
            silence = self.latency + self._engine.hop, self._waiting.shape[1]
            segment = self._ready(np.zeros(silence, np.float32), len(self._delayed))
        else:
            return None
        self._progress.add(len(segment.audio) / self._rate)
        return segment

    def close(self) -> None:
        """Stop the work in progress."""
        self._progress.stopped = True

    def _ready(self, block: Floats, most: int | None = None) -> Segment:
        """Process samples, shape (samples, channels); return the output, up to `most` samples."""
        sound = np.concatenate([self._waiting, block])
        whole = len(sound) // self._engine.hop * self._engine.hop
        self._waiting = sound[whole:].copy()
        found = self._engine.process(sound[:whole])
        speech = found.speech[:most]
        audio, self._delayed = self._delayed[: len(speech)], self._delayed[len(speech) :].copy()
        return Segment(
            mix_dry(audio, speech, self._settings),
            audio - speech,
            found.gain,
            found.gain_std,
            [self._engine.acceptance, 1.0],
            found.activity,
            note=self._note(),
        )

    def _note(self) -> str | None:
        """Return and log a note when the engine has reset itself for the first time, or None."""
        reason = self._engine.reset_reason
        if reason is None or self._was_reset:
            return None
        self._was_reset = True
        note = f"low-latency processing was reset because {reason}"
        _LOGGER.warning(note)
        return note
