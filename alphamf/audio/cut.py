"""What the checks of headers have to say of a file that was cut, or whose length was never set."""

from __future__ import annotations

from typing import NamedTuple

from alphamf.errors import AlphaMFError


class Patch(NamedTuple):
    """Bytes that a copy of a file has to hold at a position, so that libsndfile reads its samples.

    Attributes
    ----------
    position
        From the start of the file.
    data
        The bytes.
    """

    position: int
    data: bytes


class Cut(AlphaMFError):
    """A file that ends before what its header promises.

    Parameters
    ----------
    sentence
        What is promised, and what is there.
    patch
        What lets libsndfile read the part that is there; None where it does so anyway.
    """

    def __init__(self, sentence: str, patch: Patch | None = None) -> None:
        super().__init__(sentence)
        self.patch = patch


class Undecodable(Exception):
    """Samples that a decoder cannot read; the text says why."""


def short(name: str, promised: int, there: int, patch: Patch | None = None) -> Cut:
    """Return the error of a file that holds fewer bytes of samples than its header promises.

    Parameters
    ----------
    name
        Its name in the sentence.
    promised, there
        Bytes of samples.
    patch
        As for `Cut`.
    """
    return Cut(
        f"{name} is cut short: its header promises {promised} bytes of samples and "
        f"{max(0, there)} are there",
        patch,
    )
