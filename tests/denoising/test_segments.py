"""Pieces of a stream: they cover it, in the same way for every size of block."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphamf.denoising.segments import Cutter, fade_in

SIZES = st.lists(st.integers(0, 400), max_size=12)


def stream(sizes, channels=2):
    """Blocks of the given sizes, whose samples count up, and the whole of them."""
    whole = np.arange(sum(sizes) * channels, dtype=np.float32).reshape(-1, channels)
    return np.split(whole, np.cumsum(sizes)[:-1]) if sizes else [], whole


def cut(blocks, step, overlap):
    cutter = Cutter(step, overlap)
    for block in blocks:
        cutter.push(block)
        yield from iter(cutter.piece, None)
    yield from iter(cutter.last, None)


@settings(deadline=None, derandomize=True, max_examples=120)
@given(sizes=SIZES, step=st.integers(2, 150), overlap=st.integers(0, 60))
def test_pieces_cover_the_stream(sizes, step, overlap):
    blocks, whole = stream(sizes)
    pieces = list(cut(iter(blocks), step, overlap))
    if not len(whole):
        assert pieces == []
        return
    np.testing.assert_array_equal(np.concatenate([p.audio[: p.step] for p in pieces]), whole)
    for piece, following in pairwise(pieces):
        assert piece.step == step
        assert len(piece.audio) == step + overlap
        # What comes again is what the two are faded over.
        np.testing.assert_array_equal(piece.audio[step:], following.audio[:overlap])
    last = pieces[-1]
    assert last.step == len(last.audio) <= step + overlap + step // 2
    if len(pieces) > 1:
        assert last.step > step // 2 + overlap


def test_cutting_holds_little():
    """A piece comes as soon as the one after it cannot be too short."""
    asked = 0

    def blocks():
        nonlocal asked
        while True:
            asked += 1
            yield np.zeros((10, 1), np.float32)

    next(cut(blocks(), 100, 20))
    assert asked == 18  # the first sample beyond 100 + 20 + 50


@pytest.mark.parametrize("n", [0, 1, 2, 100])
def test_fade_sums_to_one(n):
    one, nothing = np.ones((n, 2), np.float32), np.zeros((n, 2), np.float32)
    up = np.concatenate([one, np.full((5, 2), 3, np.float32)])
    down, both = nothing.copy(), one.copy()
    fade_in(up, nothing)
    fade_in(down, one)
    fade_in(both, one)
    np.testing.assert_allclose(up[:n] + down, 1, rtol=1e-6)
    np.testing.assert_array_equal(both, one)
    np.testing.assert_array_equal(up[n:], 3)
    assert up.dtype == np.float32
    if n:
        steps = np.diff(up[:n, 0], prepend=0)
        assert (steps > 0).all()
        np.testing.assert_allclose(up[n - 1], 1 - 0.5 / n, rtol=1e-6)
