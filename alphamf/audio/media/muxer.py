"""Write a media file: sound that is encoded, among the tracks of another file, which are copied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np

from alphamf.audio.media.codecs import CODECS
from alphamf.audio.media.kinds import EXTRA, Kind
from alphamf.audio.media.track import PLANES, About, opened
from alphamf.errors import AlphaMFError

_BIT_RATE = 64_000
"""Bits per second of a channel where no input says how many."""

_STALE = ("BPS", "DURATION", "NUMBER_OF_", "_STATISTICS", "ENCODER", "ITUNSMPB")
"""Starts of the fields of a track that are no longer true of another encoding of its sound."""

_BRANDS = ("major_brand", "minor_version", "compatible_brands")


class Original(NamedTuple):
    """A media file whose other tracks are copied.

    Attributes
    ----------
    path, name, kind
        The file, its name in messages, and its container.
    track
        The track in whose place the sound is written.
    cut
        Whether a part of the file is missing.
    """

    path: Path
    name: str
    kind: Kind
    track: About
    cut: bool


class Muxer:
    """An open media file to write sound to, with the face of `soundfile.SoundFile`.

    Parameters
    ----------
    file
        Where it is written to; it must be able to seek.
    rate, channels
        Of the sound.
    muxer
        FFmpeg's name of the container.
    subtype
        The codec, a key of `CODECS`.
    original
        Whose other tracks, chapters and fields are copied; None: the sound is alone.
    history
        A line for the field of this name, where the container has such fields; None: no line.

    Raises
    ------
    AlphaMFError
        PyAV is not installed.
    ValueError
        The container or the codec does not allow this rate or number of channels.
    """

    def __init__(
        self,
        file: BinaryIO,
        rate: int,
        channels: int,
        *,
        muxer: str,
        subtype: str,
        original: Original | None = None,
        history: str | None = None,
    ) -> None:
        try:
            import av
        except ImportError:
            raise AlphaMFError(f"to write {muxer} needs PyAV: {EXTRA}") from None
        self.subtype = subtype
        self._codec, self._rate, self._muxer = CODECS[subtype], rate, muxer
        if self._codec.rates and rate not in self._codec.rates:
            raise ValueError(f"{subtype} has no rate of {rate} Hz")
        if channels > len(_LAYOUTS):
            raise ValueError(f"{muxer} has no layout of {channels} channels")
        options = {"fflags": "+bitexact", **_OPTIONS.get(muxer, {})}
        if muxer in _ATOMS:
            options["movie_timescale"] = str(rate)  # lengths are exact then
        self._stack = ExitStack()
        self._output: Any = av.open(file, "w", format=muxer, options=options)
        self._copy = None
        if original is not None and muxer not in _RAW:
            self._copy = _Copy(self._output, original, self._stack)
        if history is not None and muxer in _ROUNDED:
            old = self._output.metadata.get("HISTORY")
            self._output.metadata["HISTORY"] = f"{old}\n{history}" if old else history
        start = original.track.start if original else Fraction(0)
        self._stream = self._add(channels, original)
        try:
            self._output.start_encoding()
        except (av.FFmpegError, ValueError) as error:
            self._stack.close()
            raise ValueError(str(error)) from None
        self._size = self._stream.codec_context.frame_size or 1024
        self._at = round(start * rate) + self._codec.early
        self._start = start
        self._shift: int | None = None
        self._rest = np.zeros((0, channels), np.float32)
        self._dropped = int(muxer in _RAW)
        lead = self._codec.raw_lead if muxer in _RAW else self._codec.lead * self._size
        self._at -= lead
        self.write(np.zeros((lead, channels), np.float32))

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Write the end, unless something failed."""
        with self._stack:
            if kind is None:
                self._finish()

    @property
    def left_out(self) -> tuple[str, ...]:
        """Tracks of the original that the container cannot hold, in words."""
        return self._copy.left_out if self._copy else ()

    def write(self, data: Any) -> None:
        """Append samples, shape (n, channels): float32, or int32 that uses the upper bits."""
        if len(self._rest):
            data = np.concatenate([self._rest.astype(data.dtype), data])
        whole = len(data) - len(data) % self._size
        for k in range(0, whole, self._size):
            self._encode(data[k : k + self._size])
        self._rest = data[whole:].copy()

    def _add(self, channels: int, original: Original | None) -> Any:
        """Add the track of the sound, in its place among the others."""
        if self._copy is not None and original is not None:
            self._copy.add(before=original.track.index)
        stream = self._output.add_stream(self._codec.encoder, rate=self._rate)
        context = stream.codec_context
        context.format, context.time_base = self._codec.sample, Fraction(1, self._rate)
        same = original is not None and original.track.layout
        context.layout = same if same and "channels" not in same else _LAYOUTS[channels - 1]
        if self._codec.most:
            rate = original.track.bit_rate if original else _BIT_RATE * channels
            context.bit_rate = min(
                max(rate, self._codec.least * channels), self._codec.most * channels
            )
        if self.subtype.endswith("_24"):
            context.options = {"bits_per_raw_sample": "24"}
        if self._copy is not None and original is not None:
            self._copy.describe(stream)
            self._copy.add(after=original.track.index)
        return stream

    def _encode(self, data: Any) -> None:
        """Encode one frame of samples, and copy what the others have until its time."""
        import av

        if data.dtype == np.int32 and self._codec.sample.startswith("s16"):
            data = (data >> 16).astype(np.int16)
        planar = self._codec.sample.endswith("p") and data.shape[1] < PLANES
        frame = av.AudioFrame.from_ndarray(
            np.ascontiguousarray(data.T if planar else data.reshape(1, -1)),
            format=self._codec.sample if planar else self._codec.sample.removesuffix("p"),
            layout=self._stream.codec_context.layout.name,
        )
        frame.sample_rate, frame.time_base = self._rate, Fraction(1, self._rate)
        frame.pts = self._at
        self._mux(self._stream.encode(frame))
        self._at += len(data)
        if self._copy is not None:
            self._copy.until(Fraction(self._at, self._rate))

    def _mux(self, packets: Any) -> None:
        for packet in packets:
            if self._dropped:  # the encoder's delay
                self._dropped -= 1
                continue
            if self._shift is None:
                self._shift = self._first_shift(packet.pts)
            packet.pts += self._shift
            packet.dts += self._shift
            self._output.mux(packet)

    def _first_shift(self, pts: int) -> int:
        """Return by how much packets are moved so that the first is heard when it was.

        Matroska rounds both the first time stamp and the encoder's delay to milliseconds.
        """
        if self._muxer not in _ROUNDED:
            return 0
        delay = round(self._start * self._rate) - pts
        target = round(self._start * 1000) - (1000 * delay + self._rate // 2) // self._rate
        return round(Fraction(target * self._rate, 1000)) - pts

    def _finish(self) -> None:
        if self._codec.tail:
            self.write(np.zeros((self._codec.tail, self._rest.shape[1]), np.float32))
        if len(self._rest):
            self._encode(self._rest)
        self._mux(self._stream.encode(None))
        if self._copy is not None:
            self._copy.until(None)
        self._output.close()


class _Copy:
    """The other tracks of a file, packet by packet, bit for bit."""

    def __init__(self, output: Any, original: Original, stack: ExitStack) -> None:
        self._output, self._original = output, original
        self._track = original.track.index
        self._input = stack.enter_context(opened(original.path, original.name, original.kind))
        self._streams: dict[int, Any] = {}
        self._same = original.kind.demuxer in (
            output.format.name,
            *_ATOMS.get(output.format.name, ()),
        )
        self._packets: Iterator[Any] = iter(())
        self._next: Any = None
        self.left_out: tuple[str, ...] = ()
        output.metadata.update(
            {k: v for k, v in self._input.metadata.items() if k not in _BRANDS and k != "encoder"}
        )
        if chapters := self._input.chapters():
            output.set_chapters(chapters)

    def add(self, *, before: int | None = None, after: int | None = None) -> None:
        """Add the tracks before, or after, a place to the output."""
        for stream in self._input.streams:
            if (before is not None and stream.index < before) or (
                after is not None and stream.index > after
            ):
                self._add(stream)
        if after is not None:
            self._packets = self._wanted()
            self._next = next(self._packets, None)

    def describe(self, stream: Any) -> None:
        """Give the new track the fields of the one whose place it takes."""
        old = self._input.streams[self._track]
        stream.metadata.update(
            {k: v for k, v in old.metadata.items() if not k.upper().startswith(_STALE)}
        )
        stream.disposition = old.disposition

    def until(self, time: Fraction | None) -> None:
        """Copy all packets up to a time, in seconds; None: all that are left."""
        while self._next is not None:
            packet = self._next
            when = packet.pts if packet.dts is None else packet.dts
            if time is not None and when is not None and when * packet.time_base > time:
                return
            packet.stream = self._streams[packet.stream.index]
            self._output.mux(packet)
            self._next = next(self._packets, None)

    def _add(self, stream: Any) -> None:
        from av.stream import Discard

        # FFmpeg's muxer makes new ones of chapters and of time codes.
        if stream.discard == Discard.all or (
            stream.type == "data" and "timecode" in stream.metadata
        ):
            return
        new = self._like(stream)
        if new is None:
            self.left_out += (f"{stream.type} track {stream.index}",)
            return
        if self._same and stream.codec_context is not None:
            new.codec_context.codec_tag = stream.codec_context.codec_tag
        new.metadata.update(stream.metadata)
        new.disposition = stream.disposition
        self._streams[stream.index] = new

    def _like(self, stream: Any) -> Any:
        """Add a track like another, and return it; None where the container cannot hold it."""
        from av.stream import Disposition

        picture = stream.type == "video" and not stream.disposition & Disposition.attached_pic
        if stream.type == "data" or (picture and self._output.format.name in _SOUND_ONLY):
            return None
        try:
            return self._output.add_stream_from_template(stream, opaque=True)
        except ValueError:
            return None

    def _wanted(self) -> Iterator[Any]:
        """Yield the packets of the tracks that are copied; the demuxer ends with empty ones."""
        import av
        from av.stream import Discard

        for stream in self._input.streams:
            if stream.index not in self._streams:
                stream.discard = Discard.all
        try:
            for packet in self._input.demux():
                if packet.stream.index in self._streams and (packet.size or packet.pts is not None):
                    yield packet
        except (av.FFmpegError, ValueError) as error:
            if not self._original.cut:
                raise AlphaMFError(f"{self._original.name} cannot be copied: {error}") from None


_ATOMS: Mapping[str, tuple[str, ...]] = {name: ("mov",) for name in ("mp4", "mov", "ipod", "3gp")}
_RAW = ("adts", "amr")
"""Containers of one track and nothing else, without time."""

_ROUNDED = ("matroska", "webm")
"""Containers whose time stamps are milliseconds, and which have fields of any name."""

_SOUND_ONLY = ("ipod",)
_OPTIONS: Mapping[str, Mapping[str, str]] = {"asf": {"avoid_negative_ts": "disabled"}}
_LAYOUTS = ("mono", "stereo", "3.0", "4.0", "5.0", "5.1", "6.1", "7.1")
"""Channel layouts by the number of channels."""
