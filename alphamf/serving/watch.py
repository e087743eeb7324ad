"""Observe the denoising of a recording: keep the speech, draw it, describe the noise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from alphamf.audio.reader import Recording
from alphamf.audio.stft import Frame
from alphamf.denoising.segments import Segment
from alphamf.serving.noise import NoiseDescription
from alphamf.serving.picture import Band, Picture
from alphamf.serving.sound import BAND, SPEECH, SPEECH_PICTURE
from alphamf.tools.arrays import Floats


class Watch:
    """Observes the denoising of a recording: keeps the speech, and draws it.

    Parameters
    ----------
    folder
        Where.
    stack
        Closes the files.
    """

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._speech, drawing, self._levels = (
            stack.enter_context((folder / name).open("wb"))
            for name in (SPEECH, SPEECH_PICTURE, BAND)
        )
        self._drawing = drawing
        self.segments: list[int] = []

    def begin(self, reader: Recording, frame: Frame, stack: ExitStack, mode: int) -> Watch:
        """Return this, for the recording that is read."""
        self._picture = Picture(reader.frames, reader.rate, self._drawing)
        self._band = Band(reader.frames, frame, self._levels)
        self.noise: NoiseDescription = NoiseDescription(reader.rate)
        return self

    def watch(self, blocks: Iterable[Floats]) -> Iterator[Floats]:
        """Pass the input on."""
        yield from blocks

    def add(self, segment: Segment) -> None:
        """Take in a segment of the output."""
        self._picture.add(segment.audio)
        self._band.add(segment.audio + segment.noise, segment.gain, segment.gain_std)
        self.noise.add(segment.audio, segment.noise)
        self._speech.write(segment.audio.tobytes())
        self._speech.flush()
        self.segments.append(len(segment.audio))

    def finish(self) -> Mapping[str, Any] | None:
        """Draw the end."""
        self._picture.finish()
        self._band.finish()
        return None
