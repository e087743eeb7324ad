"""One block of ratings: its gradient and its predictions, without forming the dense matrix."""

from __future__ import annotations

import numpy as np

from alphamf.inference.blocks.ratings import Entries
from alphamf.tools.arrays import Array, Floats

CHUNK = 8192
"""Ratings whose rows of W and H are multiplied at once, so that their products stay in cache."""


class Scratch:
    """Buffers shared by all blocks of a rank, which use them one at a time."""

    def __init__(self, most: int, rank: int) -> None:
        self.error: Floats = np.empty(most, np.float32)
        self.rows: Floats = np.empty((CHUNK, rank), np.float32)
        self.columns: Floats = np.empty((CHUNK, rank), np.float32)
        self.ones: Floats = np.ones(rank, np.float32)


class BlockLikelihood:
    r"""The likelihood of a block.

    With E the matrix of errors, of the ratings' pattern, the gradients are E H' and
    W' E times a weight: sampled dense-dense products first, then sparse-dense ones.
    """

    entries: Entries  # Ratings, less the model's offset; their values are kept as they are

    def __init__(self, entries: Entries, shape: tuple[int, int], scratch: Scratch) -> None:
        from scipy.sparse import csr_array

        self.entries, self._scratch = entries, scratch
        starts = np.searchsorted(entries.rows, np.arange(shape[0] + 1)).astype(np.int32)
        self._error = scratch.error[: len(entries.values)]
        self._matrix = csr_array((self._error, entries.columns, starts), shape=shape)
        # SciPy copies what is a small part of a larger array.
        self._matrix.data = self._error
        self._across = self._matrix.T

    def gradient(self, w: Array, h: Array, weight: float) -> tuple[Array, Array]:
        """Return the gradients by W, (I_b, K), and by H, (J_b, K), times `weight`.

        `w`, `h`: rows of W, shape (I_b, K), and of the transpose of H, shape (J_b, K).
        """
        rows, columns, values = self.entries
        error = products(w, h, rows, columns, self._scratch)
        error -= values
        error *= weight
        return self._matrix @ h, self._across @ w


def products(w: Array, h: Array, rows: Array, columns: Array, scratch: Scratch) -> Array:
    """Return inner products of rows of w and rows of h in ``scratch.error``, shape (n,).

    `rows`, `columns`: row of w and row of h of each rating, shape (n,).
    """
    out = scratch.error[: len(rows)]
    for first in range(0, len(rows), CHUNK):
        part = slice(first, min(first + CHUNK, len(rows)))
        count = part.stop - first
        left, right = scratch.rows[:count], scratch.columns[:count]
        # With "raise", the default, take would write to a buffer of its own first.
        np.take(w, rows[part], axis=0, out=left, mode="clip")
        np.take(h, columns[part], axis=0, out=right, mode="clip")
        left *= right
        np.matmul(left, scratch.ones, out=out[part])
    return out
