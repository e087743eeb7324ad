"""The active level of speech is that of ITU-T P.56."""

import math

import numpy as np
import pytest

from alphamf.audio.speech_level import DEEPEST_DB, active_power, pause_depth
from alphamf.errors import AlphaMFError
from tests.support.mixes import RATE, babble, decibels


def by_the_letter(audio, rate):
    """Return the active level in dB, sample by sample as P.56 has it, with its thresholds."""
    x = audio - audio.mean(dtype=np.float64)
    decay, hangover = math.exp(-1 / (rate * 0.03)), math.ceil(0.2 * rate)
    thresholds = [2.0 ** (k - 15) for k in range(15)]
    counts, since, p, q = [0] * 15, [hangover] * 15, 0.0, 0.0
    for value in np.abs(x):
        p = decay * p + (1 - decay) * value
        q = decay * q + (1 - decay) * p
        for k, threshold in enumerate(thresholds):
            if q >= threshold:
                counts[k] += 1
                since[k] = 0
            elif since[k] < hangover:
                counts[k] += 1
                since[k] += 1
    last = None
    for count, threshold in zip(counts, thresholds, strict=True):
        level = decibels(x @ x / count)
        above = level - 20 * math.log10(threshold) - 15.9
        if above <= 0:
            return last[0] + last[1] / (last[1] - above) * (level - last[0])
        last = level, above
    raise AssertionError


@pytest.mark.parametrize("rate", [1000, 8000])
def test_active_level_is_that_of_the_standard(rate):
    rng = np.random.default_rng(rate)
    for scale in (0.5, 0.02):
        bursts = np.repeat(rng.random(12) ** 3, rate // 8)
        audio = (scale * bursts * rng.standard_normal(len(bursts)) + 0.1).astype(np.float32)
        assert decibels(active_power(audio, rate)) == pytest.approx(
            by_the_letter(audio, rate), abs=1e-6
        )


def test_active_level_follows_the_scale():
    speech = babble(2)
    power = active_power(speech, RATE)
    for scale in (2.0**-20, 2.0**10):
        assert active_power(speech * np.float32(scale), RATE) == pytest.approx(power * scale**2)
    assert active_power(speech * np.float32(0.7), RATE) == pytest.approx(power * 0.49, rel=0.07)


@pytest.mark.parametrize("audio", [np.zeros(RATE), np.full(RATE, 0.5), np.ones(1), babble(0.01)])
def test_active_level_needs_speech(audio):
    with pytest.raises(AlphaMFError, match="active speech level needs"):
        active_power(audio, RATE)


def steps(*levels):
    """Return white noise for half a second at each level in dB; -inf is digital silence."""
    rng = np.random.default_rng(0)
    return np.concatenate([10 ** (each / 20) * rng.standard_normal(RATE // 2) for each in levels])


@pytest.mark.parametrize("depth", [0, 20, 50, 90])
def test_pauses_lie_as_deep_as_they_were_made_whatever_the_loudness_and_the_offset(depth):
    sound = steps(0, -depth, 0, -depth, 0)
    for other in (sound, 1e-3 * sound, sound.astype(np.float32), sound + 0.25):
        # The 10th percentile of some noise lies below its mean, the 90th of the rest above.
        assert pause_depth(other, RATE) == pytest.approx(depth, abs=1.5)


def test_digital_silence_is_a_pause_between_words_and_nothing_at_the_ends():
    hissy, padding = steps(0, -30, 0), steps(*[-math.inf] * 3)
    found = pause_depth(hissy, RATE)
    assert pause_depth(np.concatenate([padding, hissy, padding]), RATE) == pytest.approx(found)
    assert pause_depth(steps(0, -math.inf, 0), RATE) == pytest.approx(DEEPEST_DB, abs=1)


def test_there_are_no_pauses_without_sound():
    for sound in (np.zeros(RATE), np.full(RATE, 0.5), np.zeros(0), steps(0)[: RATE // 100]):
        assert math.isnan(pause_depth(sound, RATE))
