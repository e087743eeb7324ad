"""What is left in pauses, and weak onsets, on sounds that are known."""

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


def test_of_weak_onsets_what_is_kept_is_measured():
    clean = speech(0, -np.inf, -30, 0, -np.inf, 0)
    found = pauses.onsets(clean, clean, RATE)
    assert len(found) == 1  # the loud ones and that without a pause are none
    assert found[0][0] == pytest.approx(0, abs=0.01)
    hiss = 10 ** (-40 / 20) * noise(8, len(clean))
    assert pauses.onsets(clean, 0.5 * clean + hiss, RATE)[0][0] == pytest.approx(-6, abs=0.8)
    assert pauses.onsets(clean, 0 * clean, RATE)[0][0] == pytest.approx(-60)
