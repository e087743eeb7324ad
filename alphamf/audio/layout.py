"""Results of header checks: where recordings end, and what is missing or left over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Pieces = Sequence[bytes | range]
"""The file that a decoder reads: ranges of the original's bytes, and replacements of others."""


class Extent(NamedTuple):
    """Where the recording at the start of a file ends."""

    end: int  # Position after the last byte that its header accounts for
    # Pieces that the decoder has to read, if not the bytes as they are.
    pieces: Pieces | None = None
    stops: bool = True  # Whether the decoder stops there, so that it leaves out sound that follows
    # Samples per channel that the recording must have, where the decoder does not see a promise
    # of the header, or sees one that nobody made; None: what the decoder says.
    frames: int | None = None
    md5: bytes | None = None  # MD5 sum of the samples in the header of FLAC; None: not known
    cut: str | None = None  # What is missing, to follow the file's name; otherwise None


class FilePart(NamedTuple):
    """A recording in a file; see `Extent`."""

    pieces: Pieces | None = None  # None: the whole file
    frames: int | None = None
    md5: bytes | None = None


class Layout(NamedTuple):
    """The recordings in a file, and what is wrong with it."""

    parts: Sequence[FilePart] = (FilePart(),)  # Its recordings
    spare: int = 0  # Bytes after them that may be sound, and that no decoder reads
    cut: str | None = None  # What is missing, to follow the file's name; otherwise None


class DecodingError(Exception):
    """Error for samples that a decoder cannot read; the message says why."""


class OmissionError(DecodingError):
    """Error for sound that is left out; the message continues after the file's name."""


LEAST = 0.01
"""Seconds of data after a recording from which on they are considered to be sound."""


def excess_sentence(name: str, duration: float, spare: float) -> str:
    """Return a sentence about sound beyond the length in a header."""
    return (
        f"{name} continues after the {duration:.2f} s that its header promises; "
        f"{spare:.2f} s are left out"
    )


def replace_bytes(end: int, position: int, data: bytes) -> Pieces:
    """Return the first bytes of a file with some of them replaced."""
    after = min(position + len(data), end)
    return (range(min(position, end)), data[: max(0, end - position)], range(after, end))


def too_few_bytes(promised: int, there: int) -> str:
    """Return what is missing from a file with fewer bytes of samples than its header promises."""
    return (
        f"is truncated: its header promises {promised} bytes of samples, but it "
        f"has only {max(0, there)}"
    )
