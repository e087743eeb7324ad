"""Windows at other rates than the model's."""

from hypothesis import example, given
from hypothesis import strategies as st
from scipy.fft import next_fast_len

from alphamf.denoising.grids import nearest_hop


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
