"""Live monitoring of denoised sound: strength, levels, and a recording."""

from __future__ import annotations

import math
import os
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np

from alphamf.audio import formats
from alphamf.audio.file_pieces import Sink
from alphamf.audio.writer import Writer
from alphamf.denoising.segments import Segment
from alphamf.denoising.stream import Stream
from alphamf.errors import AlphaMFError
from alphamf.live.duplex import Duplex
from alphamf.tools.arrays import Floats
from alphamf.tools.files import file_errors, make_folder, printable_name, reason
from alphamf.tools.temporary import sync_folder

MOST = 2**32 - 2**20
"""Maximum number of bytes of samples in a WAV file."""


class RecordingPaths(NamedTuple):
    """Paths of the recordings before and after denoising."""

    before: Path
    after: Path


def names(wanted: str) -> RecordingPaths:
    """Return both paths for a .wav file or a folder (created); refuse other and existing files."""
    before = Path(wanted)
    ending, folder = before.suffix.lower(), os.path.isdir(before)
    if ending != ".wav" and ending in formats.SUFFIXES and not folder:
        raise AlphaMFError(
            f"cannot record to {printable_name(wanted)}; give a .wav file or a folder"
        )
    if ending != ".wav" or folder:
        before /= time.strftime("live-%Y%m%d-%H%M%S.wav")
        make_folder(before)
    found = RecordingPaths(before, before.with_suffix(".denoised.wav"))
    for each in found:
        if os.path.lexists(each):
            raise AlphaMFError(
                f"{printable_name(each)} already exists; choose another name for the recording"
            )
    return found


def _sync(sink: Sink, path: Path) -> None:
    """Flush the contents and the name of a recording to disk."""
    with file_errors(path, "written"):
        os.fsync(sink.fileno())
        sync_folder(path.parent)


class Take:
    """Writer of both recordings (16-bit WAV), a context manager that completes them on exit."""

    def __init__(self, files: RecordingPaths, rate: int, channels: int) -> None:
        import soundfile

        self._most = MOST // (2 * channels)  # bytes of a 16-bit sample
        self._files = files
        self._writers: list[Writer] = []
        made: list[Path] = []
        try:
            with ExitStack() as stack:
                for path in files:
                    sink = stack.enter_context(Sink(path, printable_name(path), new=True))
                    made.append(path)
                    stack.callback(_sync, sink, path)
                    file = soundfile.SoundFile(sink, "w", rate, channels, "PCM_16", format="WAV")
                    self._writers.append(
                        Writer(stack.enter_context(file), sink, printable_name(path))
                    )
                self._stack = stack.pop_all()
        except (OSError, soundfile.LibsndfileError) as error:
            for each in made:
                each.unlink(missing_ok=True)
            what = f"WAV does not support {channels} channels at {rate} Hz"
            what = reason(error) if isinstance(error, OSError) else what
            raise AlphaMFError(f"{printable_name(path)} cannot be written: {what}") from error

    def __enter__(self) -> Take:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def write(self, before: Floats, after: Floats) -> None:
        """Append samples, shape (samples, channels), to both; raise an AlphaMFError at 4 GB."""
        for writer, block in zip(self._writers, (before, after), strict=True):
            if writer.frames + len(block) > self._most:
                raise AlphaMFError(
                    f"{printable_name(self._files.before)} has reached the 4 GB limit of WAV files"
                )
            writer.write(block)


SILENCE = -100.0
"""Minimum level that is reported, in dB relative to full scale."""

SECONDS = 0.2
"""Time constant over which the levels are averaged, in seconds."""

_WAKE = 0.1
"""Maximum time between checks for the end, in seconds."""


class Levels(NamedTuple):
    """Levels of the newest sound, in dB relative to full scale."""

    input: float  # Level of the sound that is recorded
    output: float  # Level of the sound that is played
    noise: float  # Level of the noise that the stream has estimated, whatever the strength

    @property
    def reduction(self) -> float:
        """Difference between the levels of input and output, in dB."""
        return self.input - self.output


class Monitor:
    """Denoises sound block by block, at a strength that can change; records to `take`, if any."""

    def __init__(self, stream: Stream, strength: float = 1.0, take: Take | None = None) -> None:
        self.strength: float = strength
        self.bypass: bool = False
        self.seconds: float = 0.0
        self.note: str | None = None
        self._stream, self._take = stream, take
        self._now = strength
        self._powers = np.zeros(3)

    @property
    def levels(self) -> Levels:
        """Levels of the newest sound, at least `SILENCE`."""
        least = 10 ** (SILENCE / 10)
        return Levels(*(10 * math.log10(max(power, least)) for power in self._powers))

    def process(self, block: Floats) -> Floats:
        """Process samples, shape (samples, channels), and return the samples to play."""
        return self._joined(list(self._stream.segments(block)))

    def flush(self) -> Floats:
        """End the stream, and return the samples that it still held back."""
        return self._joined(list(self._stream.rest()))

    def _joined(self, segments: list[Segment]) -> Floats:
        speech = np.concatenate([segment.audio for segment in segments])
        noise = np.concatenate([segment.noise for segment in segments])
        self.note = next((each.note for each in segments if each.note), self.note)
        wanted = 0.0 if self.bypass else self.strength
        kept = 1 - np.linspace(self._now, wanted, len(speech), dtype=np.float32)
        self._now = wanted if len(speech) else self._now
        out: Floats = speech + kept[:, None] * noise
        if len(out):
            self._measure(speech + noise, out, noise)
        if self._take is not None:
            self._take.write(speech + noise, out)
        return out

    def _measure(self, *sounds: Floats) -> None:
        new = len(sounds[0]) / self._stream.rate
        self.seconds += new
        share = -math.expm1(-new / SECONDS)
        powers = np.array([np.mean(np.square(sound, dtype=float)) for sound in sounds])
        self._powers = self._powers + share * (powers - self._powers)


class MonitorThread:
    """Runs a monitor between two devices in its own thread; use it as a context manager."""

    def __init__(self, monitor: Monitor, duplex: Duplex) -> None:
        self._monitor, self._duplex = monitor, duplex
        self._ended = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> MonitorThread:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()
        if error[0] is None and self._error is not None:
            raise self._error

    def _work(self) -> None:
        try:
            while not self._ended.is_set():
                block = self._duplex.read(_WAKE)
                if len(block):
                    self._duplex.write(self._monitor.process(block))
            self._monitor.flush()
        except BaseException as error:
            self._error = error

    def check(self) -> None:
        """Raise an error if the thread or a device has failed."""
        if self._error is not None:
            raise self._error
        self._duplex.check()
