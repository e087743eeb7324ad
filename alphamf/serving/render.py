"""Write downloads: with a part of input or echo, in another format, or at a loudness."""

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
"""The upload; its samples and those of the speech."""

ECHO_FREE = "echo-free"
"""Folder within that of a recording, for the same files of the speech without echo."""

INPUT_PICTURE, SPEECH_PICTURE, BAND = "input.picture", "speech.picture", "band.picture"

PART = 1 << 16
"""Bytes of an answer that are read and sent at a time."""

SAMPLE = 4
"""Bytes of a sample."""


class SoundShape(NamedTuple):
    """Rate in Hz, number of channels, and samples per channel of a recording."""

    rate: int
    channels: int
    frames: int


class Extract(NamedTuple):
    """A part of a file of samples: the open file, what it holds, and the first sample."""

    file: BinaryIO
    sound: SoundShape
    start: int


def preview_name(start: int) -> str:
    """Return the file name of the preview that starts at sample `start`."""
    return f"preview-{start}.f32"


def write(file: BinaryIO, sound: SoundShape, start: int, block: Floats) -> None:
    """Write samples, shape (samples, channels), at their place in a file of samples.

    `sound`: shape of the sound in the file. `block`: the samples, float32.
    """
    for channel, values in enumerate(block.T):
        file.seek(SAMPLE * (channel * sound.frames + start))
        file.write(values.tobytes())


def samples(path: Path, sound: SoundShape, start: int, count: int) -> Floats:
    """Read samples from a file of samples, shape (samples, channels); fewer if it is shorter."""
    count = max(0, min(count, stored_samples(path, sound) - start))
    with path.open("rb") as file:
        data = b"".join(parts([Extract(file, sound, start)], count))
    return np.ascontiguousarray(np.frombuffer(data, "<f4").reshape(sound.channels, count).T)


def parts(extracts: Sequence[Extract], count: int) -> Generator[bytes]:
    """Yield `count` samples of each channel of each extract, in parts of bounded size."""
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
    loudness: float | None = None  # In LUFS; None keeps the level of the speech.
    echo: float = 0.0  # Proportion of the echo that is removed, from 0 to 1


@dataclass(frozen=True)
class RenderTask:
    """Writes a download as ``alphamf denoise`` would, but from the speech that is already known."""

    folder: Path  # Folder of the recording
    # Name of the file in the folder; its ending chooses the format where `derived` is false.
    output: str
    derived: bool  # Whether the file has the input's format
    mix: Mix  # What the download is to be
    sound: SoundShape  # Shape of the sound of the recording
    # Samples of each segment, which are written at a time: some encoders depend on it.
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
        """Yield segments of the speech mixed with a part of the input."""
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
        for _block in left:  # the reader compares the whole with what it has checked
            raise AlphaMFError("the recording is longer than its denoised result")

    def _speech(self, place: int, length: int) -> Floats:
        """Return samples of the speech with the part of the echo that stays."""
        echo = np.float32(self.mix.echo)
        files = self.folder / SPEECH, self.folder / ECHO_FREE / SPEECH
        shares = np.float32(1) - echo, echo
        audio = [
            share * samples(path, self.sound, place, length)
            for path, share in zip(files, shares, strict=True)
            if share
        ]
        return audio[0] if len(audio) == 1 else audio[0] + audio[1]
