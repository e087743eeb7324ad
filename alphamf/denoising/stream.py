"""Sound in chunks of any size: in segments that fade into each other, or within 40 ms.

Every segment learns its noise for itself, which lets segments be done side by side. At low latency
the noise is learnt as the sound goes on (`low_latency`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from os import PathLike
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from alphamf.audio.reader import CHANNELS
from alphamf.denoising.agreement import Agreement
from alphamf.denoising.gain import least_gain, with_dry
from alphamf.denoising.grids import native_grid
from alphamf.denoising.hints import Hints
from alphamf.denoising.low_latency import Done, LowLatency
from alphamf.denoising.samples import (
    Samples,
    check_chunk,
    checked_rate,
    from_float,
    kind_of,
    real,
    to_float,
)
from alphamf.denoising.segments import Cutter, fade_in
from alphamf.denoising.settings import Settings, chosen
from alphamf.denoising.stream_options import check_callers, check_channels, check_way
from alphamf.denoising.weights import Weights, find, find_online
from alphamf.denoising.workers import Cancel, Estimated, Workers
from alphamf.errors import AlphaMFError
from alphamf.learnt.dictionary import Dictionary
from alphamf.tools.arguments import flag, whole
from alphamf.tools.arrays import Floats, module
from alphamf.tools.sums import total

SEGMENT_SECONDS = 10
OVERLAP_SECONDS = 0.5


class Segment(NamedTuple):
    """A denoised segment.

    Attributes
    ----------
    audio, noise
        Speech and noise estimate, shape (samples, channels) or as the stream has it, float32 or
        the input's kind of integers; they add up to the input where `dry` is 0 and no attenuation
        limit is set.
    gain, gain_std
        Gain of the speech, from 0 to 1, and its standard deviation: that of the posterior or, with
        networks, how far such a gain is off; shape (channels, bins, frames), of the frames that
        begin in this segment.
    acceptance
        Proportion of accepted Phi proposals of speech and noise.
    activity
        Probability of speech in each of these frames, of the channel where it is highest; shape
        (frames,).
    agreement
        How far several chains agree, over all channels; None of one chain alone, and of digital
        silence.
    note
        What there is to say of it; at low latency that the state had to start anew.

    Examples
    --------
    >>> import soundfile
    >>> audio, rate = soundfile.read("data/sample-noisy.wav", frames=32000)
    >>> with Stream(rate, channels=1, settings="fast") as stream:
    ...     segments = [*stream.segments(audio[:, None]), *stream.rest()]
    >>> [segment.audio.shape for segment in segments]
    [(32000, 1)]
    """

    audio: Samples
    noise: Samples
    gain: Floats
    gain_std: Floats
    acceptance: list[float]
    activity: Floats
    agreement: Agreement | None = None
    note: str | None = None


class Stream:
    """Denoises sound that comes in chunks, in constant memory.

    What comes out, put together, is what `alphamf.denoise` makes of the whole, to the bit, whatever
    the size of the chunks; at low latency it is something else, but the same for all chunks.

    A stream can be copied or pickled between two chunks, and goes on to the same bits; its copy
    calls no `progress` and heeds no `cancel`.

    Chunks come one after the other: a call while another one works, from a second thread or from
    `progress`, is refused and its chunk is not taken. An error that breaks off the work, such as
    one that `progress` raises, ends the stream. One of several jobs that has begun cannot go on
    in a forked process.

    Parameters
    ----------
    rate
        Sampling rate in Hz.
    channels
        Number of channels.
    settings, model, seed, device, jobs, max_channels, channels_first, progress, cancel
        As in `alphamf.denoise`.
    latency
        ``"segments"``: segments of ten seconds; ``"low"``: 40 ms, for less quality
        (docs/streams.md). Of the settings only `dry`, `max_attenuation`, `channels` and `refine`
        count then, the network is a causal one, and the work is done in `process`, on the CPU,
        by one job.
    hints
        What is known of the sound, with times from the stream's start; None for nothing.

    Attributes
    ----------
    latency
        The longest that sound is held back, in seconds: what comes in is out when so much more has
        followed, and `jobs` - 1 segments of ten seconds more where there are several jobs.

    Raises
    ------
    AlphaMFError
        The rate is none of sound, there are more channels than `max_channels`, or a setting or the
        model does not do; low latency is asked for on a device or with several jobs.

    Examples
    --------
    >>> import soundfile
    >>> audio, rate = soundfile.read("data/sample-noisy.wav", frames=32000)
    >>> with Stream(rate, channels=1, latency="low") as stream:
    ...     cleaned = [stream.process(chunk) for chunk in audio.reshape(-1, 160, 1)]
    ...     cleaned.append(stream.flush())
    >>> sum(map(len, cleaned)), stream.latency
    (32000, 0.04)
    """

    def __init__(
        self,
        rate: int,
        channels: int,
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
    ) -> None:
        rate = checked_rate(rate)
        channels, seed = check_channels(channels, max_channels), whole("seed", seed, 0)
        jobs = check_way(latency, device, jobs, hints)
        check_callers(progress, cancel)
        self.rate: int = rate
        self.channels: int = channels
        self.settings: Settings = chosen(settings)
        if latency == "low":
            weights = find_online(rate, model, refine=self.settings.refine)
        else:
            weights = find(rate, model)
        self._low: LowLatency | None = None
        if latency == "low":
            self._low = LowLatency(rate, channels, weights, self.settings, seed)
        self._hop = native_grid(weights.dictionary, rate).frame.hop_length
        step = SEGMENT_SECONDS * rate // self._hop * self._hop
        self._cutter = Cutter(step, round(OVERLAP_SECONDS * rate))
        held = self._low.latency if self._low else self._cutter.limit + (jobs - 1) * step
        self.latency: float = held / rate
        self._hints = hints or Hints()
        self._position = 0
        self._workers = Workers(
            rate,
            weights,
            self.settings,
            seed=seed,
            xp=module(device),
            jobs=jobs,
            progress=progress,
            cancel=cancel,
            noise=self._hints.noise,
        )
        self._channels_first = flag("channels_first", channels_first)
        self._kind: np.dtype[Any] | None = None
        self._tail: Floats | None = None
        self._blocks: deque[Floats] = deque()
        self._last_came = self._finished = False
        self._ended = ""
        self._busy = Lock()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop work that is still under way; what has not come out is lost."""
        self._ended = self._ended or "the stream has ended"
        self._workers.close()

    def __copy__(self) -> Stream:
        return deepcopy(self)

    def __getstate__(self) -> dict[str, Any]:
        with self._turn():
            return {**self.__dict__, "_busy": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._busy = Lock()

    def process(self, chunk: ArrayLike) -> Samples:
        """Take in a chunk and return the speech that is ready, often none.

        Parameters
        ----------
        chunk
            Samples as in `alphamf.denoise`, shape (samples, channels), or (samples,) of one
            channel; in all chunks of one kind.

        Returns
        -------
        ndarray
            float32 or the chunk's kind of integers, shape (samples, channels), or (samples,) as the
            chunk.

        Raises
        ------
        AlphaMFError
            The chunk is not finite, or of another shape or kind; the stream has ended, or is at
            work for another call; a chain diverged.
        """
        with self._turn():
            chunk = self._take(chunk)
            return self._joined(iter(self._step, None), chunk.ndim)

    def flush(self) -> Samples:
        """End the stream, and return the speech still held back, shape (samples, channels)."""
        with self._turn():
            self._take_end()
            return self._joined(iter(self._step, None), 2)

    def segments(self, chunk: ArrayLike) -> Iterator[Segment]:
        """Do as `process`, and return an iterator over segments with their gains.

        The chunk is taken in at once, and the work is done as segments are asked for: what one call
        leaves, the next returns.
        """
        with self._turn():
            self._take(chunk)
        return self._segments()

    def rest(self) -> Iterator[Segment]:
        """Do as `flush`, and return an iterator over segments with their gains."""
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

    def _joined(self, segments: Iterable[Segment], axes: int) -> Samples:
        audio = [segment.audio for segment in segments]
        if not audio:
            audio = [self._held(np.empty((0, self.channels), np.float32))]
        joined = np.concatenate(audio, axis=int(self._channels_first))
        return joined.reshape(-1) if axes == 1 else joined

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Keep other threads out, and callbacks, which would find the work half done."""
        if not self._busy.acquire(blocking=False):
            raise AlphaMFError(
                "the stream is at work, for another thread or for the call whose callback this is: "
                "chunks come one after the other"
            )
        try:
            yield
        finally:
            self._busy.release()

    def _take(self, chunk: ArrayLike) -> Samples:
        """Take in a chunk, and return it as an array."""
        self._check_open()
        if self._last_came:
            raise AlphaMFError("the stream has ended: no chunk follows flush() or rest()")
        array = real(chunk)
        block = self._checked(array)
        if self._low is not None:
            self._blocks.append(block)
        else:
            self._cutter.push(block)
        return array

    def _take_end(self) -> None:
        self._check_open()
        self._last_came = True

    def _check_open(self) -> None:
        if self._ended:
            raise AlphaMFError(self._ended)

    def _step(self) -> Segment | None:
        """Return the next segment that is ready, or None; an error on the way ends the stream."""
        try:
            segment = self._next() if self._low is None else self._next_at_once(self._low)
        except BaseException as error:
            name = type(error).__name__
            self._ended = self._ended or f"the stream has ended: {name} broke off its work"
            self._workers.close()
            raise
        if segment is None and self._last_came:
            self.close()
        return segment

    def _next(self) -> Segment | None:
        while (estimated := self._workers.oldest()) is None:
            piece = self._cutter.piece()
            if piece is None and self._last_came:
                piece = self._cutter.last()
            if piece is None:
                break
            self._workers.submit(piece)
        if estimated is None and self._last_came:
            estimated = self._workers.oldest(last=True)
        return None if estimated is None else self._faded(estimated)

    def _next_at_once(self, low: LowLatency) -> Segment | None:
        """Return what has come out of the next block at low latency, or after the last one."""
        if self._blocks:
            return self._now(low.push(self._blocks.popleft()))
        if self._last_came and not self._finished:
            self._finished = True
            return self._now(low.finish())
        return None

    def _checked(self, array: Samples) -> Floats:
        """Return a chunk as float32 of shape (samples, channels), which nobody else holds."""
        check_chunk(array.shape, self.channels, channels_first=self._channels_first)
        block = array[:, None] if array.ndim == 1 else array.T if self._channels_first else array
        kind = kind_of(array)
        if self._kind not in (None, kind):
            raise AlphaMFError(f"the stream began with {self._kind}, and this chunk is of {kind}")
        found = to_float(block)
        self._kind = kind
        return found

    def _held(self, audio: Floats) -> Samples:
        """Return samples as the user holds them."""
        found = from_float(audio, self._kind or audio.dtype)
        return found.T if self._channels_first else found

    def _now(self, done: Done) -> Segment:
        """Return what has come out at low latency."""
        self._workers.count(len(done.audio) / self.rate)
        return Segment(
            audio=self._held(with_dry(done.audio, done.speech, self.settings)),
            noise=self._held(done.audio - done.speech),
            gain=done.gain,
            gain_std=done.gain_std,
            acceptance=done.acceptance,
            activity=done.activity,
            note=done.note,
        )

    def _faded(self, estimated: Estimated) -> Segment:
        piece, estimates = estimated
        speech = np.stack([e.speech for e in estimates], axis=1)
        if self._tail is not None:
            fade_in(speech, self._tail)
        self._tail = speech[piece.step :]
        speech, audio = speech[: piece.step], piece.audio[: piece.step]
        last = piece.step == len(piece.audio)
        frames = slice(None) if last else slice(piece.step // self._hop)
        gain, gain_std, activity = (
            np.stack([getattr(e, name)[..., frames] for e in estimates])
            for name in ("gain", "gain_std", "activity")
        )
        activity = activity.max(axis=0)
        self._heed(audio, speech, gain, gain_std, activity)
        return Segment(
            audio=self._held(with_dry(audio, speech, self.settings)),
            noise=self._held(audio - speech),
            gain=gain,
            gain_std=gain_std,
            acceptance=[float(a) for a in np.mean([e.acceptance for e in estimates], axis=0)],
            activity=activity,
            agreement=total(e.agreement for e in estimates),
        )

    def _heed(
        self, audio: Floats, speech: Floats, gain: Floats, gain_std: Floats, activity: Floats
    ) -> None:
        """Let what is known of the sound have the last word on what was found of it, in place."""
        start, self._position = self._position, self._position + len(audio)
        if not (self._hints.noise_from or self._hints.speech_from):
            return
        least = least_gain(self.settings)
        kept = self._hints.share_kept(start, len(audio), self.rate)[:, None]
        speech -= (1 - kept) * (speech - least * audio)
        times = (start + np.arange(len(activity)) * self._hop) / self.rate
        noise = self._hints.noise_frames(times)
        gain[..., noise], gain_std[..., noise], activity[noise] = least, 0, 0
        activity[self._hints.speech_frames(times)] = 1
