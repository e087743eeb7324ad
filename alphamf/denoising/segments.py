"""Split a stream of audio into overlapping pieces, so that memory does not grow with its length."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from alphamf.tools.arrays import Floats


class Piece(NamedTuple):
    """An input segment, followed by its overlap.

    Attributes
    ----------
    audio
        Shape (samples, channels).
    step
        Samples from its start to the next piece's: all of them in the last piece; what follows
        `step` comes again at the start of the next.
    """

    audio: Floats
    step: int


class Cutter:
    """Cuts a stream into pieces of ``step + overlap`` samples.

    The last piece holds what is left, from ``step / 2 + overlap`` to ``3 step / 2 + overlap``
    samples, so that none is too short to learn a noise from; a shorter stream is one piece.

    Parameters
    ----------
    step, overlap
        In samples.

    Attributes
    ----------
    limit
        The most samples that are held back.
    """

    step: int
    overlap: int

    def __init__(self, step: int, overlap: int) -> None:
        self.step, self.overlap = step, overlap
        self.limit: int = step + overlap + step // 2
        self._held: list[Floats] = []
        self._count = 0

    def push(self, block: Floats) -> None:
        """Add a block, shape (samples, channels)."""
        self._held.append(block)
        self._count += len(block)

    def piece(self) -> Piece | None:
        """Return the next piece, or None if it is not complete yet."""
        if self._count <= self.limit:
            return None
        audio = self._held[0] if len(self._held) == 1 else np.concatenate(self._held)
        self._held = [audio[self.step :]]
        self._count -= self.step
        return Piece(audio[: self.step + self.overlap], self.step)

    def last(self) -> Piece | None:
        """Return the rest of the stream as one piece, or None if nothing is left."""
        if not self._count:
            return None
        audio = np.concatenate(self._held)
        self._held, self._count = [], 0
        return Piece(audio, len(audio))


def fade_in(audio: Floats, before: Floats) -> None:
    """Crossfade linearly from the end of the previous piece into the start of `audio`, in place.

    The two hold the same sound, so amplitudes are what has to add up to one.
    """
    n = len(before)
    rise = ((np.arange(n, dtype=np.float32) + 0.5) / np.float32(n))[:, None]
    audio[:n] = before + rise * (audio[:n] - before)
