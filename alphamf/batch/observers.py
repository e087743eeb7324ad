"""Additional outputs of a denoised file: noise, picture, uncertainty, speech ranges."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from alphamf.audio.live_input import Recording
from alphamf.audio.writer import destination, open_writer
from alphamf.denoising.grids import Grid
from alphamf.denoising.uncertainty import speech_ranges
from alphamf.tools.arrays import Floats
from alphamf.tools.files import (
    atomic_file,
    file_errors,
    make_folder,
    system_errors,
    temporary_place,
)

if TYPE_CHECKING:
    from alphamf.audio.stft import Frame
    from alphamf.batch.plot import Picture
    from alphamf.denoising.segments import Segment


class Archive:
    """Arrays in temporary files that grow part by part along the last axis; saved as .npz."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._files: dict[str, Any] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def append(self, name: str, part: NDArray[np.float32]) -> None:
        """Append `part`, shape (..., n), to the array `name` along the last axis."""
        with system_errors(f"there is not enough disk space in {temporary_place()} for {name}"):
            if name not in self._files:
                self._files[name] = self._stack.enter_context(tempfile.TemporaryFile())
                self._shapes[name] = (*part.shape[:-1], 0)
            self._files[name].write(part.astype("<f4").tobytes("F"))
            self._files[name].flush()
        *rest, last = self._shapes[name]
        self._shapes[name] = (*rest, last + part.shape[-1])

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of an array so far."""
        return self._shapes[name]

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        mode: int = 0o666,
        replace: bool = True,
        **arrays: NDArray[Any],
    ) -> None:
        """Write the appended arrays and `arrays` as an .npz file; `mode`: file permissions."""
        with (
            file_errors(path, "written"),
            atomic_file(path, mode=mode, replace=replace) as part,
            part.open("wb") as archive,
        ):
            held: dict[str, Any] = {
                name: np.memmap(file, "<f4", "r", shape=self._shapes[name], order="F")
                for name, file in self._files.items()
            }
            np.savez(archive, **held | arrays)


class Observers:
    """Writer of the additional outputs of one file, while the file is denoised.

    `frame`: the gain's window and hop, in samples of the input. `mode`: file permissions.
    """

    def __init__(
        self,
        reader: Recording,
        frame: Frame,
        stack: ExitStack,
        mode: int = 0o666,
        *,
        noise_output: str | None = None,
        plot: str | None = None,
        uncertainty: str | None = None,
        vad: str | None = None,
        replace: bool = True,
    ) -> None:
        self._replace = replace
        self._reader, self._frame, self._mode = reader, frame, mode
        self._plot, self._uncertainty, self._vad = plot, uncertainty, vad
        self._activity: list[Floats] = []
        for path in filter(None, (noise_output, plot, uncertainty, vad)):
            make_folder(path)
        self._noise = None
        if noise_output is not None:
            target = destination(noise_output, reader)
            self._noise = stack.enter_context(
                open_writer(
                    target.path,
                    reader.rate,
                    reader.channels,
                    format=target.format,
                    subtype=target.subtype,
                    gain=target.gain,
                    mode=mode,
                    replace=replace,
                )
            )
        self._archive = stack.enter_context(Archive()) if uncertainty else None
        self._picture: Picture | None = None
        if plot is not None:
            from alphamf.batch.plot import Picture

            self._picture = Picture(os.path.basename(reader.name), reader.frames, reader.rate)

    def watch(self, blocks: Iterable[Floats]) -> Iterator[Floats]:
        """Yield the input's blocks, shape (samples, channels); add them to the picture, if any."""
        for block in blocks:
            if self._picture:
                self._picture.before.add(block)
            yield block

    def add(self, segment: Segment) -> None:
        """Add the next segment of the output to the additional outputs."""
        if self._noise:
            self._noise.write(segment.noise)
        if self._archive:
            self._archive.append("gain", segment.gain)
            self._archive.append("gain_std", segment.gain_std)
        if self._picture:
            self._picture.after.add(segment.audio)
            sound = segment.audio + segment.noise
            self._picture.add_gain(sound, segment.gain, segment.gain_std, self._frame)
        if self._vad:
            self._activity.append(segment.activity)

    def finish(self) -> None:
        """Write the picture, the uncertainty and the speech ranges, as far as requested."""
        if self._picture and self._plot:
            self._picture.save(self._plot, mode=self._mode, replace=self._replace)
        if self._archive and self._uncertainty:
            rate, frames = self._reader.rate, self._archive.shape("gain")[2]
            self._archive.save(
                self._uncertainty,
                mode=self._mode,
                replace=self._replace,
                frame_times=np.arange(frames) * (self._frame.hop_length / rate),
                frequencies=Grid(rate, self._frame).frequencies,
            )
        if self._vad:
            self._write_ranges(self._vad)

    def _write_ranges(self, path: str) -> None:
        activity = np.concatenate(self._activity)
        times = np.arange(len(activity)) * (self._frame.hop_length / self._reader.rate)
        lines = [
            f"{start:.3f},{min(end, self._reader.duration):.3f},{probability:.3f}\n"
            for start, end, probability in speech_ranges(activity, times)
        ]
        with (
            file_errors(path, "written"),
            atomic_file(path, mode=self._mode, replace=self._replace) as part,
        ):
            part.write_text("".join(["start,end,probability\n", *lines]), encoding="ascii")
