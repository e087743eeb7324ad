"""Decode one audio track of a media file in order, with the interface of `soundfile.SoundFile`."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, Self

import numpy as np

from alphamf.audio.file_pieces import DecodingError, OmissionError
from alphamf.audio.media.kinds import SAFE, Kind, Openable
from alphamf.errors import AlphaMFError
from alphamf.tools.arrays import Floats


class Codec(NamedTuple):
    """An audio codec: its encoder, the rates it accepts, and corrections of its delay."""

    # encoder, sample: FFmpeg's names of the encoder and of its sample format.
    encoder: str
    sample: str
    rates: tuple[int, ...] = ()  # Sampling rates in Hz; empty: all that the encoder accepts
    # least, most: limits of a lossy encoder's bit rate, in bits per second and channel; or 0.
    least: int = 0
    most: int = 0
    lead: int = 0  # Codec frames of silence that the decoder drops and the encoder does not count
    early: int = 0  # Samples by which the encoder overstates its own delay
    tail: int = 0  # Samples of silence to append, without which the encoder drops as many samples
    raw_lead: int = 0  # Samples of silence before the sound that make the delay a whole frame


CODECS = {
    "AAC": Codec("aac", "fltp", least=16_000, most=288_000),
    "OPUS": Codec("libopus", "flt", (8000, 12000, 16000, 24000, 48000), 6_000, 256_000),
    "MP3": Codec("libmp3lame", "fltp", least=8_000, most=320_000),
    "AC3": Codec("ac3", "fltp", (32000, 44100, 48000), 32_000, 320_000, tail=256),
    "EAC3": Codec("eac3", "fltp", (32000, 44100, 48000), 32_000, 320_000, tail=256),
    "WMAV1": Codec("wmav1", "fltp", least=24_000, most=192_000, lead=1),
    "WMAV2": Codec("wmav2", "fltp", least=24_000, most=192_000, lead=1),
    "AMR_NB": Codec("libopencore_amrnb", "s16", (8000,), 4_750, 12_200, early=10, raw_lead=120),
    "ALAC_16": Codec("alac", "s16p"),
    "ALAC_24": Codec("alac", "s32p"),
    "FLAC_16": Codec("flac", "s16"),
    "FLAC_24": Codec("flac", "s32"),
    "PCM_16": Codec("pcm_s16le", "s16"),
    "PCM_24": Codec("pcm_s24le", "s32"),
    "PCM_32": Codec("pcm_s32le", "s32"),
    "FLOAT": Codec("pcm_f32le", "flt"),
}
"""The codecs of audio tracks that can be written, by the names of their subtypes."""


_LOSSLESS = ("ALAC", "FLAC", "WAVPACK", "TTA", "APE", "TAK", "SHORTEN", "TRUEHD", "MLP", "RALF")


def subtype(codec: str, sample: str, bits: int) -> str:
    """Return the subtype, such as FLAC_24, for FFmpeg's names of a codec and its sample format."""
    name = codec.upper()
    if name in _LOSSLESS:
        return f"{name}_{16 if sample.startswith(('s16', 'u8')) else 24}"
    if name.startswith("PCM_S") and not name.endswith("PLANAR"):
        return f"PCM_{int(''.join(filter(str.isdigit, name)))}"
    return "FLOAT" if name.startswith("PCM_F32") else name


JITTER = 0.05
"""Seconds by which packets may be early or late. Silence is inserted before a packet that is later.
The start of a packet that is earlier is removed if other tracks have to stay in time with it."""

BROKEN = (ValueError, OSError, OverflowError)
"""Exceptions of PyAV for broken files, in addition to its own errors; for example for a seek before
the start."""

PLANES = 8
"""Number of channels from which on frames must be packed (one plane for all channels): with so many
planes, PyAV reads beyond their end."""

_EXACT = ("mov", "wv", "tta", "ape", "tak")
"""Containers whose headers give the length of the sound."""

_LONGEST_GAP = 600.0
"""Longest gap in seconds that is filled; time stamps that jump further are considered broken."""

_OVERLAP = 1.0
"""Longest overlap of packets in seconds; time stamps that go back further have restarted."""

_PIECE = 1 << 16


@dataclass(frozen=True)
class About:
    """Properties of a track that are needed to write another in its place."""

    # number, count: its number among the audio tracks, from 1 on, and how many there are.
    number: int
    count: int
    index: int  # Its place among all tracks
    start: Fraction  # Time of its first sample, in seconds
    bit_rate: int  # Bits per second
    layout: str  # FFmpeg's name of its channel layout, such as stereo
    codec: str  # Name and profile of its codec, for messages
    others: tuple[str, ...]  # The other tracks, in words


@contextmanager
def open_container(path: Openable, name: str, kind: Kind) -> Iterator[Any]:
    """Yield a media file open in PyAV; raise an AlphaMFError if PyAV cannot read it."""
    import av

    with path.open("rb") as file:
        try:
            options = {} if kind.demuxer else {"format_whitelist": SAFE}
            container: Any = av.open(
                file, format=kind.demuxer, options=options, metadata_errors="replace"
            )
        except (av.FFmpegError, *BROKEN) as error:
            what = f" as {kind.format}" if kind.format else ""
            raise AlphaMFError(f"{name} cannot be read{what}: {reason(error)}") from None
        with container:
            yield container


class Track:
    """An audio track of a media file, which PyAV decodes from its start."""

    # samplerate, channels, format, subtype: as `soundfile.SoundFile` has them.
    samplerate: int
    channels: int

    def __init__(self, path: Openable, name: str, kind: Kind, number: int | None = None) -> None:
        from av.stream import Discard

        with ExitStack() as stack:
            self._container = stack.enter_context(open_container(path, name, kind))
            self._stream = _choose(self._container, name, number)
            if not self._stream.codec_context.channels:
                raise AlphaMFError(f"{name} has an audio track of 0 channels")
            self._stack = stack.pop_all()
        for stream in self._container.streams:
            stream.discard = Discard.default if stream is self._stream else Discard.all
        context = self._stream.codec_context
        context.thread_count = 1  # a confined process starts none
        self._kind, self._rate = kind, Fraction(context.sample_rate)
        self.samplerate, self.channels = int(context.sample_rate), int(context.channels)
        sample = context.format
        self.subtype: str = subtype(context.codec.canonical_name, sample.name, sample.bits)
        found = self._container.format.name.split(",")[0].upper()
        self.format: str = kind.format or f"{found}/{self.subtype.split('_')[0]}"
        self.frames: int = self._promised()
        self._blocks = self._to_the_end(self._in_time())
        self._rest: Floats = np.zeros((0, self.channels), np.float32)
        self._start: Fraction | None = None
        self._latest: Fraction | None = None
        self._bytes = self._given = 0
        self._packer: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def read(self, frames: int, **_: object) -> Floats:
        """Return the next samples, shape (n, channels), float32; fewer at the end."""
        parts, left = [], frames
        while left:
            if not len(self._rest):
                block = next(self._blocks, None)
                if block is None:
                    break
                self._rest = block
            parts.append(self._rest[:left])
            self._rest = self._rest[left:]
            left -= len(parts[-1])
        return np.concatenate(parts) if parts else self._rest

    def about(self) -> About:
        """Return the properties of the track; call it after reading."""
        tracks = self._container.streams.audio
        context = self._stream.codec_context
        profile = f" {self._stream.profile}" if self._stream.profile else ""
        seconds = max(Fraction(self._given, self.samplerate), Fraction(1, 1000))
        return About(
            number=tracks.index(self._stream) + 1,
            count=len(tracks),
            index=self._stream.index,
            start=self._start or Fraction(0),
            bit_rate=round(8 * self._bytes / seconds),
            layout=context.layout.name,
            codec=f"{self.subtype}{profile}",
            others=tuple(_words(s) for s in self._container.streams if s is not self._stream),
        )

    def _promised(self) -> int:
        duration = self._stream.duration
        if duration is None or not self._container.format.name.startswith(_EXACT):
            return 0
        seconds: Fraction = duration * self._stream.time_base
        return round(seconds * self._rate)

    def _in_time(self) -> Iterator[Floats]:
        """Yield samples, adding silence or dropping samples to match their time stamps.

        If time stamps restart, the sound continues. If that would lose the synchronisation with
        other tracks, or after a jump beyond `_LONGEST_GAP`, an OmissionError is raised.
        """
        origin = Fraction(0)
        blocks = self._decoded()
        for when, block in blocks:
            if self._start is None:
                self._start = origin = when if when is not None else Fraction(0)
            late = 0
            if when is not None:
                late = round((when - origin) * self._rate) - self._given
            if when is not None and late < -_OVERLAP * self._rate:
                if len(self._container.streams) > 1:
                    raise self._left_out(
                        "restarts its time stamps, which its other tracks do not", block, blocks
                    )
                origin, late = when - self._given / self._rate, 0
            if late > JITTER * self._rate:
                if late > _LONGEST_GAP * self._rate:
                    jump = f"jumps in time by {float(late / self._rate):.0f} s"
                    raise self._left_out(jump, block, blocks)
                self._given += late
                for left in range(late, 0, -_PIECE):
                    yield np.zeros((min(left, _PIECE), self.channels), np.float32)
            elif late < -JITTER * self._rate and len(self._container.streams) > 1:
                block = block[-late:]
            self._given += len(block)
            if len(block):
                yield block

    def _left_out(self, what: str, block: Floats, blocks: Iterator[Any]) -> OmissionError:
        """Return the error for leaving out `block` and the `blocks` after it, with their length."""
        frames = len(block)
        with suppress(DecodingError):
            for _, each in blocks:
                frames += len(each)
        after = float(self._given / self._rate)
        return OmissionError(
            f"{what} after {after:.2f} s; {float(frames / self._rate):.2f} s are left out"
        )

    def _to_the_end(self, blocks: Iterator[Floats]) -> Iterator[Floats]:
        """Yield samples up to the promised length, if any; all if over `_FILL` of them follow."""
        left = self.frames or sys.maxsize
        held: list[Floats] = []
        for block in blocks:
            if not held and len(inside := block[:left]):
                left -= len(inside)
                block = block[len(inside) :]
                yield inside
            if len(block):
                held.append(block)
            if sum(map(len, held)) > _FILL:  # the header is wrong
                yield from held
                held, left = [], sys.maxsize

    def _decoded(self) -> Iterator[tuple[Fraction | None, Floats]]:
        import av

        try:
            for packet in self._container.demux(self._stream):
                self._bytes += packet.size
                if packet.is_corrupt:
                    raise DecodingError("a packet is damaged")
                for frame in self._frames(packet):
                    when = None
                    if self._kind.timed and frame.pts is not None:
                        when = frame.pts * frame.time_base
                    for packed in self._packed(frame):
                        yield when, self._samples(packed)
                        when = None
        except (av.FFmpegError, *BROKEN) as error:
            raise DecodingError(reason(error)) from None

    def _frames(self, packet: Any) -> Any:
        """Return the decoded frames of a packet.

        If fragments of MP4 restart their time stamps, FFmpeg mistakes the first packets for sound
        before the start, and marks them to be discarded; they are decoded here.
        """
        time = None if packet.pts is None else packet.pts * packet.time_base
        if time is not None and not packet.size:  # NUT's last one, which FLAC's decoder refuses
            return []
        latest = self._latest
        if time is None or latest is None or time > latest - _OVERLAP or not packet.is_discard:
            self._latest = latest if time is None else time
            return packet.decode()
        return self._stream.codec_context.decode(_without_flags(packet))

    def _packed(self, frame: Any) -> list[Any]:
        """Return a list of the frame itself, or, if it has too many planes, of packed frames."""
        import av

        if not frame.format.is_planar or len(frame.layout.channels) < PLANES:
            return [frame]
        if self._packer is None:
            self._packer = av.AudioResampler(format=frame.format.packed)
        return self._packer.resample(frame)

    def _samples(self, frame: Any) -> Floats:
        """Return a frame's samples, float32 (n, channels); refuse another rate or channel count."""
        channels = len(frame.layout.channels)
        if (frame.sample_rate, channels) != (self.samplerate, self.channels):
            raise DecodingError(
                f"it changes to {frame.sample_rate} Hz and {channels} channels midway"
            )
        data = frame.to_ndarray()
        data = data.T if frame.format.is_planar else data.reshape(-1, channels)
        if data.dtype == np.uint8:
            data = data.astype(np.float32) / 128 - 1
        elif data.dtype.kind == "i":
            data = data / np.float32(2.0 ** (8 * data.dtype.itemsize - 1))
        return np.ascontiguousarray(data, np.float32)


_FILL = 8192
"""Maximum number of samples by which the last packets may exceed the length in the header."""


def _choose(container: Any, name: str, number: int | None) -> Any:
    """Return an audio track by its number; with None, the first marked as default, or the first."""
    tracks = container.streams.audio
    if not tracks:
        raise AlphaMFError(f"{name} has no audio track")
    if number is None:
        from av.stream import Disposition

        marked = [track for track in tracks if track.disposition & Disposition.default]
        chosen = (marked or tracks)[0]
    elif number <= len(tracks):
        chosen = tracks[number - 1]
    else:
        noun = "track" if len(tracks) == 1 else "tracks"
        raise AlphaMFError(
            f"{name} has {len(tracks)} audio {noun}; `track` {number} does not exist"
        )
    if chosen.codec_context is None or not chosen.codec_context.sample_rate:
        raise AlphaMFError(f"PyAV cannot decode the codec of the audio track of {name}")
    if chosen.codec_context.format is None:  # a header may leave it to the first frame
        raise AlphaMFError(f"no sample of the audio track of {name} can be decoded")
    return chosen


def _without_flags(packet: Any) -> Any:
    """Return a copy of a packet without the mark that makes the decoder discard it."""
    import av

    copy = av.Packet(bytes(packet))
    copy.pts, copy.dts, copy.time_base = packet.pts, packet.dts, packet.time_base
    return copy


def _words(stream: Any) -> str:
    """Describe a track in words: its type, codec and language."""
    context = stream.codec_context
    codec = context.codec.canonical_name if context is not None else getattr(stream, "name", None)
    return " ".join(filter(None, (stream.type, codec, stream.metadata.get("language"))))


def reason(error: Exception) -> str:
    """Return FFmpeg's message for an error, without number and file name."""
    return str(getattr(error, "strerror", None) or error).rstrip(".")
