"""Recordings that follow each other in one file, read as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Self

from alphamf.audio.flac import Sum
from alphamf.audio.layout import DecodingError, FilePart, OmissionError
from alphamf.audio.media.track import About
from alphamf.audio.opening import has_tags, next_block
from alphamf.errors import AlphaMFError

UNKNOWN = 2**62
"""libsndfile gives a length beyond this for a file whose header has none."""

_BLOCK = 1 << 16


class JoinedParts:
    """The recordings of a file in turn, with the interface of `soundfile.SoundFile`."""

    _file: Any
    _part: FilePart
    _count: int
    _promised: int
    _sum: Sum | None

    def __init__(self, parts: Sequence[FilePart], open_part: Callable[[FilePart], Any]) -> None:
        self._left, self._open = list(parts), open_part
        self._before = self._given = 0
        self.wrong: bool = False
        self._begin()
        self.samplerate: int = self._file.samplerate
        self.channels: int = self._file.channels
        self.format: str = self._file.format
        self.subtype: str = self._file.subtype
        self.has_tags: bool = has_tags(self._file)
        self._about: About | None = None

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._file.__exit__()

    @property
    def frames(self) -> int:
        """Number of samples per channel."""
        return self._before + max(self._promised, self._count)

    def read(self, frames: int, dtype: str = "float32", **_: object) -> Any:
        """Return the next samples, shape (n, channels); 0 at the end."""
        while True:
            block = self._file.read(frames, dtype=dtype, always_2d=True)
            if len(block):
                break
            self._finish()
            if not self._left:
                return block
            self._follow()
        self._count += len(block)
        self._given += len(block)
        if self._sum is not None:
            self._sum.add(block)
        return block

    def seek(self, frames: int) -> None:
        """Skip samples from the start."""
        if not self._left:
            self._sum = None
            self._file.seek(frames)
            return
        while frames and (n := len(self.read(min(frames, _BLOCK)))):
            frames -= n

    def about(self) -> About | None:
        """Return the properties of a media file's first track; None for other files."""
        if self._about is None and hasattr(self._file, "about"):
            found: About | None = self._file.about()
            return found
        return self._about

    def _begin(self) -> None:
        self._part = self._left.pop(0)
        self._file = self._open(self._part)
        self._count = 0
        promised = self._part.frames or self._file.frames
        self._promised = promised if promised < UNKNOWN else 1
        self._sum = Sum(self._file.subtype) if self._part.md5 else None

    def _finish(self) -> None:
        """Compare the recording that has ended with its header."""
        if self._sum is not None and self._sum.digest != self._part.md5:
            self.wrong = True
        self._sum = None

    def _follow(self) -> None:
        """Continue with the next recording, if it can follow the last one."""
        self._about = self.about()
        self._before += max(self._promised, self._count)
        self._file.__exit__()
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
        """Return the error of recordings, from the open one on, that cannot be read on."""
        seconds = 0.0
        with suppress(AlphaMFError, DecodingError):
            while True:
                while n := len(next_block(self._file, _BLOCK)):
                    seconds += n / self._file.samplerate
                if not self._left:
                    break
                self._file.__exit__()
                self._begin()
        return OmissionError(
            f"continues with {what} after {self._given / self.samplerate:.2f} s; "
            f"{seconds:.2f} s are left out"
        )
