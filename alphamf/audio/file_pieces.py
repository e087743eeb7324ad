"""Read files by position or as joined pieces, describe their recordings, and keep write errors."""

import io
import os
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any, BinaryIO, Literal, NamedTuple, Self

from alphamf.errors import AlphaMFError
from alphamf.tools.files import reason

Pieces = Sequence[bytes | range]
"""Contents of the file that a decoder reads: ranges of the original's bytes, and new bytes."""


class Extent(NamedTuple):
    """The part of a file that belongs to the recording at its start."""

    end: int  # Position after its last byte
    # Pieces that the decoder has to read; None: the bytes as they are.
    pieces: Pieces | None = None
    stops: bool = True  # Whether the decoder stops there, so that it leaves out sound that follows
    # Samples per channel that the recording must have at least, where the decoder would report no
    # number or a wrong one; None: the decoder's number.
    frames: int | None = None
    md5: bytes | None = None  # MD5 sum of the samples, from a FLAC header; None: not known
    cut: str | None = None  # What is missing, in words to put after the file's name, or None


class FilePart(NamedTuple):
    """A recording in a file; see `Extent`."""

    pieces: Pieces | None = None  # None: the whole file
    frames: int | None = None
    md5: bytes | None = None


class Layout(NamedTuple):
    """The recordings in a file, and what is wrong with it."""

    parts: Sequence[FilePart] = (FilePart(),)  # Its recordings
    spare: int = 0  # Number of bytes after them that may be sound, and that no decoder reads
    cut: str | None = None  # What is missing, in words to put after the file's name, or None


class DecodingError(Exception):
    """Error for samples that a decoder cannot read; the message says why."""


class OmissionError(DecodingError):
    """Error for sound that is left out; the message is to be put after the file's name."""


LEAST = 0.01
"""Least length of data after a recording that counts as sound, in seconds."""


def excess_sentence(name: str, duration: float, spare: float) -> str:
    """Return a sentence about sound beyond the length in a header; lengths in seconds."""
    return (
        f"{name} continues after the {duration:.2f} s that its header promises; "
        f"{spare:.2f} s are left out"
    )


def replace_bytes(end: int, position: int, data: bytes) -> Pieces:
    """Return the first `end` bytes of a file as pieces, `data` replacing those at `position`."""
    after = min(position + len(data), end)
    return (range(min(position, end)), data[: max(0, end - position)], range(after, end))


def too_few_bytes(promised: int, there: int) -> str:
    """Return the end of a sentence, after a file's name, about missing bytes of samples."""
    return (
        f"is truncated: its header promises {promised} bytes of samples, but it "
        f"has only {max(0, there)}"
    )


class Handle:
    """An open file that can be opened again, each time at its start, without its path."""

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor, self._name = descriptor, name

    def open(self, mode: Literal["rb"], /) -> BinaryIO:
        """Return the file, open at its start."""
        return io.BufferedReader(_Raw(self._descriptor, self._name))


class _Raw(io.RawIOBase):
    """A file that is read through a descriptor, with a position of its own."""

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor, self._at = descriptor, 0
        self.name = name

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        if sys.platform == "win32":
            raise OSError
        count = os.preadv(self._descriptor, [buffer], self._at)
        self._at += count
        return count

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        start = self._size() if whence == os.SEEK_END else self._at if whence else 0
        if start + offset < 0:
            raise ValueError(f"negative position {start + offset}")
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def _size(self) -> int:
        """Return the file's size without `os.fstat`, whose system call can examine other files."""
        place = os.lseek(self._descriptor, 0, os.SEEK_CUR)
        size = os.lseek(self._descriptor, 0, os.SEEK_END)
        os.lseek(self._descriptor, place, os.SEEK_SET)
        return size


class Sink(io.FileIO):
    """A binary file for writing that keeps the first error instead of raising it.

    libsndfile and its encoders ignore failed writes and seeks. After an error nothing more is
    written; `check` raises it.
    """

    def __init__(self, path: str | os.PathLike[str] | int, name: str, *, new: bool = False) -> None:
        self._called = name
        self._error: OSError | None = None
        file = path if isinstance(path, int) else os.fspath(path)
        super().__init__(file, "x+" if new else "w+")

    def write(self, data: Any) -> int:
        """Write all of `data` unless there is an error; return the length of `data` in any case."""
        left = memoryview(data)
        try:
            while len(left) and self._error is None:
                left = left[super().write(left) :]
        except OSError as error:
            self._error = error
        return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move to a position, and return it; if this fails, return 0."""
        try:
            return super().seek(offset, whence)
        except OSError as error:
            self._error = self._error or error
            return 0

    def tell(self) -> int:
        """Return the position, or 0 if it cannot be determined."""
        return self.seek(0, os.SEEK_CUR)

    def check(self) -> None:
        """Raise an AlphaMFError with the first error, if there was one."""
        if self._error is not None:
            what = f"{self._called} cannot be written: {reason(self._error)}"
            raise AlphaMFError(what) from self._error


_BLOCK = 1 << 16
_KEPT = 4
"""Maximum number of blocks in memory: more than one, because a scan also reads a little ahead."""


class Scan:
    """The bytes of a file from a position on; if read in order, they are read from disk once."""

    def __init__(self, file: BinaryIO, name: str = "", size: int | None = None) -> None:
        self.name = name
        self._start, self._file = 0, file
        self.size: int = file.seek(0, os.SEEK_END) if size is None else size
        self._blocks: dict[int, bytes] = {}

    def rest(self, at: int) -> Self:
        """Return a `Scan` of the bytes from a position on."""
        new = type(self)(self._file, self.name, self.size - at)
        new._start, new._blocks = self._start + at, self._blocks
        return new

    def get(self, at: int, count: int) -> bytes:
        """Return `count` bytes from a position on; fewer at the end of the file."""
        count = min(count, self.size - at)
        if count <= 0:
            return b""
        k, first = divmod(self._start + at, _BLOCK)
        data = self._block(k)[first : first + count]
        while len(data) < count and (more := self._block(k := k + 1)):
            data += more[: count - len(data)]
        return data

    def find(self, what: re.Pattern[bytes], width: int, at: int) -> int:
        """Return the next position, from `at` on, of a pattern of `width` bytes, or -1."""
        while at + width <= self.size:
            k, first = divmod(self._start + at, _BLOCK)
            found = what.search(self._block(k), first)
            edge = (k + 1) * _BLOCK - self._start
            if not found:  # or it lies across the end of the block
                before = max(at, edge - width + 1)
                found = what.search(self.get(before, 2 * width - 2))
                at = before if found else edge
            else:
                at = k * _BLOCK - self._start
            if found:
                at += found.start()
                return at if at + width <= self.size else -1
        return -1

    def _block(self, k: int) -> bytes:
        data = self._blocks.get(k)
        if data is None:
            self._file.seek(k * _BLOCK)
            data = self._file.read(_BLOCK)
            while len(self._blocks) >= _KEPT:
                del self._blocks[next(iter(self._blocks))]
            self._blocks[k] = data
        return data

    def holds_sound(self, at: int) -> bool:
        """Return whether the bytes from a position on begin with no tag and are not all zeros."""
        if is_tag(self.get(at, 8)):
            return False
        return self.find(_NOT_ZERO, 1, at) >= 0


_NOT_ZERO = re.compile(rb"[^\0]")


def is_tag(head: bytes) -> bool:
    """Return whether 8 bytes are the start of a tag that is written after the sound."""
    return head.startswith((b"TAG", b"APETAGEX", b"LYRICSBE", b"ID3"))


class PiecedFile(NamedTuple):
    """Pieces of a file as one file, which can be opened more than once."""

    source: Any  # The file: a path, or another object with such an `open` method
    pieces: Pieces  # Pieces to read, in their order

    def open(self, mode: Literal["rb"] = "rb", /) -> BinaryIO:
        """Open the pieces as one file; closing it also closes the underlying file."""
        file = self.source.open(mode)
        return io.BufferedReader(_View(file, self.pieces, file.close))


class _View(io.RawIOBase):
    """A readable file made of pieces of another."""

    def __init__(self, file: BinaryIO, pieces: Pieces, end: Callable[[], None]) -> None:
        self._file, self._end = file, end
        self._pieces = [piece for piece in pieces if len(piece)]
        self._ends = list(accumulate(map(len, self._pieces)))
        self.size: int = self._ends[-1] if self._ends else 0
        self._at = 0

    def close(self) -> None:
        super().close()
        self._end()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        target = memoryview(buffer).cast("B")
        count = 0
        for data in self._from(self._at, len(target)):
            target[count : count + len(data)] = data
            count += len(data)
        self._at += count
        return count

    def _from(self, at: int, count: int) -> Iterator[bytes]:
        k = bisect_right(self._ends, at)
        while k < len(self._pieces) and count > 0:
            piece = self._pieces[k]
            first = at - self._ends[k] + len(piece)
            part = piece[first : first + count]
            if isinstance(part, range):
                self._file.seek(part.start)
                part = self._file.read(len(part))
            yield part
            if not part:
                return
            at, count = at + len(part), count - len(part)
            k += at >= self._ends[k]
