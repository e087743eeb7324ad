"""Windows at other rates than the model's."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.fft import next_fast_len

from alphamf.audio.stft import Frame
from alphamf.denoising.grids import Grid, count_bins_within, nearest_hop, regrid


@given(st.floats(0.01, 5000))
@example(17.25)
@example(38.0)
def test_a_hop_is_the_nearest_that_the_fft_is_fast_for(length):
    fast = [n for n in range(1, int(1.2 * length) + 4) if next_fast_len(n) == n]
    nearest = min(abs(n - length) for n in fast)
    hop = nearest_hop(length)
    assert hop in fast
    assert abs(hop - length) == nearest
    assert abs(hop - length) <= max(1, 0.053 * length)


@pytest.mark.parametrize(("rate", "n_fft"), [(44100, 2800), (22050, 1408), (16000, 500)])
def test_cells_are_moved_by_their_frequency_and_time(rate, n_fft):
    """What is linear in both stays so within the band, where the grids' bins differ."""
    source, target = Grid(16000, Frame(1024, 256)), Grid(rate, Frame(n_fft, n_fft // 4))
    kept = count_bins_within(source, target)
    before, after = (
        each.frequencies[:, None] / 1e4 + np.arange(40) * each.frame.hop_length / each.rate
        for each in (source, target)
    )
    found = regrid(before.astype(np.float32), source, target, after.shape)
    np.testing.assert_allclose(found[: kept - 1, :30], after[: kept - 1, :30], rtol=1e-5)
