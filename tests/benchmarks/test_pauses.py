"""What is left in pauses, the curve of levels, and weak onsets, on sounds that are known."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import pauses

RATE = 16000
FRAME = round(pauses.FRAME * RATE)


def noise(seed: int, samples: int) -> np.ndarray:
    """Return white noise of mean square 1."""
    return np.random.default_rng(seed).standard_normal(samples)


def speech(*levels: float) -> np.ndarray:
    """Return half a second of noise at each level in dB; -inf: silence."""
    return np.concatenate(
        [10 ** (level / 20) * noise(k, RATE // 2) for k, level in enumerate(levels)]
    )


CLEAN = speech(-10, -np.inf, -14, -np.inf)


def test_what_is_left_in_pauses_is_told_from_the_speech():
    whole = np.mean(CLEAN**2)
    for level in (-20, -40, -60):
        added = 10 ** (level / 20) * np.sqrt(whole) * noise(9, len(CLEAN))
        found = pauses.left_in_pauses(CLEAN, CLEAN + added, RATE)
        assert found == pytest.approx(level, abs=0.2)
        # Errors of the speech do not count.
        louder = np.where(CLEAN == 0, added, 2 * CLEAN)
        assert pauses.left_in_pauses(CLEAN, louder, RATE) == pytest.approx(level, abs=0.2)
    assert pauses.left_in_pauses(CLEAN, CLEAN, RATE) < -100
    assert np.isnan(pauses.left_in_pauses(speech(-10, -12), speech(-10, -12), RATE))


def test_a_pause_ends_before_the_speech():
    silent = pauses.pauses(CLEAN, RATE)
    half = RATE // 2 // FRAME
    assert not silent[:half].any() and silent[half + 2 : 2 * half - 2].all()
    assert not silent[half] and not silent[2 * half - 1]


def test_above_the_edge_only_what_lies_there_counts():
    rate = 48000
    clean = np.concatenate([noise(0, rate), np.zeros(rate)])
    time = np.arange(2 * rate) / rate
    low, high = (0.01 * np.sin(2 * np.pi * hertz * time) for hertz in (1000, 12000))
    left = [pauses.level_above(clean, clean + each, rate) for each in (low, high)]
    assert left[0] < -70
    # Half of the noise's power lies from 8 to 20 kHz, and its mean is over speech and pause.
    assert left[1] == pytest.approx(10 * np.log10(0.5 * 0.01**2 / (0.5 * 0.5)), abs=0.3)


def test_the_curve_is_straight_for_the_truth_and_ends_where_noise_is_left():
    clean = speech(0, -20, -40, -60, -80)
    hiss = 10 ** (-45 / 20) * noise(8, len(clean))
    truth, noisy = (pauses.curve(clean, each, RATE) for each in (clean, clean + hiss))
    np.testing.assert_array_equal(truth[:, 1], noisy[:, 1])
    means = [10 * np.log10(each[:, 0] / each[:, 1]) for each in (truth, noisy)]
    for level, top in zip(means[0][:-1], pauses.LEVELS, strict=False):
        assert top - 10 < level <= top
    assert means[0][-1] < -80 and means[1][-1] > -65 and np.all(np.diff(means[1]) <= 0.5)
    np.testing.assert_allclose(means[1][:2], means[0][:2], atol=0.1)


def test_of_weak_onsets_what_is_kept_is_measured():
    clean = speech(0, -np.inf, -30, 0, -np.inf, 0)
    found = pauses.onsets(clean, clean, RATE)
    assert len(found) == 1  # the loud ones and that without a pause are none
    assert found[0][0] == pytest.approx(0, abs=0.01)
    hiss = 10 ** (-40 / 20) * noise(8, len(clean))
    assert pauses.onsets(clean, 0.5 * clean + hiss, RATE)[0][0] == pytest.approx(-6, abs=0.8)
    assert pauses.onsets(clean, 0 * clean, RATE)[0][0] == pytest.approx(-60)


def test_fricatives_are_the_onsets_with_more_power_above_4_khz():
    time = np.arange(RATE // 2) / RATE
    for hertz in (200, 3500, 4500, 7000):
        onset = 10 ** (-30 / 20) * np.sin(2 * np.pi * hertz * time)
        clean = np.concatenate([speech(0, -np.inf), onset, speech(0)])
        ((kept, fricative),) = pauses.onsets(clean, clean, RATE)
        assert fricative == (hertz > pauses.FRICATIVE) and kept == pytest.approx(0, abs=0.01)
