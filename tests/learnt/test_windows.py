"""Windows of a spectrogram: where they lie, and how they fade."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphamf.learnt import windows


@given(st.integers(1, 500), st.integers(1, 60))
def test_windows_reach_every_frame_and_overlap(frames, window):
    read = []

    def noted(x):
        read.append((int(x[0, 0]), x.shape[-1]))
        return x, -x

    given = np.arange(frames, dtype=np.float32)[None]
    one, other = windows.apply_in_windows(noted, (given,), window)
    np.testing.assert_allclose(one, given, atol=1e-4)
    np.testing.assert_allclose(other, -given, atol=1e-4)
    length = min(frames, window)
    starts = [start for start, _ in read]
    assert {count for _, count in read} == {length}
    assert (starts[0], starts[-1]) == (0, frames - length)
    # Starts are rounded to frames, so that a step is less than one longer.
    assert max(np.diff(starts), default=0) <= max(1, (1 - windows.OVERLAP) * length + 1)
    assert len(starts) <= 1 + np.ceil((frames - length) / ((1 - windows.OVERLAP) * length))


@pytest.mark.parametrize("frames", [7, 8, 20])
def test_results_fade_from_one_window_into_the_next(frames):
    """Two windows that say different things: in between it rises from one to the other."""
    values = iter(range(100))

    def counted(x):
        value = np.full_like(x, next(values))
        return value, value

    found, _ = windows.apply_in_windows(counted, (np.zeros((1, frames), np.float32),), 8)
    rises = np.diff(found[0])
    assert (rises >= -1e-6).all() and found[0, 0] == 0 and found.max() == next(values) - 1
    assert (rises <= 0.5).all()
