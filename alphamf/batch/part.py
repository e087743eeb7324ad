"""Denoise a part of a recording and leave the rest unchanged."""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from alphamf.audio.live_input import Recording
from alphamf.audio.stft import Frame, frame_count
from alphamf.denoising.segments import Segment
from alphamf.denoising.stream_options import Samples
from alphamf.errors import AlphaMFError
from alphamf.tools.arrays import Floats

FADE = 0.02
"""Length of the fades at both ends of the denoised part, in seconds; both lie within it."""


class Part(NamedTuple):
    """A part of a recording, from `start` to `end` in seconds (None: to the recording's end)."""

    start: float = 0.0
    end: float | None = None


class _Input:
    """Blocks of a recording, which can be read up to a given sample."""

    def __init__(self, blocks: Iterable[Samples]) -> None:
        self._blocks = iter(blocks)
        self._held: Samples | None = None
        self.position: int = 0

    def more(self) -> bool:
        """Return whether there are more samples."""
        while self._held is None or not len(self._held):
            self._held = next(self._blocks, None)
            if self._held is None:
                return False
        return True

    def until(self, end: float) -> Iterator[Samples]:
        """Yield the next blocks, up to but without the sample number `end`."""
        while self.position < end and self.more() and self._held is not None:
            count = int(min(len(self._held), end - self.position))
            block, self._held = self._held[:count], self._held[count:]
            self.position += count
            yield block


class _Faded:
    """Mixer that fades the denoised segments of a part into the input, which it buffers."""

    def __init__(self, lead: int, fade: int, *, at_start: bool) -> None:
        self._lead, self._fade = lead, fade if at_start else 0
        self._kept: deque[Samples] = deque()
        self._length = fade
        self._position = 0

    def keep(self, blocks: Iterable[Samples]) -> Iterator[Samples]:
        """Buffer the blocks of the input, and yield them unchanged."""
        for block in blocks:
            self._kept.append(block)
            yield block

    def segment(self, segment: Segment, *, at_end: bool) -> Segment:
        """Return the next segment with fades; `at_end`: it is the last, and more sound follows."""
        count = len(segment.audio)
        given = self._given(count)
        place = np.arange(self._position, self._position + count, dtype=np.float64)
        weight = np.ones(count)
        if self._lead + self._fade:
            rise = (place - self._lead + 0.5) / max(self._fade, 1)
            weight = np.where(place < self._lead, 0, np.clip(rise, 0, 1) if self._fade else 1)
        if at_end:
            weight *= np.clip((count - 0.5 - np.arange(count)) / min(self._length, count), 0, 1)
        self._position += count
        column = weight[:, None]
        mixed = np.where(column == 1, segment.audio, given + column * (segment.audio - given))
        mixed = mixed.astype(given.dtype)  # which encoders of media files expect
        noise: Floats = (column * segment.noise).astype(np.float32)
        return segment._replace(audio=np.where(column == 0, given, mixed), noise=noise)

    def _given(self, count: int) -> Samples:
        """Remove the next `count` samples from the buffered input, and return them."""
        parts = []
        while count:
            block = self._kept.popleft()
            if len(block) > count:
                self._kept.appendleft(block[count:])
                block = block[:count]
            parts.append(block)
            count -= len(block)
        return np.concatenate(parts)


def copied(
    blocks: Iterable[Samples], denoised: Callable[[Iterable[Any]], Iterator[Segment]]
) -> Iterator[Segment]:
    """Yield the segments of `denoised` with the input's samples, to the bit, and zero noise."""
    faded = _Faded(sys.maxsize, 1, at_start=False)
    for segment in denoised(faded.keep(blocks)):
        yield faded.segment(segment, at_end=False)


def denoise_part(
    blocks: Iterable[Samples],
    recording: Recording,
    part: Part,
    frame: Frame,
    denoised: Callable[[Iterable[Any]], Iterator[Segment]],
) -> Iterator[Segment]:
    """Yield segments, denoised in `part` only; raise an AlphaMFError if the part has no samples.

    `blocks`: blocks of the recording, shape (samples, channels). `frame`: window and hop of the
    gain, in samples of the recording.
    """
    rate, hop, bins = recording.rate, frame.hop_length, frame.n_fft // 2 + 1
    start = round(part.start * rate)
    end = np.inf if part.end is None else round(part.end * rate)
    if end <= start:
        raise AlphaMFError(f"{recording.name} has no samples between `start` and `end`")
    aligned = first_sample(part, rate, frame)
    source = _Input(blocks)
    known = recording.frames or np.inf  # unknown for a pipe
    for block in source.until(aligned if start < known else np.inf):
        first = source.position - len(block)
        yield _left(block, _between(first, source.position, hop), bins)
    kept = _Faded(start - aligned, max(1, round(FADE * rate)), at_start=start > 0)
    waiting: Segment | None = None
    if not source.more():
        raise AlphaMFError(
            f"{recording.name} ends at {source.position / rate:.2f} s, which is before `start`"
        )
    for segment in denoised(kept.keep(source.until(end))):
        if waiting is not None:
            yield kept.segment(waiting, at_end=False)
        waiting = segment
    if waiting is not None:
        yield kept.segment(waiting, at_end=source.more())
    frames = frame_count(source.position, frame)
    for block in source.until(np.inf):
        before, frames = frames, frame_count(source.position, frame)
        yield _left(block, frames - before, bins)


def first_sample(part: Part, rate: int, frame: Frame) -> int:
    """Return the sample where denoising starts, aligned to the frames of the whole recording."""
    return round(part.start * rate) // frame.hop_length * frame.hop_length


def _between(start: int, end: int, hop: int) -> int:
    """Return how many frames are centred on a sample from `start` on and before `end`."""
    return -(-end // hop) - -(-start // hop)


def _left(block: Samples, frames: int, bins: int) -> Segment:
    """Return a segment of unchanged sound, with zero noise and a gain of 1 in all frames."""
    shape = block.shape[1], bins, frames
    return Segment(
        audio=block,
        noise=np.zeros(block.shape, np.float32),
        gain=np.ones(shape, np.float32),
        gain_std=np.zeros(shape, np.float32),
        acceptance=[],
        activity=np.zeros(frames, np.float32),
    )
