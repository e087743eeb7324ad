"""Tokens of documents: their words and topics, and tables of their counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.tools.arrays import Array, parts

CHUNK = 200_000
"""Entries of the table tokens x topics that are held at once, so that it stays in cache."""


def tokens(counts: Any) -> tuple[Array, Array]:
    """Return the word of each token, document by document, and where each document starts."""
    if getattr(counts, "format", None) != "csr":
        raise AlphaMFError(f"counts must be a scipy.sparse CSR array, not {type(counts).__name__}")
    number = counts.data.astype(np.int64)
    if (number != counts.data).any() or (number < 0).any():
        raise AlphaMFError("counts must be non-negative whole numbers")
    ends = np.concatenate([[0], number.cumsum()])
    return np.repeat(counts.indices.astype(np.int32), number), ends[counts.indptr]


def assign(rng: Any, phi: Array, factors: Array, words: Array, documents: Array) -> Array:
    """Draw each token's topic, with probability proportional to phi_vk theta_kn.

    `phi`, `factors`: shapes (*chains, V, K) and (*chains, N, K). Returns: shape (*chains, tokens):
    the first topic at which the cumulative sum reaches the total times a uniform number from (0,
    1], so that a topic of probability zero is never drawn.
    """
    chains, topics = phi.shape[:-2], phi.shape[-1]
    out = np.empty((*chains, len(words)), np.int16)
    step = max(1, CHUNK // (int(np.prod(chains)) * topics))
    for part in parts(len(words), step):
        table = phi.take(words[part], axis=-2)
        table *= factors.take(documents[part], axis=-2)
        table.cumsum(-1, out=table)
        level = 1 - rng.random(table.shape[:-1], dtype=table.dtype)
        level *= table[..., -1]
        out[..., part] = (table >= level[..., None]).argmax(-1)
    return out


def count_table(rows: Array, topics: Array, count: int, rank: int) -> Array:
    """Count tokens by row (word or document) and topic, shape (*chains, count, rank).

    `rows`: word or document of each token, shape (tokens,). `topics`: topic of each token, shape
    (*chains, tokens).
    """
    shape = (*topics.shape[:-1], count, rank)
    size = int(np.prod(shape))
    return (
        np.bincount(flat_index(rows, topics, shape), minlength=size).astype(np.int32).reshape(shape)
    )


def flat_index(rows: Array, topics: Array, shape: tuple[int, ...]) -> Array:
    """Index of each token's row and topic in a flattened table of shape (*chains, count, K).

    `rows`: word or document of each token, shape (tokens,). `topics`: topic of each token, shape
    (*chains, tokens). `shape`: shape of the table.
    """
    chains = np.arange(int(np.prod(shape[:-2]))).reshape(*shape[:-2], 1) * (shape[-2] * shape[-1])
    return (chains + rows.astype(np.int64) * shape[-1] + topics).reshape(-1)


def tails_of(x: Array) -> Array:
    """Count documents with more than j tokens of a topic: (*chains, N, K) to (*chains, K, J)."""
    most = max(1, int(x.max(initial=0)))
    cells = np.arange(int(np.prod(x.shape[:-2])) * x.shape[-1]).reshape(*x.shape[:-2], 1, -1)
    flat = (cells * (most + 1) + x).reshape(-1)
    heads = np.bincount(flat, minlength=cells.size * (most + 1))
    heads = heads.reshape(*x.shape[:-2], x.shape[-1], most + 1)
    return heads[..., ::-1].cumsum(-1)[..., ::-1][..., 1:]
