"""Real-time sound in pipes: read as it arrives, written immediately, in the same format."""

from __future__ import annotations

import io
import os
import select
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from alphamf.audio import chunks, subtypes
from alphamf.audio.file_pieces import Scan
from alphamf.audio.layout import LEAST, excess_sentence, too_few_bytes
from alphamf.audio.live_input import NAME, SIMPLE, wav_header
from alphamf.audio.reader import CHANNELS
from alphamf.audio.survey import RATES, open_bytes
from alphamf.errors import AlphaMFError
from alphamf.tools.arrays import Floats
from alphamf.tools.stopping import finish_requested

MOST = 1 << 16
"""Maximum number of bytes that are read at a time."""

_TAIL = 1 << 20
"""Bytes after the samples that are examined: chunks, or more samples than promised."""

_WAKE = 0.1
"""Maximum time between checks for Ctrl-C, in seconds."""

RAW = {"u8": "PCM_U8", "s16": "PCM_16", "s24": "PCM_24", "s32": "PCM_32", "f32": "FLOAT"}
"""Samples without a header, little-endian, and libsndfile's names of them."""


class SampleFormat(NamedTuple):
    """Format of raw samples: rate in Hz, channels, and libsndfile's name of the subtype."""

    rate: int
    channels: int
    subtype: str

    @property
    def size(self) -> int:
        """Bytes per frame: one sample of each channel."""
        return subtypes.get(self.subtype).size * self.channels


def raw_kind(text: str) -> SampleFormat:
    """Parse RATE:CHANNELS:FORMAT, such as 48000:1:s16."""
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
    """Samples that arrive through a pipe."""

    def __init__(self, pipe: int, raw: SampleFormat | None = None) -> None:
        self._pipe, self._held = pipe, b""
        found = None if raw else wav_header(self._first)
        if raw is None and found is None:
            raise AlphaMFError(
                f"{NAME} is not a WAV file; for headerless samples, give their format with `raw`"
            )
        self.header: bytes = found.data if found else b""
        self.kind: SampleFormat = raw or _kind(self.header)
        self._promised = found.promised if found else None
        self._held = self._held[len(self.header) :]

    def _first(self, count: int) -> bytes | None:
        """Return the first `count` bytes, or None if there are fewer."""
        while len(self._held) < count:
            if not (data := self._read()):
                return None
            self._held += data
        return self._held[:count]

    def _read(self) -> bytes:
        """Return the next bytes; empty at the end or after Ctrl-C."""
        while not finish_requested():
            if os.name != "posix" or select.select([self._pipe], [], [], _WAKE)[0]:
                return os.read(self._pipe, MOST)
        return b""

    def blocks(self) -> Iterator[Floats]:
        """Yield the samples as they arrive, shape (samples, channels)."""
        size, read = self.kind.size, 0
        data = self._held
        while True:
            rest = b""
            if self._promised is not None:
                left = self._promised - read
                rest, data = data[left:], data[:left]
            whole = len(data) // size * size
            read += whole
            if whole:
                yield decode_raw(data[:whole], self.kind)
            if self._promised is not None and read > self._promised - size:
                return self._check_end(rest, read // size / self.kind.rate)
            if not (new := self._read()):
                break
            data = data[whole:] + new
        if self._promised is not None and not finish_requested():
            raise AlphaMFError(f"{NAME} {too_few_bytes(self._promised, read)}")

    def _check_end(self, rest: bytes, duration: float) -> None:
        """Read to the pipe's end, and refuse sound that follows what the header promises."""
        odd = (len(self.header) + (self._promised or 0)) % 2
        rest, more = bytes(odd) + rest, 0
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


def _options(kind: SampleFormat) -> dict[str, Any]:
    return {"format": "RAW", "subtype": kind.subtype, "endian": "LITTLE"}


def decode_raw(data: bytes, kind: SampleFormat) -> Floats:
    """Decode headerless samples to float32, shape (samples, channels)."""
    import soundfile

    with soundfile.SoundFile(
        io.BytesIO(data), "r", kind.rate, kind.channels, **_options(kind)
    ) as file:
        found: Floats = file.read(dtype="float32", always_2d=True)
    return found


def encode_raw(audio: Floats, kind: SampleFormat) -> bytes:
    """Encode float32 samples, shape (samples, channels), as bytes; PCM is clipped to its range."""
    import soundfile

    buffer = io.BytesIO()
    with soundfile.SoundFile(buffer, "w", kind.rate, kind.channels, **_options(kind)) as file:
        file.write(np.ascontiguousarray(audio))
    return buffer.getvalue()
