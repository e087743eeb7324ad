"""Record sound before and after denoising to two files while it runs."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from alphamf.audio import formats
from alphamf.audio.sink import Sink
from alphamf.audio.writer import Writer
from alphamf.errors import AlphaMFError
from alphamf.tools.arrays import Floats
from alphamf.tools.files import file_errors, make_folder, printable_name, reason
from alphamf.tools.temporary import sync_folder

MOST = 2**32 - 2**20
"""Maximum number of bytes of samples in a WAV file."""


class RecordingPaths(NamedTuple):
    """Paths of the recordings before and after."""

    before: Path
    after: Path


def names(wanted: str) -> RecordingPaths:
    """Choose names of new files for a recording."""
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
    """Flush contents and name of a recording to disk."""
    with file_errors(path, "written"):
        os.fsync(sink.fileno())
        sync_folder(path.parent)


class Take:
    """Writes both recordings; a context manager that completes the files whenever it exits."""

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
        """Append samples to both, shape (samples, channels)."""
        for writer, block in zip(self._writers, (before, after), strict=True):
            if writer.frames + len(block) > self._most:
                raise AlphaMFError(
                    f"{printable_name(self._files.before)} has reached the 4 GB limit of WAV files"
                )
            writer.write(block)
