"""Write a media file: encode the sound, and copy the other tracks of the original."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np

from alphamf.audio.file_pieces import Handle, Scan
from alphamf.audio.media import kinds
from alphamf.audio.media.kinds import Openable, index_first
from alphamf.audio.media.track import BROKEN, CODECS, PLANES, About, open_container, reason
from alphamf.errors import AlphaMFError

ATOMS: Mapping[str, tuple[str, ...]] = {name: ("mov",) for name in ("mp4", "mov", "ipod", "3gp")}
"""Muxers of MP4's family, each with the demuxers that read its files."""

_SOUND_ONLY = ("ipod",)
_STALE = ("BPS", "DURATION", "NUMBER_OF_", "_STATISTICS", "ENCODER", "ITUNSMPB")
"""Prefixes of a track's fields that do not apply to another encoding of its sound."""

_BRANDS = ("major_brand", "minor_version", "compatible_brands", "encoder")
"""Fields that a muxer writes by itself."""


class Original(NamedTuple):
    """A media file whose tracks will be copied, except the replaced one."""

    path: Openable
    name: str  # Its name in messages
    track: About  # The track in whose place the sound is written
    cut: bool  # Whether a part of the file is missing


class Copy:
    """A copier of a media file's metadata and its tracks, except the replaced one, to an output."""

    def __init__(self, output: Any, original: Original, stack: ExitStack) -> None:
        self._output, self._original = output, original
        self._track = original.track.index
        with original.path.open("rb") as file:
            kind = kinds.kind_of(Scan(file, original.name)) or kinds.ANY
        self._input = stack.enter_context(open_container(original.path, original.name, kind))
        self._streams: dict[int, Any] = {}
        self._least: dict[int, int] = {}
        self._same = kind.demuxer in (output.format.name, *ATOMS.get(output.format.name, ()))
        self._packets: Iterator[Any] = iter(())
        self._next: Any = None
        self.omitted_tracks: tuple[str, ...] = ()
        output.metadata.update({k: v for k, v in self._input.metadata.items() if k not in _BRANDS})
        if chapters := self._input.chapters():
            output.set_chapters(chapters)

    @property
    def has_tracks(self) -> bool:
        """Whether other tracks are copied to the output."""
        return bool(self._streams)

    def add_before(self) -> None:
        """Add the tracks before the replaced one to the output."""
        for stream in list(self._input.streams)[: self._track]:
            self._add(stream)

    def add_after(self) -> None:
        """Add the tracks after the replaced one to the output; read the first packet, if any."""
        for stream in list(self._input.streams)[self._track + 1 :]:
            self._add(stream)
        if self._streams:
            self._packets = self._wanted()
            self._next = next(self._packets, None)
        else:  # an index of hours takes memory
            self._input.close()

    def describe(self, stream: Any) -> None:
        """Copy metadata and disposition of the replaced track to the new one, `stream`."""
        old = self._input.streams[self._track]
        stream.metadata.update(
            {k: v for k, v in old.metadata.items() if not k.upper().startswith(_STALE)}
        )
        stream.disposition = old.disposition

    def copy_until(self, time: Fraction | None) -> None:
        """Copy all packets up to a time in seconds; with None, all remaining packets."""
        while self._next is not None:
            packet = self._next
            when = packet.pts if packet.dts is None else packet.dts
            if time is not None and when is not None and when * packet.time_base > time:
                return
            self._mend(packet)
            packet.stream = self._streams[packet.stream.index]
            self._output.mux(packet)
            self._next = next(self._packets, None)

    def _mend(self, packet: Any) -> None:
        """Delay a packet's decoding time, if needed, to after that of the track's last packet."""
        if packet.dts is None:
            return
        least = self._least.get(packet.stream.index, packet.dts)
        if packet.dts < least:
            packet.dts = least
            packet.pts = max(packet.pts, least) if packet.pts is not None else None
        self._least[packet.stream.index] = packet.dts + 1

    def _add(self, stream: Any) -> None:
        from av.stream import Discard

        # FFmpeg's muxer makes new ones of chapters and of time codes.
        if stream.discard == Discard.all or (
            stream.type == "data" and "timecode" in stream.metadata
        ):
            return
        new = self._like(stream)
        if new is None:
            self.omitted_tracks += (f"{stream.type} track {stream.index}",)
            return
        if self._same and stream.codec_context is not None:
            new.codec_context.codec_tag = stream.codec_context.codec_tag
        new.metadata.update(stream.metadata)
        new.disposition = stream.disposition
        self._streams[stream.index] = new

    def _like(self, stream: Any) -> Any:
        """Add a track with the same properties, and return it; None if it is not supported."""
        from av.stream import Disposition

        picture = stream.type == "video" and not stream.disposition & Disposition.attached_pic
        if stream.type == "data" or (picture and self._output.format.name in _SOUND_ONLY):
            return None
        try:
            return self._output.add_stream_from_template(stream, opaque=True)
        except ValueError:
            return None

    def _wanted(self) -> Iterator[Any]:
        """Yield the packets of the copied tracks; skip the empty packets at the end."""
        import av
        from av.stream import Discard

        for stream in self._input.streams:
            if stream.index not in self._streams:
                stream.discard = Discard.all
        try:
            for packet in self._input.demux():
                if packet.stream.index in self._streams and (packet.size or packet.pts is not None):
                    yield packet
        except (av.FFmpegError, *BROKEN) as error:
            if not self._original.cut:
                raise AlphaMFError(f"{self._original.name} cannot be copied: {error}") from None


_BIT_RATE = 64_000
"""Bits per second and channel if no input defines the bit rate."""


class Muxer:
    """A media file opened for writing, with the members of `soundfile.SoundFile` that writing uses.

    `rate`, `channels`: sampling rate in Hz and number of channels of the sound.
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
        import av

        self.subtype = subtype
        self._codec, self._rate, self._muxer = CODECS[subtype], rate, muxer
        if self._codec.rates and rate not in self._codec.rates:
            raise ValueError(f"{subtype} has no rate of {rate} Hz")
        if channels > len(_LAYOUTS):
            raise ValueError(f"{muxer} has no layout of {channels} channels")
        options = {"fflags": "+bitexact", **_OPTIONS.get(muxer, {})}
        if muxer in ATOMS:
            options["movie_timescale"] = str(rate)  # lengths are exact then
            if original is not None and index_first(original.path):
                options["movflags"] = "+faststart"
        self._stack = ExitStack()
        # To put the index first, the muxer reads what it has written, and nothing else.
        again = Path(file.name) if isinstance(file.name, str) else Handle(file.fileno(), "")
        self._output: Any = av.open(
            file, "w", format=muxer, options=options, io_open=lambda *_: again.open("rb")
        )
        self._copy = None
        if original is not None and muxer not in _RAW:
            self._copy = Copy(self._output, original, self._stack)
        if history is not None and muxer in _ROUNDED:
            old = self._output.metadata.get("HISTORY")
            self._output.metadata["HISTORY"] = f"{old}\n{history}" if old else history
        start = original.track.start if original else Fraction(0)
        self._stream = self._add(channels, original)
        try:
            self._output.start_encoding()
        except (av.FFmpegError, ValueError) as error:
            self._stack.close()
            if self._copy is None or not self._copy.has_tracks:
                raise ValueError(str(error)) from None
            raise AlphaMFError(
                f"{muxer} does not support {subtype} beside the other tracks ({reason(error)}); "
                "to write only the sound, use `output` with a name that ends in .wav or .m4a"
            ) from None
        self._size = self._stream.codec_context.frame_size or 1024
        self._at = round(start * rate) + self._codec.early
        self._start = start
        self._shift: int | None = None
        self._rest = np.zeros((0, channels), np.float32)
        self._dropped = int(muxer in _RAW)
        self._given = self._made = 0
        lead = self._codec.raw_lead if muxer in _RAW else self._codec.lead * self._size
        self._at -= lead
        self.write(np.zeros((lead, channels), np.float32))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        with self._stack:
            if kind is None:
                with self._refused():
                    self._finish()

    @property
    def omitted_tracks(self) -> tuple[str, ...]:
        """Tracks of the original that the container does not support, as text."""
        return self._copy.omitted_tracks if self._copy else ()

    def write(self, data: Any) -> None:
        """Append samples, shape (n, channels): float32, or int32 that uses the upper bits."""
        with self._refused():
            self._write(data)

    def _write(self, data: Any) -> None:
        if len(self._rest):
            data = np.concatenate([self._rest.astype(data.dtype), data])
        whole = len(data) - len(data) % self._size
        for k in range(0, whole, self._size):
            self._encode(data[k : k + self._size])
        self._rest = data[whole:].copy()

    def _add(self, channels: int, original: Original | None) -> Any:
        """Add the audio track and, before and after it, the copied ones; return the audio track."""
        if self._copy is not None:
            self._copy.add_before()
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
        if self._copy is not None:
            self._copy.describe(stream)
            self._copy.add_after()
        return stream

    def _encode(self, data: Any) -> None:
        """Encode one frame of samples, and copy the other tracks up to its time."""
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
        self._given += len(data)
        if self._copy is not None:
            self._copy.copy_until(Fraction(self._at, self._rate))

    @contextmanager
    def _refused(self) -> Iterator[None]:
        """Convert errors of FFmpeg's muxers and encoders to an AlphaMFError."""
        import av

        try:
            yield
        except AlphaMFError:
            raise
        except (av.FFmpegError, ValueError) as error:
            raise AlphaMFError(f"FFmpeg cannot write {self._muxer}: {reason(error)}") from None

    def _mux(self, packets: Any) -> None:
        for packet in packets:
            self._made += 1
            if self._dropped:  # the encoder's delay
                self._dropped -= 1
                continue
            if self._shift is None:
                self._shift = self._first_shift(packet.pts)
            packet.pts += self._shift
            packet.dts += self._shift
            self._output.mux(packet)

    def _first_shift(self, pts: int) -> int:
        """Return the shift of packets, in samples, that keeps the time of the first sample.

        It is 0 except in Matroska and WebM, which round times and the encoder's delay to 1 ms.
        """
        if self._muxer not in _ROUNDED:
            return 0
        delay = round(self._start * self._rate) - pts
        target = round(self._start * 1000) - (1000 * delay + self._rate // 2) // self._rate
        return round(Fraction(target * self._rate, 1000)) - pts

    def _finish(self) -> None:
        if self._codec.tail:
            self._write(np.zeros((self._codec.tail, self._rest.shape[1]), np.float32))
        if len(self._rest):
            self._encode(self._rest)
        packets = self._stream.encode(None)
        if packets:
            packets[-1].duration -= self._codec.early
        if self._muxer in _RAW:  # no header says that the rest is silence
            wanted = 1 + -(-(self._given - self._codec.raw_lead) // self._size)
            packets = packets[: wanted - self._made]
        self._mux(packets)
        if self._copy is not None:
            self._copy.copy_until(None)
        self._output.close()


_RAW = ("adts", "amr")
"""Containers with only one track and without time stamps."""

_ROUNDED = ("matroska", "webm")
"""Containers whose time stamps are milliseconds, and which have fields of any name."""

_OPTIONS: Mapping[str, Mapping[str, str]] = {"asf": {"avoid_negative_ts": "disabled"}}
_LAYOUTS = ("mono", "stereo", "3.0", "4.0", "5.0", "5.1", "6.1", "7.1")
"""FFmpeg's names of the layouts of one to eight channels."""
