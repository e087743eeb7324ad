"""Trim the sound before the first and after the last speech."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import numpy as np

from alphamf.audio.stft import Frame
from alphamf.denoising.segments import Segment
from alphamf.denoising.uncertainty import speech_ranges
from alphamf.tools.arrays import Floats
from alphamf.tools.files import system_errors, temporary_place

MARGIN = 0.2
"""Seconds that are kept before and after the speech."""

AGAIN = 1.0
"""Seconds of activity that are examined again with the next segment, which can extend speech that
ended less than a pause ago. They cover the margin, a pause and the shortest speech."""

IN_MEMORY = 1 << 26
"""Maximum number of bytes that are held back in memory; more are written to a temporary file."""

BLOCK = 1 << 18
"""Maximum number of samples per channel that are yielded at a time."""


class Trimmer:
    """Buffer that holds sound back until speech follows; use it as a context manager.

    `frame`: window and hop of the activity, in samples.
    """

    def __init__(self, rate: int, frame: Frame) -> None:
        self._rate, self._hop = rate, frame.hop_length
        self._held = tempfile.SpooledTemporaryFile(IN_MEMORY)
        self._channels = 1
        self._activity: Floats = np.empty(0, np.float32)
        self._frames = 0
        self._taken = self._given = 0
        self.found: bool = False
        self.first: int = 0
        self.last: int = 0

    def __enter__(self) -> Trimmer:
        return self

    def __exit__(self, *error: object) -> None:
        self._held.close()

    def add(self, segment: Segment) -> Iterator[Floats]:
        """Add a segment, and yield the blocks that will certainly be kept."""
        self._channels = segment.audio.shape[1]
        with system_errors(f"no space in {temporary_place()} for silence"):
            self._held.write(np.ascontiguousarray(segment.audio, "<f4").tobytes())
        self._taken += len(segment.audio)
        yield from self._kept(segment.activity)

    def finish(self) -> Iterator[Floats]:
        """Yield all sound if no speech was found; set `last` to the end of the kept sound."""
        if not self.found:
            yield from self._until(0, self._taken)
        self.last = self._given

    def _kept(self, activity: Floats) -> Iterator[Floats]:
        self._frames += len(activity)
        activity = np.concatenate([self._activity, activity])
        self._activity = activity[-round(AGAIN * self._rate / self._hop) :]
        # Two frames of silence from the start on, by which all have the same length to the bit.
        frames = np.r_[0, 1, self._frames - len(activity) : self._frames]
        found = speech_ranges(np.r_[0, 0, activity], frames * (self._hop / self._rate))
        if not found:
            return
        margin = round(MARGIN * self._rate)
        if not self.found:
            self.found = True
            self.first = max(0, round(found[0].start * self._rate) - margin)
            self._given = self.first
        end = min(self._taken, round(found[-1].end * self._rate) + margin)
        yield from self._until(self._given, end)

    def _until(self, start: int, end: int) -> Iterator[Floats]:
        """Yield the samples from `start` to `end`, then free the memory of all before `end`."""
        if start >= end:
            return
        each = 4 * self._channels
        before = self._taken - self._held.tell() // each
        while start < end:
            size = min(BLOCK, end - start)
            self._held.seek((start - before) * each)
            block = np.frombuffer(self._held.read(size * each), "<f4")
            yield block.reshape(-1, self._channels)
            start += size
            self._given = start
        self._forget(before, each)

    def _forget(self, before: int, each: int) -> None:
        """Drop the samples already yielded, so that long speech needs no extra memory."""
        self._held.seek((self._given - before) * each)
        left = self._held.read((self._taken - self._given) * each)
        self._held.close()
        self._held = tempfile.SpooledTemporaryFile(IN_MEMORY)
        self._held.write(left)
