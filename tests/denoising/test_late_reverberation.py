"""Tests of the linear prediction of late reverberation."""

from dataclasses import replace

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from alphamf import PRESETS, denoise
from alphamf.audio.resample import resample
from alphamf.denoising import late_reverberation as module
from alphamf.denoising.late_reverberation import (
    DELAY,
    late_frame,
    late_reverberation,
    mean_precision,
    predicted_frames,
)
from alphamf.factorization.stable import positive_stable
from alphamf.scores.score import si_sdr
from tests.support.places import DATA

RATE = 8000
ECHO = replace(PRESETS["fast"], dereverb=1.0)


def echoing(innovations, factors):
    """Make frames that repeat their past with these factors, from `DELAY` frames on."""
    made = np.array(innovations)
    for t in range(made.shape[-1]):
        for k, factor in enumerate(factors):
            if t >= DELAY + k:
                made[..., t] += factor * made[..., t - DELAY - k]
    return made


def predicted_late():
    """Return the median |error| over the median echo of isotropic Cauchy numbers (alpha = 1)."""
    parts = np.random.default_rng(0).standard_normal((1, 20, 600, 3))
    clean = (parts[..., 0] + 1j * parts[..., 1]) / np.abs(parts[..., 2])
    factors = 0.5 * 0.8 ** np.arange(6) * np.exp(1j * np.arange(6))
    heard = echoing(clean, factors).astype(np.complex64)
    error = predicted_frames(heard)[0] - (heard - clean)
    return np.median(np.abs(error)) / np.median(np.abs(heard - clean))


def test_the_echo_of_heavy_tailed_frames_is_found():
    assert predicted_late() < 0.12


def test_gaussian_innovations_would_find_it_less_well(monkeypatch):
    heavy_tailed = predicted_late()
    monkeypatch.setattr(module, "_precision", lambda innovation: np.ones(innovation.shape))
    assert predicted_late() > 1.5 * heavy_tailed


def in_room(rt60=0.7, rate=RATE, seed=3, seconds=5.0):
    """Return a voice, its early part and the voice in a room of decaying noise."""
    voice, its_rate = soundfile.read(DATA / "sample-clean.wav", dtype="float32")
    voice = resample(voice[: int(seconds * its_rate)], its_rate, rate)
    rng = np.random.default_rng(seed)
    times = np.arange(int(1.2 * rt60 * rate)) / rate
    response = 0.12 * rng.standard_normal(len(times)) * 10 ** (-3 * times / rt60)
    response *= np.sqrt(8000 / rate)
    response[0] = 1.0
    early = np.where(times < 0.05, response, 0)
    heard = [
        np.convolve(voice, each)[: len(voice)].astype(np.float32) for each in (early, response)
    ]
    return voice, *heard


@pytest.mark.parametrize("rate", [8000, 16000, 44100])
def test_a_voice_in_a_room_loses_its_late_echo(rate):
    _, early, heard = in_room(rate=rate)
    (late,) = late_reverberation([heard], rate)
    assert si_sdr(early, heard - late.below) > si_sdr(early, heard) + 1.0
    assert not late.above.any()


def test_a_second_microphone_helps():
    _, early, heard = in_room()
    _, _, other = in_room(seed=4)
    alone = heard - late_reverberation([heard], RATE)[0].below
    both = heard - late_reverberation([heard, other], RATE)[0].below
    assert si_sdr(early, both) > si_sdr(early, alone) + 0.5


def test_reflections_within_the_delay_stay():
    noise = np.random.default_rng(0).standard_normal(10 * RATE).astype(np.float32)
    early = noise.copy()
    early[160:] += 0.8 * noise[:-160]  # 20 ms later
    (late,) = late_reverberation([early], RATE)
    assert np.mean(late.below**2) < 0.1 * np.mean(early**2)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 4000), st.sampled_from([1e-12, 1e-3, 1.0, 1e4]), st.integers(1, 3))
def test_any_length_level_and_number_of_channels(samples, level, channels):
    rng = np.random.default_rng(samples)
    sounds = [(level * rng.standard_normal(samples)).astype(np.float32) for _ in range(channels)]
    found = late_reverberation(sounds, RATE)
    assert [len(each.below) for each in found] == [samples] * channels
    assert all(np.isfinite(each.below).all() for each in found)
    if samples < DELAY * late_frame(RATE).hop_length - late_frame(RATE).n_fft // 2:
        assert not any(each.below.any() for each in found)


def test_silence_has_no_echo_and_the_level_does_not_matter():
    _, _, heard = in_room(seconds=2.0)
    one, other = late_reverberation([heard, np.zeros_like(heard)], RATE)
    (alone,) = late_reverberation([heard], RATE)
    assert not other.below.any()
    scale = np.abs(alone.below).max()
    np.testing.assert_allclose(one.below, alone.below, atol=1e-3 * scale)
    (louder,) = late_reverberation([1000 * heard], RATE)
    np.testing.assert_allclose(louder.below, 1000 * alone.below, atol=scale)


def test_a_dry_voice_is_as_without_the_option():
    voice, *_ = in_room(rate=16000)
    assert late_reverberation([voice], 16000)[0].share == 0
    np.testing.assert_array_equal(
        denoise(voice, 16000, ECHO).audio, denoise(voice, 16000, "fast").audio
    )


@pytest.mark.parametrize("seconds", [0.1, 0.3, 0.5, 1.0])
def test_a_word_says_too_little_of_its_room(seconds):
    speech, rate = soundfile.read(DATA / "sample-clean.wav", dtype="float32")
    word = speech[rate : rate + round(seconds * rate)]
    with_option, without = (denoise(word, rate, dereverb=share).audio for share in (1, 0))
    np.testing.assert_array_equal(with_option, without)


@pytest.mark.parametrize("rt60", [0.4, 0.9])
def test_a_voice_in_a_room_is_not_dry(rt60):
    assert late_reverberation([in_room(rt60)[2]], RATE)[0].share == 1


def test_a_small_room_has_no_late_echo_though_its_past_explains_it():
    (late,) = late_reverberation([in_room(0.2)[2]], RATE)
    assert late._replace(rt60=None).share > 0.5
    assert late.share == 0
    assert late._replace(rt60=0.5).share > 0.5


@pytest.mark.parametrize("preset", ["fast", "plain"])
@pytest.mark.parametrize("rate", [8000, 16000])
def test_denoise_takes_the_echo_out(preset, rate):
    _, early, heard = in_room(rate=rate)
    without = denoise(heard, rate, PRESETS[preset]).audio
    result = denoise(heard, rate, replace(PRESETS[preset], dereverb=1.0))
    assert si_sdr(early, result.audio) > si_sdr(early, without) + 1.0
    np.testing.assert_allclose(result.audio + result.noise, heard, atol=1e-6)


def test_a_share_of_the_echo_lies_between():
    _, early, heard = in_room(rate=16000)
    scores = [
        si_sdr(early, denoise(heard, 16000, replace(ECHO, dereverb=share)).audio)
        for share in (0.0, 0.25, 1.0)
    ]
    assert scores[0] + 0.1 < scores[1] < scores[2] - 0.3
    assert scores[1] - scores[0] < scores[2] - scores[1]


def test_above_the_band_the_echo_goes_as_well():
    _, early, heard = in_room(rate=48000, seconds=4.0)

    def top(sound):
        spectrum = np.fft.rfft(sound)
        spectrum[: len(spectrum) // 2] = 0
        return np.fft.irfft(spectrum, len(sound))

    without, with_it = (
        denoise(heard, 48000, replace(ECHO, dereverb=share)).audio for share in (0.0, 1.0)
    )
    assert np.mean((top(with_it) - top(early)) ** 2) < np.mean((top(without) - top(early)) ** 2)


# As a statement of the alpha-stable model --------------------------------------------------------


SQUARED = 0.5
"""The g of `mean_precision` for `symmetric_stable` of alpha = 1 and dispersion 1."""


def simulated_precision(powers, alpha):
    """Return E[1 / Phi | |S|^2] by weighting draws of the prior; S given Phi has variance Phi."""
    phi = positive_stable(np.random.default_rng(0), alpha, np.empty(400_000))
    likelihood = np.exp(-powers[:, None] / phi) / phi
    return (likelihood / phi).sum(axis=1) / likelihood.sum(axis=1)


def test_the_mean_precision_is_that_of_the_positive_stable_law():
    powers = np.array([0.01, 0.1, 0.5, 2.0, 10.0, 50.0])
    expected = 1.5 * mean_precision(powers, SQUARED)
    np.testing.assert_allclose(simulated_precision(powers, 1.0), expected, rtol=0.03)
    for other in (0.8, 1.3):
        assert np.abs(simulated_precision(powers, other) / expected - 1).max() > 0.15
