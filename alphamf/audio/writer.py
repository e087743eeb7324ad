"""Write audio files completely or not at all, in the format of the input or of the file name."""

import math
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphamf.audio import chunks, formats, metadata, mp3, ogg
from alphamf.audio.decoder import sandbox
from alphamf.audio.decoder.client import ConfinedMuxer
from alphamf.audio.decoder.sandbox import NoSandboxError
from alphamf.audio.file_pieces import Scan, Sink
from alphamf.audio.formats import final_name
from alphamf.audio.live_input import Recording
from alphamf.audio.media.muxer import Muxer, Original
from alphamf.audio.reader import Reader, open_reader
from alphamf.errors import AlphaMFError
from alphamf.tools.arrays import Floats
from alphamf.tools.files import atomic_file, file_errors, printable_name


def compression(
    original: Recording | None, format: str, subtype: str, rate: int, channels: int
) -> dict[str, Any]:
    """Return `soundfile.SoundFile` options to keep an original's bit rate of MP3 or Opus, or {}."""
    if original is None or (original.format, original.subtype) != (format, subtype):
        return {}
    size = original.path.stat().st_size
    if format == "MP3":
        with original.path.open("rb") as file:
            start, variable = mp3.first_frame(Scan(file))
        kilobits = 8e-3 * (size - start) / original.duration
        least, most = (8, 64) if rate < 16000 else (8, 160) if rate < 32000 else (32, 320)
        if not variable:
            kilobits = max(kilobits, mp3.least_constant(rate, channels))
        mode = "AVERAGE" if variable else "CONSTANT"
        return {"compression_level": _level(kilobits, least, most), "bitrate_mode": mode}
    if subtype == "OPUS":
        with original.path.open("rb") as file:
            start = ogg.first_sound_page(Scan(file))
        kilobits = 8e-3 * (size - start) / original.duration / channels
        return {"compression_level": _level(kilobits, 6, 256)}
    return {}


def _level(kilobits: float, least: int, most: int) -> float:
    """Return the compression level for kb/s: 0 at `most` to .9999 at `least`, as MP3 refuses 1."""
    return min(0.9999, max(0.0, (most - kilobits) / (most - least)))


class Destination(NamedTuple):
    """Path, encoding and gain of an output."""

    path: str  # Path of the file, or ``-`` for standard output
    # format, subtype: names as in `alphamf.audio.formats`.
    format: str
    subtype: str
    # A sentence if subtype or derived format differ from the input's, or sound is lowered; or None.
    note: str | None
    gain: float = 1.0  # Factor for the samples, so that those above full scale fit


def destination(
    path: str, reader: Recording, *, derived: bool = False, lower: bool = True
) -> Destination:
    """Return how to write `path`; `derived`: in the input's format; `lower`: with less clipping."""
    subtype = reader.subtype
    wanted: formats.Format | None
    if derived:
        wanted = formats.FORMATS.get(reader.format) or formats.FORMATS["WAV"]
        path = final_name(path, reader.format)
    else:
        wanted, subtype = _named_format("-.wav" if path == "-" else path, reader.format, subtype)
    form = wanted.encoding(subtype, samples=reader.frames * reader.channels)
    notes = []
    if form.subtype != reader.subtype or (derived and form.format != reader.format):
        notes.append(f"{reader.format} {reader.subtype} is written as {form.format} {form.subtype}")
    peak = _excess(reader, form.subtype) if lower else 1.0
    if peak > 1:
        decibels = 20 * math.log10(peak)
        notes.append(f"lowered by {decibels:.1f} dB because it exceeds full scale")
    return Destination(path, *form, "; ".join(notes) or None, 1 / peak)


def _named_format(path: str, preferred: str, subtype: str) -> tuple[formats.Format, str]:
    """Return the format of a file name, and the subtype of its extension, or `subtype` if none."""
    ending = Path(path).suffix.lower()
    wanted = formats.by_suffix(ending, preferred)
    if wanted is None:
        known = ", ".join(formats.SUFFIXES)
        raise AlphaMFError(
            f"the extension of {printable_name(path)} is not a known audio format: {known}"
        )
    return wanted, wanted.suffix_subtypes.get(ending, subtype)


_EXACT = {"int8": "PCM_S8", "uint8": "PCM_U8", "int16": "PCM_16", "int32": "PCM_32"}


def write(path: str | os.PathLike[str], audio: NDArray[Any], rate: int, **place: Any) -> None:
    """Write samples, shape (n, channels), at a rate in Hz, in the format of the file extension.

    Full scale is 1, or the range of an integer dtype, which is kept if the format supports it.
    `place`: arguments `within` and `replace` of `open_writer`.
    """
    wanted, subtype = _named_format(os.fspath(path), "", _EXACT.get(audio.dtype.name, "FLOAT"))
    form = wanted.encoding(subtype, samples=audio.size)
    if audio.dtype.kind in "iu":
        full = 2.0 ** (8 * audio.itemsize - 1)
        audio = audio / full - (audio.dtype.kind == "u")
    if form.subtype != "PCM_32":  # which needs double precision
        audio = audio.astype(np.float32)
    place |= {"format": form.format, "subtype": form.subtype}
    with open_writer(path, rate, audio.shape[1], **place) as out:
        out.write(audio)


_LOWERED = 4.0
"""Maximum factor, 12 dB, by which sound is lowered so that its peak fits: a higher peak indicates
damage."""


def _excess(reader: Recording, subtype: str) -> float:
    """Return a lossy input's peak, from 1 to `_LOWERED`, if a subtype would clip it; else 1."""
    form = formats.subtype_named(subtype)
    if not isinstance(reader, Reader) or reader.subtype in formats.SUBTYPES:
        return 1.0
    if not (form.bits or form.companded):
        return 1.0
    return min(max(reader.peak, 1.0), _LOWERED)


class Writer:
    """An open output; made by `open_writer`."""

    clipped: int  # Samples so far that were beyond full scale and were set to it
    frames: int  # Samples per channel written so far

    def __init__(
        self, file: Any, sink: Sink, name: str, gain: float = 1.0, order: list[int] | None = None
    ) -> None:
        self._file, self._gain, self._order = file, gain, order and np.argsort(order)
        self._sink = sink
        self._name = name
        self._subtype = formats.subtype_named(file.subtype)
        self.clipped = 0
        self.highest: float = 1.0
        self.frames = 0
        self.lost: str | None = None

    @property
    def omitted_tracks(self) -> tuple[str, ...]:
        """Tracks of a media file that the output does not support, as text."""
        return getattr(self._file, "omitted_tracks", ())

    @property
    def clipped_by_db(self) -> float:
        """Level of the highest peak above full scale, in dB; 0 if nothing was clipped."""
        return 20 * math.log10(self.highest)

    def write(self, block: Floats) -> None:
        """Append samples, shape (n, channels), multiplied by the gain of `open_writer`.

        Integer formats round to the nearest step. They and companded ones clip at full scale;
        floating-point and most lossy formats keep larger values.
        """
        import soundfile

        bits = self._subtype.bits
        if self._gain != 1:
            block = block * np.float32(self._gain)
        data: Any = block
        if bits or self._subtype.companded:
            self._count(block)
        if bits:
            # soundfile would cut off the lower bits of a float, half a step below on average.
            scale = 2 ** (bits - 1)
            steps = np.rint(block * np.float64(scale)).clip(-scale, scale - 1)
            data = steps.astype(np.int32) << (32 - bits)
        elif self._subtype.companded:
            data = block.clip(-1, 1)
        try:
            self._file.write(data if self._order is None else data.take(self._order, axis=1))
        except soundfile.LibsndfileError as error:
            what = error.error_string.rstrip(".")
            what = "the disk is full or has failed" if what in ("", "System error") else what
            raise AlphaMFError(f"{self._name} cannot be written: {what}") from error
        self._sink.check()
        self.frames += len(block)

    def _count(self, block: Floats) -> None:
        """Count the samples whose magnitude exceeds full scale, and update the highest peak."""
        magnitude = np.abs(block)
        self.clipped += int(np.count_nonzero(magnitude > 1))
        self.highest = max(self.highest, float(magnitude.max(initial=1)))


@contextmanager
def open_writer(
    target: str | os.PathLike[str] | BinaryIO,
    rate: int,
    channels: int,
    *,
    format: str = "WAV",
    subtype: str = "PCM_16",
    gain: float = 1.0,
    mode: int = 0o666,
    original: Recording | None = None,
    history: str | None = None,
    within: str | os.PathLike[str] | None = None,
    replace: bool = True,
) -> Iterator[Writer]:
    """Yield a writer to a temporary file; on success, add metadata, and rename or copy the file.

    `original`: the input, whose metadata are kept; `mode`, `within`, `replace`: see `atomic_file`.
    """
    import soundfile

    name = "standard output"
    if isinstance(target, (str, os.PathLike)):
        name = printable_name(target)
        if "\0" in os.fspath(target):
            raise AlphaMFError(f"cannot write {name}: file names cannot contain a NUL character")
    metadata.check(format, history)
    with (
        atomic_file(target, mode=mode, within=within, replace=replace) as part,
        ExitStack() as stack,
    ):
        sink = stack.enter_context(Sink(part, name))
        form = formats.get(format)
        try:
            if form.muxer:
                options = {"rate": rate, "channels": channels, "muxer": form.muxer}
                options |= {"subtype": subtype, "history": history}
                file: Any = _muxer(_media(original), sink, name, options)
            else:
                options = compression(original, format, subtype, rate, channels)
                file = soundfile.SoundFile(
                    sink, "w", rate, channels, subtype, format=format, **options
                )
        except AlphaMFError:
            raise
        except (soundfile.LibsndfileError, ValueError) as error:
            raise AlphaMFError(
                f"cannot write {name} as {format} {subtype} with {channels} channels at {rate} Hz"
            ) from error
        with file:
            order = ogg.order(channels) if format == "OGG" else None
            writer = Writer(file, sink, name, gain, order)
            yield writer
        stack.close()
        sink.check()
        with file_errors(name, "written"):
            source, form_of_it = (original.path, original.format) if original else (None, "")
            if original and format in ("WAVEX", "RF64"):
                chunks.copy_mask(original.path, part)
            writer.lost = metadata.keep(source, form_of_it, part, format, history)
        if form.encoder_hides_errors:
            _verify(part, name, writer.frames)
        if form.make_reproducible is not None:
            with file_errors(name, "written"):
                form.make_reproducible(part)


def _muxer(
    original: Original | None, sink: Sink, name: str, options: dict[str, Any]
) -> ConfinedMuxer | Muxer:
    """Open a media file for writing, in a confined process if possible and `original` is given."""
    if original is not None and sandbox.is_enabled():
        with suppress(NoSandboxError):
            return ConfinedMuxer(original, sink, name, options)
    return Muxer(sink, original=original, **options)


def _media(original: Recording | None) -> Original | None:
    """Return what to copy from a media file; None if the sound is not from one."""
    if original is None or original.track is None:
        return None
    return Original(original.path, original.name, original.track, original.cut is not None)


def _verify(part: Path, name: str, frames: int) -> None:
    """Read a file back; raise an AlphaMFError unless it has `frames` samples per channel."""
    try:
        with open_reader(part) as written:
            found = written.frames
    except AlphaMFError:
        found = 0
    if found < frames:
        raise AlphaMFError(f"cannot write {name}: the disk is full or has failed")
    if found > frames:
        raise AlphaMFError(f"cannot write {name}: its length changes when it is read back")
