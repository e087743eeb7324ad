"""Read a recording from a pipe while it is being written."""

import io
import math
import os
import select
import stat
import struct
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphamf.audio import chunks, formats
from alphamf.audio.chunks import is_placeholder
from alphamf.audio.file_pieces import LEAST, Scan, excess_sentence, too_few_bytes
from alphamf.audio.reader import (
    BLOCK,
    CHANNELS,
    RATES,
    Reader,
    Samples,
    check_kind,
    check_samples,
    open_bytes,
    open_reader,
)
from alphamf.errors import AlphaMFError
from alphamf.tools.arrays import Floats
from alphamf.tools.files import file_errors, temporary_place
from alphamf.tools.stopping import Stopwatch, finish_on_interrupt, finish_requested

_LAST = 1.0
"""Time that the writing process has after a Ctrl-C that asks to finish, in seconds."""

_WAKE = 0.1
"""Maximum time between checks for Ctrl-C while a thread reads the pipe, in seconds."""


class Spool:
    """A temporary file with the data read from a pipe so far; made by `spool_pipe`."""

    def __init__(self, path: Path, name: str) -> None:
        self.path: Path = path
        self._name = name
        self._changed = threading.Condition()
        self._size = 0
        self._ended = False
        self._error: OSError | None = None
        self._asked: Stopwatch | None = None

    def copy(self, pipe: int) -> None:
        """Copy a pipe to `path` until its end, and close the descriptor; runs in a thread."""
        try:
            with self.path.open("wb", buffering=0) as file:
                while data := os.read(pipe, 1 << 16):
                    left = memoryview(data)
                    while left:
                        left = left[file.write(left) :]
                    with self._changed:
                        self._size += len(data)
                        self._changed.notify()
        except OSError as error:
            self._error = error
        os.close(pipe)
        with self._changed:
            self._ended = True
            self._changed.notify()

    def wait(self, size: float) -> int:
        """Wait for `size` bytes, the end, or 1 s after Ctrl-C; return how many bytes there are."""
        with self._changed:
            while self._size < size and not (self._ended or self._given_up()):
                self._changed.wait(_WAKE)
            if self._error is not None:
                with file_errors(self._name, f"copied to {temporary_place()}"):
                    raise self._error
            return self._size

    def _given_up(self) -> bool:
        """Return whether the time that the pipe's writer has after Ctrl-C is over."""
        if not finish_requested():
            return False
        self._asked = self._asked or Stopwatch()
        return self._asked.seconds() > _LAST


@contextmanager
def spool_pipe(stream: BinaryIO, name: str) -> Iterator[Spool]:
    """Start copying a pipe to a temporary file in a thread, and yield the `Spool`."""
    with file_errors(name, f"copied to {temporary_place()}"):
        folder = tempfile.TemporaryDirectory(prefix="alphamf-", ignore_cleanup_errors=True)
    with folder as parent:
        spool = Spool(Path(parent, "audio"), name)
        # A read of a pipe that gives nothing cannot be ended; a daemon ends with the process.
        pipe = os.dup(stream.fileno())
        threading.Thread(target=spool.copy, args=(pipe,), daemon=True).start()
        yield spool


NAME = "standard input"

_HEADER = 1 << 20
"""Maximum number of bytes before the samples, for headers that are read as they arrive."""

SIMPLE = ("PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW")
"""Uncompressed subtypes of WAV."""

_MOST = 2**32 - 2**20
"""Maximum number of bytes of samples that are read if the header does not give their number."""


class WavHeader(NamedTuple):
    """The header of a WAV file."""

    data: bytes  # The bytes before the first sample
    # Number of bytes of samples; None if it was not known when the header was written.
    promised: int | None


class LiveRecording:
    """A recording that is still being written, with the members of `Reader` that denoising uses."""

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
        """Yield samples as they arrive, shape (n, channels), float32; set `cut` if any are missing.

        `exact`: whether to yield float64 where float32 does not hold the samples.
        """
        start = len(self._header.data)
        kind = SampleFormat(self.rate, self.channels, self.subtype)
        wide, size = formats.subtype_named(self.subtype).wide, kind.size
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
                block = decode_raw(data, kind, "float64" if exact and wide else "float32")
                self._samples.add(block.astype(np.float32, copy=False))
                check_samples(self.name, self.rate, self._samples)
                yield block
            check_samples(self.name, self.rate, self._samples)
            spare = 0
            if promised is not None and read > promised - size and not finish_requested():
                there = int(self._spool.wait(math.inf))
                spare = chunks.count_spare_bytes(Scan(file, NAME, there), start + promised)
            self._end(read, promised, size, spare / size / self.rate)

    def _end(self, read: int, promised: int | None, size: int, spare: float) -> None:
        """Set `cut` to a sentence if sound is missing, or if `spare` more seconds were left out."""
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
"""An open recording: of a file, or of a pipe that may still be written to."""


@contextmanager
def open_binary(
    stream: BinaryIO,
    *,
    whole: bool = False,
    max_channels: int | None = None,
    track: int | None = None,
) -> Iterator[Recording]:
    """Yield a recording from a stream; uncompressed WAV from a pipe is yielded before its end.

    `whole` or `track`: wait for the end of WAV, too. While a pipe is open, a first Ctrl-C ends the
    recording, so that what was read so far can be processed.
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
    """Return whether a stream is a pipe or a device; False if it has no file descriptor."""
    try:
        return not stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False


def _live(spool: Spool, header: WavHeader) -> LiveRecording | None:
    """Return a `LiveRecording` for a header; None if that is invalid or samples are compressed."""
    try:
        live = LiveRecording(spool, header)
    except AlphaMFError:
        return None
    return live if live.subtype in SIMPLE else None


def _header(spool: Spool) -> WavHeader | None:
    """Return the header of a WAV file as soon as it has arrived, or None, like `wav_header`."""

    def first(count: int) -> bytes | None:
        if spool.wait(count) < count:
            return None
        with spool.path.open("rb") as file:
            return file.read(count)

    return wav_header(first)


def wav_header(first: Callable[[int], bytes | None]) -> WavHeader | None:
    """Return a WAV file's header; None for other files, a header over 1 MiB, or a data size of 0.

    `first`: function that returns the first n bytes, or None if there are fewer.
    """
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


MOST = 1 << 16
"""Maximum number of bytes that are read at a time."""

_TAIL = 1 << 20
"""Number of bytes after the samples that are examined: chunks, or more samples than promised."""

_CHECK = 0.1
"""Maximum time between checks for Ctrl-C, in seconds."""

RAW = {"u8": "PCM_U8", "s16": "PCM_16", "s24": "PCM_24", "s32": "PCM_32", "f32": "FLOAT"}
"""Formats of samples without a header, little-endian, and libsndfile's names of them."""


class SampleFormat(NamedTuple):
    """Format of raw samples: rate in Hz, channels, and libsndfile's name of the subtype."""

    rate: int
    channels: int
    subtype: str

    @property
    def size(self) -> int:
        """Bytes per frame: one sample of each channel."""
        return formats.subtype_named(self.subtype).size * self.channels


def raw_kind(text: str) -> SampleFormat:
    """Return the format in RATE:CHANNELS:FORMAT, such as 48000:1:s16, or raise an AlphaMFError."""
    rate, _, rest = text.partition(":")
    channels, _, name = rest.partition(":")
    try:
        kind = SampleFormat(int(rate), int(channels), RAW[name])
    except (ValueError, KeyError):
        kind = None
    if kind is None or not RATES[0] <= kind.rate <= RATES[1] or not 1 <= kind.channels <= CHANNELS:
        raise AlphaMFError(
            "`raw` must be RATE:CHANNELS:FORMAT, such as 48000:1:s16, where FORMAT is one "
            f"of {', '.join(RAW)}; not {text!r}"
        )
    return kind


class PipeStream:
    """Samples that arrive through a pipe: a WAV file, or headerless in the format `raw`."""

    def __init__(self, pipe: int, raw: SampleFormat | None = None) -> None:
        self._pipe = pipe
        self.header: bytes = b""
        found = None if raw else wav_header(self._first)
        if raw is None and found is None:
            raise AlphaMFError(
                f"{NAME} is not a WAV file; for headerless samples, give their format with `raw`"
            )
        self.kind: SampleFormat = raw or _kind(self.header)
        self._promised = found.promised if found else None

    def _first(self, count: int) -> bytes | None:
        """Return the first `count` bytes, or None if there are fewer."""
        while len(self.header) < count:
            if not (data := self._read(count - len(self.header))):
                return None
            self.header += data
        return self.header

    def _read(self, most: int = MOST) -> bytes:
        """Return the next bytes, at most `most` or `MOST`; empty at the end or after Ctrl-C."""
        while not finish_requested():
            if os.name != "posix" or select.select([self._pipe], [], [], _CHECK)[0]:
                return os.read(self._pipe, min(most, MOST))
        return b""

    def blocks(self) -> Iterator[Floats]:
        """Yield float32 samples, shape (n, channels); without Ctrl-C, refuse a wrong length."""
        size, read, data = self.kind.size, 0, b""
        most = sys.maxsize if self._promised is None else self._promised
        while read < most and (new := self._read(most - read)):
            read += len(new)
            data += new
            whole = len(data) // size * size
            if whole:
                yield decode_raw(data[:whole], self.kind)
            data = data[whole:]
        if self._promised is None or finish_requested():
            return
        if (read := read - len(data)) <= most - size:
            raise AlphaMFError(f"{NAME} {too_few_bytes(most, read)}")
        self._check_end((len(self.header) + most) % 2, read // size / self.kind.rate)

    def _check_end(self, odd: int, duration: float) -> None:
        """Raise an AlphaMFError if sound follows; `odd`: 1 if the samples end at an odd byte."""
        rest, more = bytes(odd), 0
        while data := self._read():
            rest, more = (rest + data, more) if len(rest) < _TAIL else (rest, more + len(data))
        spare = chunks.count_spare_bytes(Scan(io.BytesIO(rest), NAME), odd)
        seconds = (spare + more) / self.kind.size / self.kind.rate
        if spare and seconds >= LEAST:
            raise AlphaMFError(excess_sentence(NAME, duration, seconds))


def _kind(header: bytes) -> SampleFormat:
    try:
        with open_bytes(header, NAME) as file:
            kind = SampleFormat(file.samplerate, file.channels, file.subtype)
    except AlphaMFError:
        kind = None
    if kind is None or kind.subtype not in SIMPLE:
        raise AlphaMFError(
            f"{NAME} is a WAV file with compressed samples; low latency needs uncompressed samples"
        )
    return kind


def _raw(file: io.BytesIO, mode: str, kind: SampleFormat) -> Any:
    """Open headerless samples in libsndfile; `mode`: r to read, w to write."""
    import soundfile

    options: dict[str, Any] = {"format": "RAW", "subtype": kind.subtype, "endian": "LITTLE"}
    return soundfile.SoundFile(file, mode, kind.rate, kind.channels, **options)


def decode_raw(data: bytes, kind: SampleFormat, dtype: str = "float32") -> NDArray[Any]:
    """Return headerless samples, decoded, shape (samples, channels)."""
    with _raw(io.BytesIO(data), "r", kind) as file:
        found: NDArray[Any] = file.read(dtype=dtype, always_2d=True)
    return found


def encode_raw(audio: Floats, kind: SampleFormat) -> bytes:
    """Return float32 samples, shape (samples, channels), as bytes; PCM is clipped to its range."""
    buffer = io.BytesIO()
    with _raw(buffer, "w", kind) as file:
        file.write(np.ascontiguousarray(audio))
    return buffer.getvalue()
