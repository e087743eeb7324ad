"""A stream of audio cut into overlapping pieces, so that memory does not grow with its length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from alphamf.stft import Floats


class Piece(NamedTuple):
    """A stretch of the input.

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


def cut(blocks: Iterable[Floats], step: int, overlap: int) -> Iterator[Piece]:
    """Cut a stream into pieces of ``step + overlap`` samples.

    The last piece holds what is left, from ``step / 2 + overlap`` to ``3 step / 2 + overlap``
    samples, so that none is too short to learn a noise from; a shorter stream is one piece.

    Parameters
    ----------
    blocks
        Arrays of shape (samples, channels), of any number of samples.
    step, overlap
        In samples.
    """
    held: list[Floats] = []
    count = 0
    limit = step + overlap + step // 2
    for block in blocks:
        held.append(block)
        count += len(block)
        while count > limit:
            audio = held[0] if len(held) == 1 else np.concatenate(held)
            yield Piece(audio[: step + overlap], step)
            held = [audio[step:]]
            count -= step
    if count:
        audio = np.concatenate(held)
        yield Piece(audio, len(audio))


def fade_in(audio: Floats, before: Floats) -> None:
    """Fade from the end of the piece before into the start of `audio`, in place and linearly.

    The two hold the same sound, so amplitudes are what has to add up to one.
    """
    n = len(before)
    rise = ((np.arange(n, dtype=np.float32) + 0.5) / np.float32(n))[:, None]
    audio[:n] = before + rise * (audio[:n] - before)
