"""Open a recording in libsndfile or FFmpeg, to be decoded by this process."""

import hashlib
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from alphamf.audio import formats, ogg
from alphamf.audio.file_pieces import DecodingError, FilePart, OmissionError, PiecedFile, Scan
from alphamf.audio.media import kinds
from alphamf.audio.media.kinds import Openable
from alphamf.audio.media.track import About, Track
from alphamf.errors import AlphaMFError
from alphamf.tools.arrays import Floats
from alphamf.tools.files import file_errors

UNKNOWN = 2**62
"""libsndfile gives a length of this or more, in samples, if the header of a file has none."""

_BARE = {".au": "ULAW", ".snd": "ULAW", ".vox": "VOX_ADPCM", ".gsm": "GSM610"}
"""Subtypes of files without a header by file extension, as libsndfile chooses them."""

_BARE_RATE = 8000

_STEP = 1 << 12
"""Maximum samples per channel decoded at a time; an error loses the samples of one such block."""


class Ending(NamedTuple):
    """Facts about a recording that are known only after it was read to its end."""

    promised: int  # Samples per channel that its headers promise, or that were read, if more
    wrong: bool = False  # Whether the samples do not match the MD5 sum in a header
    about: About | None = None  # The track that was read from a media file; otherwise None


class Sound:
    """The recordings in a file, which this process decodes one after the other."""

    # samplerate, channels, format, subtype: as `soundfile.SoundFile` has them.
    samplerate: int
    channels: int
    format: str
    subtype: str

    def __init__(
        self, source: Openable, name: str, track: int | None = None, *, ending: str = ""
    ) -> None:
        self._source, self._name, self._track = source, name, track
        self._ending = ending.lower()
        with file_errors(name, "read"), source.open("rb") as file:
            layout = formats.check(Scan(file, name))
        self._left = list(layout.parts)
        self.count: int = len(self._left)  # Number of recordings in the file
        self.spare: int = layout.spare
        self.cut: str | None = layout.cut
        self._stack = ExitStack()
        self._before = self._given = 0
        self._wrong = False
        self._failure: DecodingError | None = None
        with ExitStack() as stack:
            stack.callback(self._stack.close)
            self._begin()
            stack.pop_all()
        self.samplerate, self.channels = self._file.samplerate, self._file.channels
        self.format, self.subtype = self._file.format, self._file.subtype
        self.frames: int = max(self._promised, self._estimate)  # Samples per channel by the header
        self.media: bool = isinstance(self._file, Track)  # Whether it is a media file
        self._about: About | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def read(self, frames: int, dtype: str = "float32") -> NDArray[Any]:
        """Return the next samples, shape (n, channels); fewer than asked for at the end.

        Media files always give float32. Samples before a DecodingError are returned first.
        """
        blocks = []
        while frames and not self._failure:
            try:
                block = self._next(min(frames, _STEP), dtype)
            except DecodingError as error:
                self._failure = error
                break
            if not len(block):
                break
            blocks.append(block)
            frames -= len(block)
        if blocks:
            return np.concatenate(blocks)
        if self._failure:
            raise self._failure
        return np.zeros((0, self.channels), np.float32 if self.media else dtype)

    def ending(self) -> Ending:
        """Return the facts that are known after all samples were read."""
        promised = self._before + max(self._promised, self._given_of_part)
        return Ending(promised, self._wrong, self._about or self._described())

    def _begin(self) -> None:
        self._part = self._left.pop(0)
        self._file = self._open(self._part)
        self._given_of_part = 0
        found = self._file.frames
        self._estimate: int = found if found < UNKNOWN else 1
        self._promised: int = self._part.frames or self._estimate
        self._sum = _Sum(self._file.subtype) if self._part.md5 else None

    def _open(self, part: FilePart) -> Any:
        """Return a recording opened in libsndfile, or in PyAV if it is a track of a media file."""
        import soundfile

        source, name, track = self._source, self._name, self._track
        self._order: list[int] | None = None
        if part.pieces is not None:
            source = PiecedFile(source, part.pieces)
        with file_errors(name, "read"), source.open("rb") as file:
            data = Scan(file, name)
            kind, head = kinds.kind_of(data), data.get(0, 64)
        if kind is not None:
            return self._stack.enter_context(Track(source, name, kind, track))
        try:
            file = _sound_file(source, self._ending, self._stack)
        except TypeError:  # soundfile asks for the rate of what ends in .raw
            raise AlphaMFError(
                f"{name} has the extension of raw samples, whose rate is not stored in the file; "
                "rename it, or convert it to WAV"
            ) from None
        except soundfile.LibsndfileError as error:
            with suppress(OSError, AlphaMFError):
                if kinds.may_need_ffmpeg(head):
                    return self._stack.enter_context(Track(source, name, kinds.ANY, track))
            if error.code == 1:
                raise AlphaMFError(f"{name} is not an audio file in a known format") from None
            what = error.error_string.rstrip(".")
            raise AlphaMFError(f"{name} cannot be read as audio: {what}") from None
        if track not in (None, 1):
            raise AlphaMFError(f"{name} has no tracks, so `track` {track} does not exist")
        # soundfile seeks after each read where it can, which makes the MP3 decoder lose its bit
        # reservoir at every block. Reading in order needs no seeks.
        file.seekable = lambda: False
        self._order = ogg.order(file.channels, head) if file.format == "OGG" else None
        return file

    def _next(self, frames: int, dtype: str) -> NDArray[Any]:
        """Return up to `frames` samples of the open recording or, at its end, of the next one."""
        import soundfile

        while True:
            try:
                block: NDArray[Any] = self._file.read(frames, dtype=dtype, always_2d=True)
            except soundfile.LibsndfileError as error:
                what = error.error_string.removeprefix("Error : ").rstrip(".")
                raise DecodingError(what) from None
            if len(block):
                block = block if self._order is None else block.take(self._order, axis=1)
                break
            self._wrong |= self._sum is not None and self._sum.digest != self._part.md5
            self._sum = None
            if not self._left:
                return block
            self._follow()
        self._given_of_part += len(block)
        self._given += len(block)
        if self._sum is not None:
            self._sum.add(block)
        return block

    def _described(self) -> About | None:
        return self._file.about() if isinstance(self._file, Track) else None

    def _follow(self) -> None:
        """Open the next recording; raise a DecodingError if it cannot continue the last one."""
        self._about = self._about or self._described()
        self._before += max(self._promised, self._given_of_part)
        self._stack.close()
        try:
            self._begin()
        except AlphaMFError as error:
            raise DecodingError(str(error)) from None
        rate, channels = self._file.samplerate, self._file.channels
        if (rate, channels) != (self.samplerate, self.channels):
            noun = "channel" if channels == 1 else "channels"
            raise self._left_out(f"a recording of {rate} Hz and {channels} {noun}")
        if self._about is not None and self._about.others:
            raise self._left_out(f"another recording beside its {self._about.others[0]} track")

    def _left_out(self, what: str) -> OmissionError:
        """Return the error for leaving out the open recording and all later ones."""
        seconds = 0.0
        with suppress(AlphaMFError, DecodingError, RuntimeError):
            while True:
                while n := len(self._file.read(_STEP, dtype="float32", always_2d=True)):
                    seconds += n / self._file.samplerate
                if not self._left:
                    break
                self._stack.close()
                self._begin()
        return OmissionError(
            f"continues with {what} after {self._given / self.samplerate:.2f} s; "
            f"{seconds:.2f} s are left out"
        )


def _sound_file(source: Openable, ending: str, stack: ExitStack) -> Any:
    """Open a file in libsndfile, or, without a known header, as samples of its extension's type."""
    import soundfile

    try:
        file = _opened(source, stack)
        if file.format != "RAW":
            return file
        # libsndfile has lost the first bytes of ULAW
    except soundfile.LibsndfileError as error:
        if error.code != 1 or ending not in _BARE:
            raise
    return _opened(source, stack, "r", _BARE_RATE, 1, _BARE[ending], format="RAW")


def _opened(source: Openable, stack: ExitStack, *words: Any, **named: Any) -> Any:
    """Return a file as `soundfile.SoundFile`, made with `words` and `named`; `stack` closes it."""
    import soundfile

    stream = stack.enter_context(source.open("rb"))
    return stack.enter_context(soundfile.SoundFile(stream, *words, **named))


class _Sum:
    """The MD5 sum of samples, as FLAC defines it."""

    def __init__(self, subtype: str) -> None:
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._bits = formats.subtype_named(subtype).bits

    def add(self, block: Floats) -> None:
        """Add samples, shape (n, channels)."""
        steps: Any = (block * np.float32(2 ** (self._bits - 1))).astype("<i4")
        data = steps[..., None].view(np.uint8)[..., : self._bits // 8]
        self._md5.update(np.ascontiguousarray(data).data)

    @property
    def digest(self) -> bytes:
        """The MD5 sum of the samples so far."""
        return self._md5.digest()
