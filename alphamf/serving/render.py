"""Write downloads: mixed with input or echo, in another format, or at another loudness."""

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from alphamf.batch.file import process
from alphamf.batch.inputs import Job
from alphamf.batch.observers import Observers
from alphamf.batch.request import Request
from alphamf.denoising.gain import mix_dry
from alphamf.denoising.segments import Segment
from alphamf.denoising.settings import PRESETS
from alphamf.denoising.stream_options import StreamOptions
from alphamf.errors import AlphaMFError
from alphamf.serving.limits import check_room
from alphamf.tools.arrays import Floats
from alphamf.tools.outcomes import Update

SOURCE, SOUND, SPEECH = "source", "input.f32", "speech.f32"
"""File names in a recording's folder: the upload, its samples, and the speech's samples."""

ECHO_FREE = "echo-free"
"""Name of the folder in a recording's folder for the results and pictures without echo."""

INPUT_PICTURE, SPEECH_PICTURE, BAND = "input.picture", "speech.picture", "band.picture"

PART = 1 << 16
"""Maximum number of bytes of an answer that are read and sent at a time."""

SAMPLE = 4
"""Number of bytes of a sample (float32)."""


class SoundShape(NamedTuple):
    """Rate in Hz, number of channels, and samples per channel of a recording."""

    rate: int
    channels: int
    frames: int


class Extract(NamedTuple):
    """A part of a file of samples: the open file, the shape of its sound, the first sample."""

    file: BinaryIO
    sound: SoundShape
    start: int


def preview_name(start: int) -> str:
    """Return the file name of the preview that starts at sample `start`."""
    return f"preview-{start}.f32"


def write(file: BinaryIO, sound: SoundShape, start: int, block: Floats) -> None:
    """Write float32 samples to a file of samples, in which one channel follows another.

    `sound`: shape of the whole sound. `start`: first sample. `block`: shape (samples, channels).
    """
    for channel, values in enumerate(block.T):
        file.seek(SAMPLE * (channel * sound.frames + start))
        file.write(values.tobytes())


def samples(path: Path, sound: SoundShape, start: int, count: int) -> Floats:
    """Return `count` samples from `start` on, or fewer at the end; shape (samples, channels)."""
    count = max(0, min(count, stored_samples(path, sound) - start))
    with path.open("rb") as file:
        data = b"".join(parts([Extract(file, sound, start)], count))
    return np.ascontiguousarray(np.frombuffer(data, "<f4").reshape(sound.channels, count).T)


def parts(extracts: Sequence[Extract], count: int) -> Generator[bytes]:
    """Yield up to `count` samples per channel of each extract, at most `PART` bytes at a time."""
    for file, sound, start in extracts:
        for channel in range(sound.channels):
            file.seek(SAMPLE * (channel * sound.frames + start))
            left = SAMPLE * count
            while left and (data := file.read(min(PART, left))):
                left -= len(data)
                yield data


def stored_samples(path: Path, sound: SoundShape) -> int:
    """Return how many samples per channel a file of samples holds so far."""
    try:
        size = os.stat(path).st_size
    except FileNotFoundError:
        return 0
    return max(0, size // SAMPLE - (sound.channels - 1) * sound.frames)


class Mix(NamedTuple):
    """The format and processing of a download."""

    dry: float = 0.0  # Part of the input, from 0 to 1; as `Settings.dry`
    # Extension of the format, with its dot; None for the recording's own.
    ending: str | None = None
    loudness: float | None = None  # Loudness in LUFS; None keeps the level of the speech.
    echo: float = 0.0  # Proportion of the echo that is removed, from 0 to 1


@dataclass(frozen=True)
class RenderTask:
    """A task that writes a download as ``alphamf denoise`` would, from the stored speech."""

    folder: Path  # Folder of the recording
    # Name of the file in the folder; its ending chooses the format where `derived` is false.
    output: str
    derived: bool  # Whether the file has the input's format
    mix: Mix  # Format and processing of the download
    sound: SoundShape  # Shape of the recording's sound
    # Number of samples of each segment of the speech; the file is written segment by segment.
    segments: tuple[int, ...]
    spare: int  # As in `Limits`

    def run(self, update: Update | None) -> str:
        """Write the file and return its path."""
        request = Request(
            StreamOptions(replace(PRESETS["fast"], dry=self.mix.dry)),
            observe=Observers,
            loudness=self.mix.loudness,
            overwrite=True,
            estimate=self._mixed,
        )
        job = Job(str(self.folder / SOURCE), str(self.folder / self.output), derived=self.derived)
        return str(process(job, None, request)["output"])

    def _mixed(
        self, blocks: Iterable[Floats], rate: int, options: StreamOptions
    ) -> Iterator[Segment]:
        """Yield segments of the speech mixed with a part of the input, which comes in `blocks`."""
        place, left, held = 0, iter(blocks), np.empty((0, 0), np.float32)
        for length in self.segments:
            parts = [held] if held.size else []
            while sum(map(len, parts)) < length:
                parts.append(next(left))
            audio = np.concatenate(parts)
            audio, held = audio[:length], audio[length:]
            check_room(self.folder, audio.nbytes, self.spare)
            speech = self._speech(place, length)
            none = np.empty((audio.shape[1], 0, 0), np.float32)
            mixed = mix_dry(audio, speech, options.settings)
            yield Segment(mixed, audio - speech, none, none, [0.0], none[0].ravel())
            place += length
        for _block in left:  # at the end, the reader checks the whole recording
            raise AlphaMFError("the recording is longer than its denoised result")

    def _speech(self, place: int, length: int) -> Floats:
        """Return `length` samples of the speech from `place`, with the part of the echo to keep."""
        echo = np.float32(self.mix.echo)
        files = self.folder / SPEECH, self.folder / ECHO_FREE / SPEECH
        shares = np.float32(1) - echo, echo
        audio = [
            share * samples(path, self.sound, place, length)
            for path, share in zip(files, shares, strict=True)
            if share
        ]
        return audio[0] if len(audio) == 1 else audio[0] + audio[1]
