"""Tasks for a worker process of the server: read a recording, denoise it, write downloads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from alphamf.audio.live_input import Recording
from alphamf.audio.reader import CHANNELS, open_reader
from alphamf.audio.stft import Frame
from alphamf.batch.file import process
from alphamf.batch.inputs import Job
from alphamf.batch.request import Request
from alphamf.denoising.api import denoise_stream
from alphamf.denoising.choices import PresetName
from alphamf.denoising.segments import Segment
from alphamf.denoising.settings import PRESETS
from alphamf.denoising.stream_options import StreamOptions
from alphamf.errors import AlphaMFError
from alphamf.serving.limits import check_room
from alphamf.serving.picture import Band, SoundPicture
from alphamf.serving.render import (
    BAND,
    ECHO_FREE,
    INPUT_PICTURE,
    SOUND,
    SOURCE,
    SPEECH,
    SPEECH_PICTURE,
    RenderTask,
    SoundShape,
    preview_name,
    samples,
    write,
)
from alphamf.tools.arrays import Floats
from alphamf.tools.files import atomic_file
from alphamf.tools.outcomes import Update

PREVIEW_SECONDS = 10
PREVIEW_PRESET: PresetName = "fast"


@dataclass(frozen=True)
class ReadTask:
    """A task that decodes an upload and draws its picture."""

    folder: Path  # Folder of the recording
    samples: int  # Maximum number of samples over all channels
    spare: int  # As in `Limits`

    def run(self, update: Update | None) -> dict[str, Any]:
        """Decode and draw the file; return format, subtype, rate, channels, frames and duration."""
        source = self.folder / SOURCE
        limits: dict[str, Any] = {"max_channels": CHANNELS, "limit": self._check_length}
        with open_reader(source, **limits) as reader, ExitStack() as st:
            check_room(self.folder, 2 * 4 * reader.frames * reader.channels, self.spare)
            sound = SoundShape(reader.rate, reader.channels, reader.frames)
            file = st.enter_context((self.folder / SOUND).open("wb"))
            drawing = st.enter_context((self.folder / INPUT_PICTURE).open("wb"))
            picture = SoundPicture(reader.frames, reader.rate, drawing)
            place = 0
            for block in reader.blocks():
                write(file, sound, place, block)
                picture.add(block)
                place += len(block)
            picture.finish()
            facts = "format", "subtype", "rate", "channels", "frames", "duration"
            return {name: getattr(reader, name) for name in facts}

    def _check_length(self, rate: int, channels: int, frames: int) -> None:
        """Raise an AlphaMFError if a recording, by its header or as decoded so far, is too long."""
        if frames * channels > self.samples:
            longest = self.samples / channels / rate / 60
            raise AlphaMFError(
                f"{SOURCE} lasts longer than {longest:.0f} minutes, the most that the page accepts "
                "at this rate and number of channels; use `alphamf denoise` instead"
            )


@dataclass(frozen=True)
class PreviewTask:
    """A task that denoises up to ten seconds, to be played before the whole recording is ready."""

    # folder, sound: folder of the recording, and shape of its sound.
    folder: Path
    sound: SoundShape
    start: int  # First sample
    # seed, jobs: as for `alphamf.denoise`.
    seed: int
    jobs: int
    spare: int  # As in `Limits`

    def run(self, update: Update | None) -> dict[str, Any]:
        """Denoise the preview; return its first sample and its number of samples."""
        rate, channels, frames = self.sound
        count = min(PREVIEW_SECONDS * rate, frames - self.start)
        audio = samples(self.folder / SOUND, self.sound, self.start, count)
        check_room(self.folder, audio.nbytes, self.spare)
        segments = denoise_stream([audio], rate, PREVIEW_PRESET, seed=self.seed, jobs=self.jobs)
        speech = np.concatenate([segment.audio for segment in segments])
        with atomic_file(self.folder / preview_name(self.start)) as part:
            with part.open("wb") as file:
                write(file, SoundShape(rate, channels, count), 0, speech)
        return {"start": self.start, "frames": count}


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
        """Prepare the pictures of a recording, and return this observer."""
        self._sound = SoundShape(reader.rate, reader.channels, reader.frames)
        self._picture = SoundPicture(reader.frames, reader.rate, self._drawing)
        self._band = Band(reader.frames, frame, self._levels)
        return self

    def watch(self, blocks: Iterable[Floats]) -> Iterator[Floats]:
        """Yield the blocks of the input unchanged."""
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
        """Draw the remaining columns; there are no scores to return."""
        self._picture.finish()
        self._band.finish()
        return None


@dataclass(frozen=True)
class DenoiseTask:
    """A task that denoises a recording in the same way as ``alphamf denoise``."""

    folder: Path  # Folder of the recording
    # preset: as in `Request`. seed, jobs: as in its `StreamOptions`.
    preset: str
    seed: int
    jobs: int
    spare: int  # As in `Limits`
    # Whether the echo is removed, too; the results are then in the folder `ECHO_FREE`.
    echo_free: bool = False

    def run(self, update: Update | None) -> dict[str, Any]:
        """Denoise; return the report of `process` with the number of samples of each segment."""
        settings, target = PRESETS[self.preset], self.folder
        if self.echo_free:
            settings, target = replace(settings, dereverb=1.0), target / ECHO_FREE
            target.mkdir(exist_ok=True)
        with ExitStack() as stack:
            watch = SpeechObserver(target, stack, self.spare)
            request = Request(
                StreamOptions(settings, seed=self.seed, jobs=self.jobs),
                observe=watch.begin,
                preset=self.preset,
                overwrite=True,
            )
            job = Job(str(self.folder / SOURCE), str(target / "result"), derived=True)
            report = process(job, update, request)
        return {**report, "segments": watch.segments}


Task = ReadTask | PreviewTask | DenoiseTask | RenderTask


def work(task: Task, update: Update | None) -> Any:
    """Run a task and return its result; the worker processes call this function."""
    return task.run(update)
