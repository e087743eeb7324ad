"""The power of the gain: the network's own where there is speech, and larger in pauses."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from alphamf.learnt import bands, high_band
from alphamf.learnt import refiner as pauses
from alphamf.learnt.bands import ABOVE, BELOW, COUNT, Pooling, edges
from alphamf.learnt.high_band import HighBand
from alphamf.learnt.network_file import find, shipped_networks
from alphamf.learnt.refiner import Refiner

shares = arrays.arrays(
    np.float64, st.tuples(st.just(2), st.integers(1, 12)), elements=st.floats(0, 1)
)


@pytest.mark.parametrize(
    ("decibels", "expected"), [(0, 0.7), (-12, 0.7), (-17, 0.85), (-22, 1.0), (-300, 1.0)]
)
def test_the_power_rises_from_speech_to_pauses(decibels, expected):
    share = np.array([10 ** (decibels / 10)])
    np.testing.assert_allclose(pauses.exponents(share, 0.7, np), expected, rtol=1e-6)


def test_the_share_is_of_power():
    gain, power = np.array([[0.5, 1.0], [0.0, 1.0]]), np.array([[4.0, 0.0], [12.0, 0.0]])
    np.testing.assert_allclose(pauses.speech_share(gain, power), [1 / 16, 0])


@given(shares)
def test_a_pause_is_not_beside_speech(share):
    found = pauses.largest_around(share, np)
    for k in range(share.shape[1]):
        near = share[:, max(k - pauses.AROUND, 0) : k + pauses.AROUND + 1]
        np.testing.assert_array_equal(found[:, k], near.max(axis=1))


@pytest.mark.parametrize("name", [n for n in shipped_networks() if n.startswith("refiner")])
def test_a_refiner_takes_more_of_a_pause(name):
    """A second of a loud tone in noise, and noise alone after it."""
    refiner = Refiner.load(find(name))
    rng = np.random.default_rng(0)
    bins, frames = refiner.frame.bins, 120
    power = rng.exponential(1.0, (bins, frames)).astype(np.float32)
    power[20:24, :60] *= 1e4
    gain = np.where(power > 100, 0.99, 0.05).astype(np.float32)
    speech = gain * power + np.float32(1e-3)
    inputs = {"gain": gain, "gain_std": 0.1 * gain, "speech": speech, "noise": np.ones_like(power)}
    plain = replace(refiner, exponent=1.0).refine(power, **inputs) ** refiner.exponent
    found = refiner.refine(power, **inputs)
    share = pauses.speech_share(plain, power)
    assert (found <= plain * 1.001).all()
    if refiner.exponent < pauses.IN_PAUSES:
        np.testing.assert_allclose(found[:, 10:50], plain[:, 10:50], rtol=1e-4)
        assert pauses.speech_share(found, power)[70:].max() < 0.5 * share[70:].max()


def test_the_bands_above_lose_more_where_they_have_no_speech():
    """Half a second of hiss that is speech, and a noise alone after it."""
    known = HighBand.load(find("high-band-16k"))
    rng = np.random.default_rng(0)
    shape = bands.COUNT, 200
    noise = rng.exponential(1.0, shape).astype(np.float32)
    speech = 1e-6 * np.ones_like(noise)
    speech[:, :60] = 1e3 * rng.exponential(1.0, (bands.COUNT, 60))
    gain = speech / (speech + noise)
    inputs = [speech + noise, gain, 0.1 * gain, speech, noise]
    network_own = replace(known, exponent=high_band.IN_PAUSES).gains(inputs)
    plain = network_own ** (known.exponent / high_band.IN_PAUSES)
    found, above = known.gains(inputs), slice(bands.BELOW, None)
    assert (found <= plain * 1.001).all()
    np.testing.assert_allclose(found[:, :60], plain[:, :60], rtol=1e-4)
    left, before = (pauses.speech_share(each[above], noise[above]) for each in (found, plain))
    assert np.median(left[80:]) < 0.6 * np.median(before[80:])


# Bands of a whole recording ----------------------------------------------------------------------


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
