"""Copy the other tracks of a media file packet by packet, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from fractions import Fraction
from typing import Any, NamedTuple

from alphamf.audio.file_pieces import Scan
from alphamf.audio.media import kinds
from alphamf.audio.media.kinds import Openable
from alphamf.audio.media.track import BROKEN, About, open_container
from alphamf.errors import AlphaMFError

ATOMS: Mapping[str, tuple[str, ...]] = {name: ("mov",) for name in ("mp4", "mov", "ipod", "3gp")}
"""Muxers of MP4's family, and the demuxer of what they write."""

_SOUND_ONLY = ("ipod",)
_STALE = ("BPS", "DURATION", "NUMBER_OF_", "_STATISTICS", "ENCODER", "ITUNSMPB")
"""Prefixes of a track's fields that do not apply to another encoding of its sound."""

_BRANDS = ("major_brand", "minor_version", "compatible_brands", "encoder")
"""Fields that a muxer writes by itself."""


class Original(NamedTuple):
    """A media file whose other tracks will be copied."""

    path: Openable
    name: str  # Its name in messages
    track: About  # The track in whose place the sound is written
    cut: bool  # Whether a part of the file is missing


class Copy:
    """Copies the other tracks of one media file to another."""

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
        """Return whether the output has other tracks."""
        return bool(self._streams)

    def add(self, *, before: int | None = None, after: int | None = None) -> None:
        """Add the tracks before or after a position to the output."""
        for stream in self._input.streams:
            if (before is not None and stream.index < before) or (
                after is not None and stream.index > after
            ):
                self._add(stream)
        if after is not None and self._streams:
            self._packets = self._wanted()
            self._next = next(self._packets, None)
        elif after is not None:  # an index of hours takes memory
            self._input.close()

    def describe(self, stream: Any) -> None:
        """Copy the metadata of the replaced track to the new one."""
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
        """Make time stamps of packets increase strictly, because muxers refuse others."""
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
