"""The gain of an output and its deviation, and the range of the speech's level."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphamf.audio import stft
from alphamf.audio.reader import read
from alphamf.audio.stft import Frame
from alphamf.denoising import uncertainty
from alphamf.denoising.api import denoise
from alphamf.denoising.settings import PRESETS
from alphamf.learnt.dictionary import choose

FRAME = Frame(512, 128)


@given(least=st.sampled_from([0.0, 0.1, 0.5]))
def test_the_gain_of_an_output_is_the_one_that_made_it(least):
    noisy = np.random.default_rng(0).standard_normal((20, 60), np.float32).view(np.complex64)
    noisy[3] = 0
    gain = np.random.default_rng(1).uniform(0, 1, noisy.shape).astype(np.float32)
    found = uncertainty.output_gain(noisy, gain * noisy, np.float32(least))
    np.testing.assert_allclose(found, np.maximum(np.where(noisy == 0, 0, gain), least), atol=1e-5)
    std = uncertainty.network_gain_std(np.abs(noisy) ** 2, found, np.linspace(0, 8000, len(found)))
    assert found.dtype == std.dtype == np.float32
    assert (std[3] == 0).all() and (np.delete(std, 3, 0) > 0).all() and (std <= 0.5).all()


def test_a_loud_cell_is_surest_at_an_end_and_a_faint_one_nowhere():
    gain = np.linspace(0, 1, 21, dtype=np.float32)
    least = uncertainty.faint_levels(np.array(1000))
    loud, faint = (uncertainty.deviation(gain, np.full_like(gain, x), least) for x in (10, 1e-6))
    assert (np.diff(loud[:11]) > 0).all() and 0 < loud[0] < 0.06 and 0.3 < loud[10] < 0.5
    np.testing.assert_allclose(loud, loud[::-1], rtol=1e-5)
    np.testing.assert_allclose(faint, uncertainty.CHOSEN.faint_std, rtol=1e-3)


def test_a_cell_may_be_fainter_at_a_high_frequency_before_its_gain_is_in_doubt():
    """Of a gain of 0: at 24 dB less an octave above the bend it is as much in doubt."""
    faint = uncertainty.faint_levels(np.array([3000, 48000, 96000]))
    level = np.array([1e-4, 1e-4, 1e-4 / 16], np.float32)
    low, high, higher = uncertainty.deviation(np.zeros_like(level), level, faint)
    assert high < 0.5 * low and higher == pytest.approx(high, rel=0.01)


def test_the_powers_of_a_frame_add_up_to_the_mean_square():
    sine = np.sin(2 * np.pi * 1000 * np.arange(8000) / 8000).astype(np.float32)[:, None]
    power = uncertainty.powers(sine, FRAME, 60)
    assert power.shape == (1, 257, 60)
    np.testing.assert_allclose(power[0, :, 10:50].sum(0), 0.5, rtol=1e-3)


def test_the_range_of_the_level_is_around_it_and_no_wider_than_no_and_all_of_the_sound():
    power, gain, std = np.random.default_rng(0).uniform(0, 1, (3, 2, 20, 30))
    low, middle, high = uncertainty.levels(power, gain, std).T
    assert (low <= middle).all() and (middle <= high).all()
    assert (low >= 0).all() and (high <= power.sum(1).mean(0) + 1e-9).all()
    sure = uncertainty.levels(power, gain, 0 * std).T
    np.testing.assert_array_equal(sure[0], sure[2])


@pytest.mark.parametrize("channels", [1, 2])
def test_the_gain_after_a_second_stage_is_that_of_the_output(channels):
    noisy, rate = read("data/sample-noisy.wav")
    noisy = noisy[:rate, 0]
    both = np.stack([noisy, 0.5 * noisy], axis=1)[:, :channels]
    found = denoise(both, rate, replace(PRESETS["fast"], warm_up=2, steps=3, keep=1))
    frame = choose("auto", rate).frame
    mixture, output = (stft.forward(x, frame) for x in (noisy, found.audio[:, 0]))
    power = np.abs(mixture) ** 2
    share = np.clip((output * mixture.conj()).real / power, 0, 1)
    loud = power > 1e-3 * power.mean()
    loud[:, [0, 1, -3, -2, -1]] = False  # windows that reach into the mirror images
    np.testing.assert_allclose(found.gain[0][loud], share[loud], atol=1e-3)
