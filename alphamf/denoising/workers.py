"""Estimate segments in order: one by one, in parallel threads, or as a batch on a GPU."""

import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

import numpy as np

from alphamf.denoising import high_bands
from alphamf.denoising.estimate import (
    FIRST,
    ChannelEstimate,
    estimate_speech,
    models_components,
    sample_gains,
    sample_groups,
)
from alphamf.denoising.gain import SegmentPosterior
from alphamf.denoising.grids import BAND_TOP, Spectra
from alphamf.denoising.hints import noise_spectra
from alphamf.denoising.late_reverberation import Late, late_reverberation
from alphamf.denoising.settings import Settings
from alphamf.denoising.stream_options import SoundProgress, StreamOptions
from alphamf.denoising.weights import Weights
from alphamf.errors import AlphaMFError
from alphamf.tools.arrays import Floats, Reals, module

TINY = np.finfo(np.float32).tiny
"""A peak below this, 760 dB below full scale, is digital silence."""

T = TypeVar("T")


class Piece(NamedTuple):
    """An input segment, followed by its overlap."""

    audio: Floats  # Shape (samples, channels)
    # Number of samples from the start of this piece to that of the next, or all if it is the last.
    # The samples after `step` are repeated at the start of the next piece.
    step: int


class _Pending(NamedTuple):
    """A piece in progress."""

    places: list[int]  # For each channel its place among the estimates of all futures
    # Estimates of the different sounds among the channels.
    futures: list[Future[list[ChannelEstimate]]]
    tasks: int  # Number of threads that the futures keep busy

    def channels(self) -> list[ChannelEstimate]:
        """Wait for the estimates, and return that of every channel."""
        found = [estimate for future in self.futures for estimate in future.result()]
        return [found[k] for k in self.places]


class Workers:
    """Estimator of the speech in pieces, in order: one by one, in threads, or in batches on a GPU.

    Copying by pickle or `copy.deepcopy` first waits for the pieces in progress.
    """

    def __init__(
        self, rate: int, weights: Weights, options: StreamOptions, progress: SoundProgress
    ) -> None:
        xp, settings, seed = module(options.device), options.settings, options.seed
        noise = options.hints.noise if options.hints else None
        self._noise: list[Reals | None] | None = None
        if noise is not None:
            self._noise = noise_spectra(noise, rate, weights.dictionary, settings, seed)
        self._rate, self._weights, self._settings = rate, weights.to_module(xp), settings
        self._narrow: Weights | None = None
        self._models_components = models_components(settings) and noise is None
        self._seed, self._xp, self._jobs = seed, xp, options.jobs
        self._progress = progress
        self._together = xp is not np
        self._threads = self._pool()
        self._waiting: list[tuple[Piece, Weights]] = []
        self._pending: deque[_Pending] = deque()
        self._ready: deque[list[ChannelEstimate]] = deque()
        self._count = 0
        self._process: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        self._check_process()
        pending = [
            (places, [future.result() for future in futures], tasks)
            for places, futures, tasks in self._pending
        ]
        changed = {"_pending": pending, "_xp": self._xp.__name__}
        return {**self.__dict__, **changed, "_threads": None, "_process": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._xp = np if state["_xp"] == "numpy" else module("cuda")
        self._pending = deque(
            _Pending(places, [_done(each) for each in results], tasks)
            for places, results, tasks in state["_pending"]
        )
        self._threads = self._pool()

    def _pool(self) -> ThreadPoolExecutor | None:
        return ThreadPoolExecutor(self._jobs) if self._jobs > 1 and not self._together else None

    def submit(self, piece: Piece) -> None:
        """Start to estimate a piece: immediately, in threads, or once a GPU batch is full."""
        if self._together:
            self._waiting.append((piece, self._weights_for([*piece.audio.T])))
        else:
            self._pending.append(self._begin(piece))

    def _begin(self, piece: Piece) -> _Pending:
        """Start the tasks that estimate a piece, and return their futures."""
        places, sounds = _different([piece])
        noises, weights = self._noises(places), self._weights_for(sounds)
        number, seconds = self._number(1), piece.step / self._rate / len(sounds)
        # This task needs all channels. It starts first, because the other tasks wait for it.
        late = None
        if self._settings.dereverb:
            late = self._start(partial(self._late, weights, sounds))
        if len(sounds) > 1 and self._models_components:
            task = partial(self._estimate_groups, weights, late, sounds, number, seconds)
            return _Pending(places, [self._start(task)], tasks=1)
        samplings = [
            partial(self._sample, weights, [sound], number, seconds, k, [noise], late)
            for k, (sound, noise) in enumerate(zip(sounds, noises, strict=True))
        ]
        if self._settings.channels == "separate":
            futures = [self._start(partial(self._finish, weights, task)) for task in samplings]
        else:
            # The task that starts last does the rest, when the others are about to end.
            *earlier, last = samplings
            others = [self._start(task) for task in earlier]
            futures = [self._start(partial(self._finish, weights, last, others))]
        return _Pending(places, futures, tasks=len(sounds))

    def next_estimates(self, *, last: bool = False) -> list[ChannelEstimate] | None:
        """Return the next piece's estimates, one per channel, or None; `last`: no piece follows."""
        if self._together:
            if not self._ready and self._waiting and (last or len(self._waiting) == self._jobs):
                self._batch()
            return self._ready.popleft() if self._ready else None
        # Pieces in progress need memory: there are no more tasks than jobs.
        many = sum(each.tasks for each in self._pending) >= self._jobs
        if not self._pending or not (many or last):
            return None
        self._check_process()
        return self._pending.popleft().channels()

    def close(self) -> None:
        """Stop the work in progress."""
        self._progress.stopped = True
        if self._threads is not None and self._process in (None, os.getpid()):
            self._threads.shutdown(cancel_futures=True)

    def _number(self, count: int) -> int:
        """Reserve numbers of random streams for the next `count` pieces, and return the first."""
        first, self._count = self._count, self._count + count
        return first

    def _start(self, task: Callable[[], T]) -> Future[T]:
        if self._threads is None:
            return _done(task())
        self._check_process()
        self._process = os.getpid()
        return self._threads.submit(task)

    def _check_process(self) -> None:
        """Raise an AlphaMFError if the threads belong to another process."""
        if self._process not in (None, os.getpid()):
            raise AlphaMFError(
                "the stream's threads belong to the process that this one was forked from; "
                "create the stream after the fork, or use jobs=1"
            )

    def _noises(self, places: Sequence[int]) -> list[Reals | None]:
        """Return each sound's known noise spectra: those of the first channel with that sound."""
        known = self._noise
        if known is None:
            return [None] * len(set(places))
        return [known[places.index(k) % len(known)] for k in range(len(set(places)))]

    def _weights_for(self, sounds: Sequence[Floats]) -> Weights:
        """Return the weights for a piece's sounds; for phone calls they may be those for 8 kHz."""
        # The known noise spectra cover the dictionary's whole band.
        wide = not self._weights.narrow or self._noise is not None
        if wide or not high_bands.is_narrow(sounds, self._rate):
            return self._weights
        if self._narrow is None:
            self._narrow = self._weights.for_narrow_sound().to_module(self._xp)
        return self._narrow

    def _late(self, weights: Weights, sounds: Sequence[Floats]) -> list[Late]:
        """Return the late reverberation of the different sounds of a piece."""
        edge = BAND_TOP[1] * weights.dictionary.rate / 2
        return late_reverberation(sounds, self._rate, edge)

    def _lates(
        self, weights: Weights, sounds: Sequence[Floats], pieces: Sequence[Sequence[int]]
    ) -> list[Late]:
        """Return the late reverberation of sounds; `pieces`: places of each piece's channels."""
        found: dict[int, Late] = {}
        for places in pieces:
            used = sorted(set(places))
            found |= zip(used, self._late(weights, [sounds[k] for k in used]), strict=True)
        return [found[k] for k in range(len(sounds))]

    def _sample(
        self,
        weights: Weights,
        sounds: Sequence[Floats],
        number: int,
        seconds: float,
        place: int,
        noises: Sequence[Reals | None],
        late: Future[list[Late]] | None = None,
        settings: Settings | None = None,
    ) -> list[SegmentPosterior]:
        """Sample the gains of sounds of equal length, shape (samples,) each.

        `late`: late reverberation of a piece's or batch's sounds; `sounds`: those from `place` on.
        """
        settings = settings or self._settings
        progress = partial(self._progress.advance, (number, place), seconds / settings.steps)
        stream = self._seed, number

        def sample(given: Sequence[Floats]) -> list[SegmentPosterior]:
            return sample_gains(
                given, self._rate, weights, settings, stream, self._xp, progress, noises
            )

        if late is None:
            return sample(sounds)
        wholes, near = list(sounds), list(sounds)
        echoes = late.result()[place : place + len(sounds)]
        for k, each in enumerate(echoes):
            if each.share:
                wholes[k] = sounds[k] - each.above
                near[k] = wholes[k] - each.below
        found = sample(near)
        for k, each in enumerate(echoes):
            if each.share:
                whole = Spectra(wholes[k] * found[k].scale, self._rate)
                share = self._settings.dereverb * each.share
                found[k] = found[k]._replace(with_echo=whole, dereverb=share)
        return found

    def _finish(
        self,
        weights: Weights,
        sampling: Callable[[], list[SegmentPosterior]],
        others: Sequence[Future[list[SegmentPosterior]]] = (),
    ) -> list[ChannelEstimate]:
        """Sample the last of some channels, and estimate the speech in all of them."""
        last = sampling()
        channels = [*(one for other in others for one in other.result()), *last]
        return estimate_speech(channels, weights, self._settings, self._xp)

    def _estimate_groups(
        self,
        weights: Weights,
        late: Future[list[Late]] | None,
        sounds: Sequence[Floats],
        number: int,
        seconds: float,
    ) -> list[ChannelEstimate]:
        """Estimate the speech of a piece; sample channels that share a voice together."""
        settings, xp = self._settings, self._xp
        noises = [None] * len(sounds)
        first = self._sample(weights, sounds, number, 0, 0, noises, late, FIRST)
        step = len(sounds) * seconds / settings.steps
        progress = partial(self._progress.advance, (number, 0), step)
        stream = self._seed, number
        channels, groups = sample_groups(first, weights, settings, stream, xp, progress)
        return estimate_speech(channels, weights, settings, xp, groups)

    def _batch(self) -> None:
        """Estimate the first waiting pieces of equal length and weights, as a batch if possible."""
        _, group = next(groupby(self._waiting, key=lambda each: (len(each[0].audio), id(each[1]))))
        pieces, (weights, *_) = zip(*group, strict=True)
        del self._waiting[: len(pieces)]
        if self._models_components and pieces[0].audio.shape[1] > 1:
            self._ready.extend(self._begin(piece).channels() for piece in pieces)
            return
        places, sounds = _different(pieces)
        seconds = sum(piece.step for piece in pieces) / self._rate
        noises = self._noises(places)
        channels = len(places) // len(pieces)
        every = [places[k * channels : (k + 1) * channels] for k in range(len(pieces))]
        late = _done(self._lates(weights, sounds, every)) if self._settings.dereverb else None
        number = self._number(len(pieces))
        found = self._sample(weights, sounds, number, seconds, 0, noises, late)
        for own in every:
            used = sorted(set(own))
            segment = [found[place] for place in used]
            estimates = estimate_speech(segment, weights, self._settings, self._xp)
            self._ready.append([estimates[used.index(place)] for place in own])


def _different(pieces: Sequence[Piece]) -> tuple[list[int], list[Floats]]:
    """Return the index of each channel's sound, and the distinct sounds, shape (samples,) each."""
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
