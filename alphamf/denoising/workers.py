"""Estimate segments in order: one by one, in parallel threads, or as a batch on a GPU."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from functools import partial
from itertools import groupby
from threading import Lock
from typing import Any, Protocol, TypeVar

import numpy as np

from alphamf.denoising.estimate import ChannelEstimate, estimate_speech, sample_gains
from alphamf.denoising.gain import SegmentPosterior
from alphamf.denoising.known_noise import noise_spectra
from alphamf.denoising.segments import Piece
from alphamf.denoising.settings import Settings
from alphamf.denoising.weights import Weights
from alphamf.errors import AlphaMFError
from alphamf.tools.arrays import Floats, Reals, module

TINY = np.finfo(np.float32).tiny
"""A peak below this, 760 dB below full scale, is digital silence."""

T = TypeVar("T")

Estimated = tuple[Piece, list[ChannelEstimate]]
"""A piece, and the estimate of each of its channels."""


class Cancel(Protocol):
    """Stops work from another thread or process; for example `threading.Event`."""

    def is_set(self) -> bool:
        """Return whether the work should stop."""
        ...


class Workers:
    """Estimates pieces of sound, and returns them in order.

    Parameters
    ----------
    rate
        Sampling rate in Hz.
    weights, settings
        Of the run.
    seed
        The same seed gives the same bits.
    xp
        Array module that samples. On a device pieces move together, which is what fills it.
    jobs
        Pieces side by side.
    progress
        Called with the seconds of sound done so far, or None.
    cancel
        What stops the work, or None.
    noise
        Sound of noise alone, shape (samples, channels), float32, or None.

    A copy by pickle or `copy.deepcopy`, for which pieces under way are waited for, has neither
    `progress` nor `cancel`.
    """

    def __init__(
        self,
        rate: int,
        weights: Weights,
        settings: Settings,
        *,
        seed: int,
        xp: Any,
        jobs: int,
        progress: Callable[[float], None] | None,
        cancel: Cancel | None = None,
        noise: Floats | None = None,
    ) -> None:
        self._noise: list[Reals | None] | None = None
        if noise is not None:
            self._noise = noise_spectra(noise, rate, weights.dictionary, settings, seed)
        self._rate, self._weights, self._settings = rate, weights.to_module(xp), settings
        self._seed, self._xp, self._jobs = seed, xp, jobs
        self._progress = _Progress(progress, cancel)
        self._together = xp is not np
        self._threads = self._pool()
        self._waiting: list[Piece] = []
        self._pending: deque[tuple[Piece, list[int], list[Future[list[ChannelEstimate]]]]] = deque()
        self._ready: deque[Estimated] = deque()
        self._count = 0
        self._process: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        self._check_process()
        pending = [
            (piece, places, [future.result() for future in futures])
            for piece, places, futures in self._pending
        ]
        seconds, stopped = dict(self._progress.seconds), self._progress.stopped
        changed = {"_pending": pending, "_progress": (seconds, stopped), "_threads": None}
        return {**self.__dict__, **changed, "_xp": self._xp.__name__, "_process": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._xp = np if state["_xp"] == "numpy" else module("cuda")
        self._pending = deque(
            (piece, places, [_done(each) for each in found])
            for piece, places, found in state["_pending"]
        )
        self._progress = _Progress(None, None)
        self._progress.seconds, self._progress.stopped = state["_progress"]
        self._threads = self._pool()

    def _pool(self) -> ThreadPoolExecutor | None:
        return ThreadPoolExecutor(self._jobs) if self._jobs > 1 and not self._together else None

    def submit(self, piece: Piece) -> None:
        """Start to estimate a piece: at once, in threads, or when a batch for the GPU is full."""
        if self._together:
            self._waiting.append(piece)
        else:
            self._pending.append((piece, *self._futures(piece)))

    def oldest(self, *, last: bool = False) -> Estimated | None:
        """Return the oldest piece that is still to be returned, or None if too few are in progress.

        Parameters
        ----------
        last
            Whether no other piece follows: then any number is enough.

        Raises
        ------
        AlphaMFError
            Threads are at work on it in another process, which this one was forked from.
        """
        if self._together:
            if not self._ready and self._waiting and (last or len(self._waiting) == self._jobs):
                self._batch()
            return self._ready.popleft() if self._ready else None
        # Pending pieces cost memory: no more sounds are under way than there are jobs.
        many = sum(len(set(places)) for _, places, _ in self._pending) >= self._jobs
        if not self._pending or not (many or last):
            return None
        self._check_process()
        piece, places, futures = self._pending.popleft()
        found = [estimate for future in futures for estimate in future.result()]
        return piece, [found[k] for k in places]

    def count(self, seconds: float) -> None:
        """Add seconds of sound that were processed elsewhere to the progress.

        Raises
        ------
        CancelledError
            The work is to stop.
        """
        number = 0, 0
        self._progress.advance(number, 1, self._progress.seconds.get(number, 0) + seconds)

    def close(self) -> None:
        """Stop the work in progress."""
        self._progress.stopped = True
        if self._threads is not None and self._process in (None, os.getpid()):
            self._threads.shutdown(cancel_futures=True)

    def _number(self, count: int) -> int:
        """Reserve stream numbers for the next `count` pieces, and return the first."""
        first, self._count = self._count, self._count + count
        return first

    def _futures(self, piece: Piece) -> tuple[list[int], list[Future[list[ChannelEstimate]]]]:
        """Start the estimation of a piece.

        Returns
        -------
        places : list of int
            For each channel its place among the estimates.
        futures : list of Future
            Whose estimates, one after the other, are those.
        """
        places, sounds = _different([piece])
        noises = self._noises(places)
        number, seconds = self._number(1), piece.step / self._rate / len(sounds)
        samplings = [
            partial(self._sampled, [sound], number, seconds, k, [noise])
            for k, (sound, noise) in enumerate(zip(sounds, noises, strict=True))
        ]
        if self._settings.channels == "separate":
            return places, [self._started(partial(self._alone, task)) for task in samplings]
        # The last to start does the rest, when the others are about to end: no thread waits long.
        *earlier, last = samplings
        others = [self._started(task) for task in earlier]
        return places, [self._started(partial(self._linked, others, last))]

    def _started(self, task: Callable[[], T]) -> Future[T]:
        if self._threads is None:
            return _done(task())
        self._check_process()
        self._process = os.getpid()
        return self._threads.submit(task)

    def _check_process(self) -> None:
        """Refuse to wait for threads of another process."""
        if self._process not in (None, os.getpid()):
            raise AlphaMFError(
                "the stream's threads are in the process that this one was forked from: make the "
                "stream after the fork, or give it jobs=1"
            )

    def _noises(self, places: Sequence[int]) -> list[Reals | None]:
        """Return the known noise spectra of each sound, from the first channel that has it."""
        known = self._noise
        if known is None:
            return [None] * len(set(places))
        return [known[places.index(k) % len(known)] for k in range(len(set(places)))]

    def _sampled(
        self,
        sounds: Sequence[Floats],
        number: int,
        seconds: float,
        place: int,
        noises: Sequence[Reals | None],
    ) -> list[SegmentPosterior]:
        """Sample the gains of sounds of equal length.

        Parameters
        ----------
        sounds
            Shape (samples,) each.
        number
            Their stream number.
        seconds
            Of sound that they stand for in the progress.
        place
            Of the first among those of this number.
        noises
            Known spectra of the noise of each, or None.
        """
        progress = partial(self._progress.advance, (number, place), seconds / self._settings.steps)
        stream = self._seed, number
        return sample_gains(
            sounds, self._rate, self._weights, self._settings, stream, self._xp, progress, noises
        )

    def _finished(self, channels: Sequence[SegmentPosterior]) -> list[ChannelEstimate]:
        return estimate_speech(channels, self._weights, self._settings, self._xp)

    def _alone(self, sampling: Callable[[], list[SegmentPosterior]]) -> list[ChannelEstimate]:
        return self._finished(sampling())

    def _linked(
        self,
        others: Sequence[Future[list[SegmentPosterior]]],
        last: Callable[[], list[SegmentPosterior]],
    ) -> list[ChannelEstimate]:
        own = last()
        return self._finished([one for other in others for one in other.result()] + own)

    def _batch(self) -> None:
        """Estimate in one batch the waiting pieces, or those as long as the first one."""
        _, group = next(groupby(self._waiting, key=lambda piece: len(piece.audio)))
        pieces = list(group)
        del self._waiting[: len(pieces)]
        places, sounds = _different(pieces)
        seconds = sum(piece.step for piece in pieces) / self._rate
        noises = self._noises(places)
        found = self._sampled(sounds, self._number(len(pieces)), seconds, 0, noises)
        channels = len(places) // len(pieces)
        for k, piece in enumerate(pieces):
            own = places[k * channels : (k + 1) * channels]
            used = sorted(set(own))
            estimates = self._finished([found[place] for place in used])
            self._ready.append((piece, [estimates[used.index(place)] for place in own]))


def _different(pieces: Sequence[Piece]) -> tuple[list[int], list[Floats]]:
    """Return the distinct sounds among the channels of some pieces.

    Parameters
    ----------
    pieces
        Of one length.

    Returns
    -------
    places : list of int
        For each channel of the first piece, then of the next, its place among the sounds.
    sounds : list of ndarray
        Shape (samples,) each.
    """
    sounds: list[Floats] = []
    places: list[int] = []
    for piece in pieces:
        # The reciprocal of a peak below the normal numbers would be infinite.
        audio = np.where(np.abs(piece.audio).max(axis=0) < TINY, 0, piece.audio)
        for sound in audio.T:
            known = (k for k, other in enumerate(sounds) if np.array_equal(other, sound))
            places.append(next(known, len(sounds)))
            if places[-1] == len(sounds):
                sounds.append(sound)
    return places, sounds


def _done(result: T) -> Future[T]:
    future: Future[T] = Future()
    future.set_result(result)
    return future


class _Progress:
    """Adds up the seconds processed in several threads."""

    def __init__(self, callback: Callable[[float], None] | None, cancel: Cancel | None) -> None:
        self._callback, self._cancel = callback, cancel
        self._lock = Lock()
        self.seconds: dict[tuple[int, int], float] = {}
        self.stopped = False

    def advance(self, key: tuple[int, int], seconds: float, steps: float) -> None:
        """Record the progress of a task, and call the callback.

        Parameters
        ----------
        key
            Of the task.
        seconds
            Of sound that a step stands for.
        steps
            Steps made so far.

        Raises
        ------
        CancelledError
            The work is to stop.
        """
        if self.stopped or (self._cancel is not None and self._cancel.is_set()):
            raise CancelledError("the denoising was cancelled")
        if self._callback is not None:
            with self._lock:
                self.seconds[key] = seconds * steps
                self._callback(sum(self.seconds.values()))
