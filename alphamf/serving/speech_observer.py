"""Observe the denoising of a recording: keep the speech, and draw it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from alphamf.audio.reader import Recording
from alphamf.audio.stft import Frame
from alphamf.denoising.segments import Segment
from alphamf.serving.picture import Band, SoundPicture
from alphamf.serving.sound import BAND, SPEECH, SPEECH_PICTURE, SoundShape, write
from alphamf.serving.store import check_room
from alphamf.tools.arrays import Floats


class SpeechObserver:
    """Observer that saves the speech of a recording, and draws it."""

    def __init__(self, folder: Path, stack: ExitStack, spare: int) -> None:
        self._folder, self._spare = folder, spare
        self._speech, drawing, self._levels = (
            stack.enter_context((folder / name).open("wb"))
            for name in (SPEECH, SPEECH_PICTURE, BAND)
        )
        self._drawing = drawing
        self.segments: list[int] = []

    def begin(self, reader: Recording, frame: Frame, stack: ExitStack, mode: int) -> SpeechObserver:
        """Open the files for a recording, and return this observer."""
        self._sound = SoundShape(reader.rate, reader.channels, reader.frames)
        self._picture = SoundPicture(reader.frames, reader.rate, self._drawing)
        self._band = Band(reader.frames, frame, self._levels)
        return self

    def watch(self, blocks: Iterable[Floats]) -> Iterator[Floats]:
        """Return the input unchanged."""
        yield from blocks

    def add(self, segment: Segment) -> None:
        """Write the next segment of the output, and draw it."""
        check_room(self._folder, 2 * segment.audio.nbytes, self._spare)
        self._picture.add(segment.audio)
        self._band.add(segment.audio + segment.noise, segment.gain, segment.gain_std)
        write(self._speech, self._sound, sum(self.segments), segment.audio)
        self._speech.flush()
        self.segments.append(len(segment.audio))

    def finish(self) -> Mapping[str, Any] | None:
        """Draw the remaining columns."""
        self._picture.finish()
        self._band.finish()
        return None
