"""Denoising at 40 ms of latency: hop by hop, by the engine in C (`alphamf.native.engine`).

``native/engine.c`` explains the steps. Link 6 of the chain of gains (`gain`) is applied here.
"""

from __future__ import annotations

import logging
from collections import deque

import numpy as np

from alphamf.denoising.gain import least_gain, mix_dry
from alphamf.denoising.segments import Segment
from alphamf.denoising.settings import Settings
from alphamf.denoising.stream_options import SoundProgress, StreamOptions
from alphamf.denoising.weights import Weights, find_online
from alphamf.native.engine import Engine
from alphamf.tools.arrays import Floats

_LOGGER = logging.getLogger(__name__)


class LowLatency:
    """Denoises sound in blocks of any size at low latency."""

    def __init__(
        self,
        rate: int,
        channels: int,
        weights: Weights,
        settings: Settings,
        seed: int,
    ) -> None:
        self._engine = Engine(
            rate,
            channels,
            weights.dictionary,
            weights.online,
            linked=settings.channels == "linked",
            least=float(least_gain(settings)),
            seed=seed,
        )
        self.latency: int = self._engine.latency
        self.channels: int = channels
        self._settings, self._was_reset = settings, False
        self._waiting = np.empty((0, channels), np.float32)
        self._delayed = np.empty((0, channels), np.float32)

    def push(self, block: Floats) -> Segment:
        """Process samples, shape (samples, channels), and return the output that is ready."""
        self._delayed = np.concatenate([self._delayed, block])
        return self._ready(block)

    def finish(self) -> Segment:
        """End the recording and return the output that is still held back."""
        left = len(self._delayed)
        silence = np.zeros((self.latency + self._engine.hop, self.channels), np.float32)
        return self._ready(silence, left)

    def _ready(self, block: Floats, most: int | None = None) -> Segment:
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
        """Return why the engine reset itself, the first time."""
        reason = self._engine.reset_reason
        if reason is None or self._was_reset:
            return None
        self._was_reset = True
        note = f"low-latency processing was reset because {reason}"
        _LOGGER.warning(note)
        return note


class FrameDenoiser:
    """Denoises a stream at low latency; the methods are those of `segments.SegmentDenoiser`."""

    def __init__(
        self, rate: int, channels: int, options: StreamOptions, progress: SoundProgress
    ) -> None:
        weights = find_online(rate, options.model, refine=options.settings.refine)
        self._given = weights, options.settings, options.seed
        self._low = LowLatency(rate, channels, *self._given)
        self.latency: int = self._low.latency
        self._rate, self._progress = rate, progress
        self._blocks: deque[Floats] = deque()
        self._finished = False

    def push(self, block: Floats) -> None:
        """Add a block, shape (samples, channels)."""
        if block.shape[1] != self._low.channels:  # the first one of a stream that was not told
            self._low = LowLatency(self._rate, block.shape[1], *self._given)
        self._blocks.append(block)

    def next(self, *, ended: bool) -> Segment | None:
        """Return the output for the next block, or None; `ended` means that no block follows."""
        if self._blocks:
            segment = self._low.push(self._blocks.popleft())
        elif ended and not self._finished:
            self._finished = True
            segment = self._low.finish()
        else:
            return None
        self._progress.add(len(segment.audio) / self._rate)
        return segment

    def close(self) -> None:
        """Stop the work in progress."""
        self._progress.stopped = True
