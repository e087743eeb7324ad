"""Read a recording from a pipe while it is being written."""

from __future__ import annotations

import io
import math
import os
import stat
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphamf.audio import chunks, subtypes
from alphamf.audio.chunks import is_placeholder
from alphamf.audio.file_pieces import Scan
from alphamf.audio.layout import LEAST, excess_sentence, too_few_bytes
from alphamf.audio.reader import Reader, open_reader
from alphamf.audio.spool import Spool, spool_pipe
from alphamf.audio.survey import BLOCK, Samples, check_kind, check_samples, open_bytes
from alphamf.errors import AlphaMFError
from alphamf.tools.stopping import finish_on_interrupt, finish_requested

NAME = "standard input"

_HEADER = 1 << 20
"""Maximum number of bytes before the samples, for headers that are read as they arrive."""

SIMPLE = ("PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW")
"""Uncompressed subtypes of WAV."""

_MOST = 2**32 - 2**20
"""Maximum number of bytes of samples: the limit of a WAV file."""


class WavHeader(NamedTuple):
    """The header of a WAV file."""

    data: bytes  # The bytes before the first sample
    # Bytes of samples; None if that was not known when the header was written.
    promised: int | None


class LiveRecording:
    """A recording that is still being written, with the interface of a `Reader`."""

    name: str = NAME
    track: None = None
    note: None = None

    def __init__(self, spool: Spool, header: WavHeader) -> None:
        self._spool, self._header = spool, header
        self.path: Path = spool.path
        with open_bytes(header.data, NAME) as file:
            self.rate: int = file.samplerate
            self.channels: int = file.channels
            self.format: str = file.format
            self.subtype: str = file.subtype
        self._samples = Samples()
        self.cut: str | None = None

    @property
    def frames(self) -> int:
        """Number of samples per channel so far."""
        return self._samples.frames

    @property
    def duration(self) -> float:
        """Length so far in seconds."""
        return self.frames / self.rate

    def blocks(self, *, exact: bool = False) -> Iterator[Any]:
        """Yield the samples as they arrive, shape (n, channels), float32.

        `exact`: whether to yield float64 where float32 does not hold the samples.
        """
        start = len(self._header.data)
        subtype = subtypes.get(self.subtype)
        wide, size = subtype.wide, subtype.size * self.channels
        promised, read = self._header.promised, 0
        most = _MOST if promised is None else promised
        with self._spool.path.open("rb") as file:
            file.seek(start)
            while read < most:
                ahead = min(most, read + size * BLOCK)
                there = min(ahead, self._spool.wait(start + ahead) - start)
                if not (data := file.read((there - read) // size * size)):
                    break
                read += len(data)
                block = self._decoded(data, "float64" if exact and wide else "float32")
                self._samples.add(block.astype(np.float32, copy=False))
                check_samples(self.name, self.rate, self._samples)
                yield block
            check_samples(self.name, self.rate, self._samples)
            spare = 0
            if promised is not None and read > promised - size and not finish_requested():
                there = int(self._spool.wait(math.inf))
                spare = chunks.count_spare_bytes(Scan(file, NAME, there), start + promised)
            self._end(read, promised, size, spare / size / self.rate)

    def _decoded(self, data: bytes, kind: str) -> NDArray[Any]:
        import soundfile

        options: dict[str, Any] = {"format": "RAW", "subtype": self.subtype, "endian": "LITTLE"}
        block: NDArray[Any] = soundfile.read(
            io.BytesIO(data), -1, 0, None, kind, True,
            samplerate=self.rate, channels=self.channels, **options,
        )[0]  # fmt: skip
        return block

    def _end(self, read: int, promised: int | None, size: int, spare: float) -> None:
        """Set `cut` to the reason if the recording ended early."""
        if finish_requested() and read != promised:
            self.cut = f"stopped by Ctrl-C after {self.duration:.2f} s"
        elif promised is None and read > _MOST - size:
            self.cut = f"only the first 4 GB were read: {self.duration:.2f} s"
        elif promised is not None and read <= promised - size:
            what = too_few_bytes(promised, read)
            self.cut = f"{self.name} {what}; using the first {self.duration:.2f} s"
        elif spare >= LEAST:
            sentence = excess_sentence(self.name, self.duration, spare)
            self.cut = f"{sentence}; {self.duration:.2f} s of it were used"


Recording = Reader | LiveRecording
"""An opened recording."""


@contextmanager
def open_binary(
    stream: BinaryIO,
    *,
    whole: bool = False,
    max_channels: int | None = None,
    track: int | None = None,
) -> Iterator[Recording]:
    """Open a binary stream; WAV from a pipe is read as it arrives, other formats at its end.

    While a pipe is open, a first Ctrl-C ends the recording there, so that what was read can be
    finished.
    """
    if not _is_pipe(stream):
        with open_reader(stream, max_channels=max_channels, track=track) as file:
            yield file
        return
    with finish_on_interrupt(), spool_pipe(stream, NAME) as spool:
        header = None if whole or track else _header(spool)
        live = header and _live(spool, header)
        if live:
            check_kind(live.name, live.rate, live.channels, max_channels)
            yield live
            return
        spool.wait(math.inf)
        with (
            spool.path.open("rb") as copy,
            open_reader(copy, max_channels=max_channels, track=track) as reader,
        ):
            yield reader


def _is_pipe(stream: BinaryIO) -> bool:
    """Return whether a stream is a pipe or a device, so that it may still be written to."""
    try:
        return not stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False


def _live(spool: Spool, header: WavHeader) -> LiveRecording | None:
    """Return a `LiveRecording` for a header; None if its samples are compressed."""
    try:
        live = LiveRecording(spool, header)
    except AlphaMFError:
        return None
    return live if live.subtype in SIMPLE else None


def _header(spool: Spool) -> WavHeader | None:
    """Return the header of a WAV file as soon as it has arrived; None for any other file."""

    def first(count: int) -> bytes | None:
        if spool.wait(count) < count:
            return None
        with spool.path.open("rb") as file:
            return file.read(count)

    return wav_header(first)


def wav_header(first: Callable[[int], bytes | None]) -> WavHeader | None:
    """Return the header of a WAV file, None for any other file."""
    position = 12
    while position < _HEADER:
        end = position + 8
        data = first(end)
        if data is None or data[:4] != b"RIFF" or data[8:12] != b"WAVE":
            return None
        kind, size = struct.unpack_from("<4sI", data, position)
        if kind == b"data":
            return None if size == 0 else WavHeader(data, None if is_placeholder(size) else size)
        position = end + size + size % 2
    return None
