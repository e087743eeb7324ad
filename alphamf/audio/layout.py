"""Results of header checks: where recordings end, and what is missing or left over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from alphamf.errors import AlphaMFError

Pieces = Sequence[bytes | range]
"""The file that a decoder reads: ranges of the original's bytes, and replacements of others."""


class Extent(NamedTuple):
    """Where the recording at the start of a file ends.

    Attributes
    ----------
    end
        Position after the last byte that its header accounts for.
    pieces
        Pieces that the decoder has to read, if not the bytes as they are.
    stops
        Whether the decoder stops there, so that it leaves out sound that follows.
    frames
        Samples per channel that the header promises, where `pieces` hide that from the decoder;
        None: not known.
    md5
        MD5 sum of the samples in the header of FLAC; None: not known.
    """

    end: int
    pieces: Pieces | None = None
    stops: bool = True
    frames: int | None = None
    md5: bytes | None = None


class FilePart(NamedTuple):
    """A recording in a file.

    Attributes
    ----------
    pieces
        Pieces that a decoder reads; None: the whole file.
    frames
        Samples per channel that its header promises, where the decoder does not see that.
    md5
        MD5 sum of its samples by its header; None: not known.
    """

    pieces: Pieces | None = None
    frames: int | None = None
    md5: bytes | None = None


class Layout(NamedTuple):
    """The recordings in a file, and what is wrong with it.

    Attributes
    ----------
    parts
        Its recordings.
    spare
        Bytes after them that may be sound, and that no decoder reads.
    cut
        A sentence where a part is missing; otherwise None.
    """

    parts: Sequence[FilePart] = (FilePart(),)
    spare: int = 0
    cut: str | None = None


class TruncationError(AlphaMFError):
    """Error for a file that ends before the length in its header.

    Parameters
    ----------
    sentence
        Promised and actual number of bytes.
    pieces
        Pieces with which libsndfile reads the existing part; None if it does so anyway.
    """

    def __init__(self, sentence: str, pieces: Pieces | None = None) -> None:
        super().__init__(sentence)
        self.pieces = pieces

    def __reduce__(self) -> tuple[type[TruncationError], tuple[str, Pieces | None]]:
        """Pickle the error together with its pieces."""
        return TruncationError, (str(self), self.pieces)


class DecodingError(Exception):
    """Error for samples that a decoder cannot read; the message says why."""


class OmissionError(DecodingError):
    """Error for sound that is left out; the message continues after the file's name."""


LEAST = 0.01
"""Seconds of data after a recording from which on they are considered to be sound."""


def excess_sentence(name: str, duration: float, spare: float) -> str:
    """Return a sentence about sound beyond the length in a header.

    Parameters
    ----------
    name
        Name of the file.
    duration, spare
        Seconds that are promised, and those that follow.
    """
    return (
        f"{name} continues after the {duration:.2f} s that its header promises; "
        f"{spare:.2f} s are left out"
    )


def replace_bytes(end: int, position: int, data: bytes) -> Pieces:
    """Return the first bytes of a file with some of them replaced.

    Parameters
    ----------
    end
        How many bytes.
    position, data
        Position of the replacement, and its bytes.
    """
    after = min(position + len(data), end)
    return (range(min(position, end)), data[: max(0, end - position)], range(after, end))


def truncation_error(
    name: str, promised: int, there: int, pieces: Pieces | None = None
) -> TruncationError:
    """Return the error for a file with fewer bytes of samples than its header promises.

    Parameters
    ----------
    name
        Its name in the sentence.
    promised, there
        Bytes of samples.
    pieces
        As for `TruncationError`.
    """
    return TruncationError(
        (
            f"{name} is truncated: its header promises {promised} bytes of samples, but it "
            f"has only {max(0, there)}"
        ),
        pieces,
    )
