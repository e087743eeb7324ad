"""Scores from 8 to 20 kHz on made-up speech, and the mixtures that they are measured on."""

from collections import namedtuple

import numpy as np

from benchmarks import full_band
from benchmarks.clips import Clip
from benchmarks.full_band import RATE

SAMPLES = 3 * RATE
Found = namedtuple("Found", "si_sdr segmental_snr distance left sibilants")


def scores(clean, noisy, found):
    return Found(*full_band.scores(Clip("", RATE, clean, noisy), found))


def band(seed: int, low: float, high: float) -> np.ndarray:
    """Return noise of mean square 1 between two frequencies."""
    spectrum = np.fft.rfft(np.random.default_rng(seed).standard_normal(SAMPLES))
    frequencies = np.fft.rfftfreq(SAMPLES, 1 / RATE)
    spectrum[(frequencies < low) | (frequencies >= high)] = 0
    sound = np.fft.irfft(spectrum)
    return sound / sound.std()


def during(first: float, last: float) -> np.ndarray:
    """Return 1 between two times in seconds, with slopes of 5 ms, which spread no clicks."""
    time = np.arange(SAMPLES) / RATE
    return np.clip(np.minimum(time - first, last - time) / 0.005, 0, 1)


VOWEL = 0.1 * band(0, 200, 4000) * during(0, 1)
SIBILANT = 0.05 * band(1, 5000, 14000) * during(1, 2)
CLEAN = VOWEL + SIBILANT
HISS = 0.02 * band(2, 0, 24000)
NOISY = CLEAN + HISS


def low_passed(sound: np.ndarray, edge_: float, factor: float) -> np.ndarray:
    """Scale what is above an edge in Hz."""
    spectrum = np.fft.rfft(sound)
    spectrum[np.fft.rfftfreq(SAMPLES, 1 / RATE) >= edge_] *= factor
    return np.fft.irfft(spectrum)


def test_clean_and_noisy_speech():
    """Its distance is what the noise fills up to 14 kHz, and all of the noise is left."""
    perfect = scores(CLEAN, NOISY, CLEAN)
    assert perfect.si_sdr > 100 and perfect.segmental_snr == full_band.SEGMENTAL[1]
    assert (perfect.distance, perfect.sibilants) == (0, 0)
    found = scores(CLEAN, NOISY, NOISY)
    assert found.left == 0
    ratio = 0.05**2 * 6 / 9 / (0.02**2 * 12 / 24)  # from 8 to 20 kHz
    assert abs(found.segmental_snr - 10 * np.log10(ratio)) < 0.5
    assert abs(found.sibilants - 10 * np.log10(1 + 1 / ratio)) < 0.5


def test_what_is_taken_from_sibilants():
    found = scores(CLEAN, NOISY, low_passed(CLEAN, 8000, 0.5))
    for value in (found.sibilants, -found.distance):
        assert abs(value - 20 * np.log10(0.5)) < 0.1
    assert abs(found.segmental_snr - 20 * np.log10(2)) < 0.1
    below = scores(CLEAN, NOISY, low_passed(CLEAN, 4000, 0.5) + low_passed(CLEAN, 8000, 0.5) / 2)
    assert below.sibilants < -2.4  # a change below 8 kHz does not count


def test_noise_left_in_pauses_counts_in_pauses_alone():
    """A tenth of the noise is 20 dB less."""
    for low, high, level in ((2, 4, -20), (0, 1, 0)):
        found = scores(CLEAN, NOISY, CLEAN + HISS * (1 - 0.9 * during(low, high)))
        assert abs(found.left - level) < 1


def test_the_distance_ends_at_the_edge_of_the_speech():
    """What is left above 14 kHz, where this voice ends, is no distance; below it is."""
    above, below = (
        scores(CLEAN, NOISY, CLEAN + 0.01 * band(3, low, low + 3000)).distance
        for low in (16000, 8000)
    )
    assert above < 0.01
    assert scores(SIBILANT + 0.05 * band(1, 5000, 20000), NOISY, CLEAN).distance > 1
    assert below > 0.1
