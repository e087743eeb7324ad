"""Bands of a whole recording: where they lie, and means over them."""

from itertools import pairwise

import numpy as np
import pytest

from alphamf.learnt import bands
from alphamf.learnt.bands import ABOVE, BELOW, COUNT, Pooling, edges


def test_bands_grow_with_the_width_of_the_ears_filters():
    wide = np.diff(edges())
    centres = (edges()[1:] + edges()[:-1]) / 2
    erb = 24.7 * (0.00437 * centres + 1)  # Glasberg and Moore (1990), eq. 3
    assert np.ptp(wide[:BELOW] / erb[:BELOW]) < 0.3  # curved within the lowest
    assert np.ptp(wide[BELOW:] / erb[BELOW:]) < 0.01
    assert edges()[BELOW] == pytest.approx(bands.FIRST_HZ)
    assert edges()[-1] == pytest.approx(bands.LAST_HZ) and len(wide) == COUNT


def test_a_band_has_the_mean_of_the_bins_in_it():
    spacing, bins = 62.5, 385
    values = np.random.default_rng(0).random((bins, 4)).astype(np.float32)
    found = Pooling(bins, spacing, BELOW, COUNT)(values)
    places = np.round(edges()[BELOW:] / spacing).astype(int)
    wanted = [values[a:b].mean(axis=0) for a, b in pairwise(places)]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize(
    ("rate", "inside"), [(16000, 1), (22050, 7), (32000, 13), (44100, 18), (48000, 18), (96000, 18)]
)
def test_bands_beyond_half_of_the_rate_are_empty(rate, inside):
    pool = Pooling(rate // 125 + 1, 62.5, BELOW, COUNT)
    found = pool(np.ones((rate // 125 + 1, 2), np.float32))
    assert pool.inside == inside and found.shape == (ABOVE, 2)
    assert (found[:inside] == 1).all() and (found[inside:] == 0).all()
