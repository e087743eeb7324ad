"""What a worker process does for the server: look at a recording, denoise it, write downloads.

The files of a recording lie in a folder of their own under fixed names; its own name is data.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from alphamf.audio.inputs import Job
from alphamf.audio.reader import CHANNELS, Reader, open_reader
from alphamf.audio.stft import Frame
from alphamf.denoising.api import PRESETS, denoise_stream
from alphamf.denoising.file import process
from alphamf.denoising.gain import with_dry
from alphamf.denoising.request import Request
from alphamf.denoising.settings import Settings
from alphamf.denoising.stream import Segment
from alphamf.errors import AlphaMFError
from alphamf.serving.noise import NoiseDescription
from alphamf.serving.picture import Band, Picture
from alphamf.tools.arrays import Floats
from alphamf.tools.files import atomic
from alphamf.tools.work import Update

SOURCE, SOUND, SPEECH = "source", "input.f32", "speech.f32"
"""The upload; its samples and those of the speech, float32, shape (samples, channels)."""

INPUT_PICTURE, SPEECH_PICTURE, BAND = "input.picture", "speech.picture", "band.picture"

PREVIEW_SECONDS = 10
PREVIEW_PRESET = "fast"


class Sound(NamedTuple):
    """Rate in Hz, channels, and samples per channel of a recording."""

    rate: int
    channels: int
    frames: int


@dataclass(frozen=True)
class Look:
    """Decode an upload and draw it.

    Attributes
    ----------
    folder
        Of the recording.
    samples
        Most samples over all channels.
    """

    folder: Path
    samples: int

    def run(self, update: Update | None) -> dict[str, Any]:
        """Return format, subtype, rate, channels, frames and duration."""
        with open_reader(self.folder / SOURCE, max_channels=CHANNELS) as reader, ExitStack() as st:
            size = reader.frames * reader.channels
            if size > self.samples:
                longest = self.samples / reader.channels / reader.rate / 60
                raise AlphaMFError(
                    f"{reader.name} lasts {reader.duration / 60:.0f} minutes, and of this rate and "
                    f"number of channels {longest:.0f} are taken: `alphamf denoise` takes any"
                )
            self._check_disk(2 * 4 * size)
            sound = st.enter_context((self.folder / SOUND).open("wb"))
            drawing = st.enter_context((self.folder / INPUT_PICTURE).open("wb"))
            picture = Picture(reader.frames, reader.rate, drawing)
            for block in reader.blocks():
                sound.write(block.tobytes())
                picture.add(block)
            picture.finish()
            return {
                "format": reader.format,
                "subtype": reader.subtype,
                "rate": reader.rate,
                "channels": reader.channels,
                "frames": reader.frames,
                "duration": reader.duration,
            }

    def _check_disk(self, size: int) -> None:
        if shutil.disk_usage(self.folder).free < size:
            raise AlphaMFError("the server's disk has no room for the result")


@dataclass(frozen=True)
class Preview:
    """Denoise ten seconds, to be heard before the whole is done.

    Attributes
    ----------
    folder, sound
        Of the recording.
    start
        First sample.
    seed, jobs
        As for `alphamf.denoise`.
    """

    folder: Path
    sound: Sound
    start: int
    seed: int
    jobs: int

    def run(self, update: Update | None) -> dict[str, Any]:
        """Return the first sample and the number of samples."""
        rate, channels, frames = self.sound
        count = min(PREVIEW_SECONDS * rate, frames - self.start)
        audio = samples(self.folder / SOUND, channels, self.start, count)
        segments = denoise_stream(
            [audio], rate, PRESETS[PREVIEW_PRESET], seed=self.seed, jobs=self.jobs
        )
        speech = np.concatenate([segment.audio for segment in segments])
        with atomic(self.folder / preview_name(self.start)) as part:
            part.write_bytes(speech.tobytes())
        return {"start": self.start, "frames": count}


@dataclass(frozen=True)
class Whole:
    """Denoise a recording as ``alphamf denoise`` does.

    Attributes
    ----------
    folder
        Of the recording.
    preset, seed, jobs
        As in `Request`.
    """

    folder: Path
    preset: str
    seed: int
    jobs: int

    def run(self, update: Update | None) -> dict[str, Any]:
        """Return the report of `process`, the noise in words, and samples of each segment."""
        with ExitStack() as stack:
            watch = _Watch(self.folder, stack)
            request = Request(
                settings=PRESETS[self.preset],
                observe=watch.begin,
                preset=self.preset,
                seed=self.seed,
                jobs=self.jobs,
                overwrite=True,
            )
            job = Job(str(self.folder / SOURCE), str(self.folder / "result"), derived=True)
            report = process(job, update, request)
        return {**report, "noise": watch.noise.sentence(), "segments": watch.segments}


class _Watch:
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

    def begin(self, reader: Reader, frame: Frame, stack: ExitStack, mode: int) -> _Watch:
        """Return this, for the recording that is read."""
        self._picture = Picture(reader.frames, reader.rate, self._drawing)
        self._band = Band(reader.frames, frame, self._levels)
        self.noise = NoiseDescription(reader.rate)
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


@dataclass(frozen=True)
class Render:
    """Write a download: the speech with a part of the input, or in another format.

    It is written as ``alphamf denoise`` writes it, but with the speech that is known already.

    Attributes
    ----------
    folder
        Of the recording.
    output
        Name of the file in the folder; its ending chooses the format where `derived` is false.
    derived
        Whether the file has the input's format.
    dry
        Part of the input, from 0 to 1; as `Settings.dry`.
    segments
        Samples of each segment, which are written at a time: some encoders depend on it.
    """

    folder: Path
    output: str
    derived: bool
    dry: float
    segments: tuple[int, ...]

    def run(self, update: Update | None) -> str:
        """Write the file, and return where it is."""
        request = Request(
            settings=replace(PRESETS[PREVIEW_PRESET], dry=self.dry),
            observe=lambda *_: _Nobody(),
            overwrite=True,
            estimate=self._mixed,
        )
        job = Job(str(self.folder / SOURCE), str(self.folder / self.output), derived=self.derived)
        return str(process(job, None, request)["output"])

    def _mixed(
        self, blocks: Iterable[Floats], rate: int, settings: Settings, **_: Any
    ) -> Iterator[Segment]:
        """Yield segments of the speech with a part of the input."""
        place, left, held = 0, iter(blocks), np.empty((0, 0), np.float32)
        for length in self.segments:
            parts = [held] if held.size else []
            while sum(map(len, parts)) < length:
                parts.append(next(left))
            audio = np.concatenate(parts)
            audio, held = audio[:length], audio[length:]
            speech = samples(self.folder / SPEECH, audio.shape[1], place, length)
            none = np.empty((audio.shape[1], 0, 0), np.float32)
            yield Segment(with_dry(audio, speech, settings), audio - speech, none, none, [0.0])
            place += length
        for _block in left:  # the reader compares the whole with what it has checked
            raise AlphaMFError("the recording is longer than what was denoised")


class _Nobody:
    """Observes nothing."""

    def watch(self, blocks: Iterable[Floats]) -> Iterator[Floats]:
        """Pass the input on."""
        yield from blocks

    def add(self, segment: Segment) -> None:
        """Do nothing."""

    def finish(self) -> None:
        """Return no scores."""


Task = Look | Preview | Whole | Render


def work(task: Task, update: Update | None) -> Any:
    """Do a task; what a worker process calls."""
    return task.run(update)


def preview_name(start: int) -> str:
    """Return the file of the preview from sample `start` on."""
    return f"preview-{start}.f32"


def samples(path: Path, channels: int, start: int, count: int) -> Floats:
    """Return samples of a file of float32, shape (samples, channels), as far as they are there."""
    with path.open("rb") as file:
        file.seek(start * channels * 4)
        data = file.read(count * channels * 4)
    whole = len(data) // (4 * channels) * channels
    return np.frombuffer(data, "<f4", whole).reshape(-1, channels)


def held(path: Path, channels: int) -> int:
    """Return how many samples per channel such a file holds so far."""
    try:
        return os.stat(path).st_size // (4 * channels)
    except FileNotFoundError:
        return 0
