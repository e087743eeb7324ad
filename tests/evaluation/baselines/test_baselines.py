"""The built-in methods of comparison: their mathematics, and what all have in common."""

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from alphamf.audio import stft
from alphamf.audio.stft import Frame
from alphamf.evaluation.baselines.base import Clip
from alphamf.evaluation.baselines.logmmse import (
    SNR_SMOOTHING,
    _gains,
    amplitude_gain,
    track_noise,
)
from alphamf.evaluation.baselines.nmf import update
from alphamf.evaluation.baselines.registry import METHODS
from alphamf.learnt.dictionary import Dictionary
from alphamf.scores.score import si_sdr
from tests.support.places import DATA

BUILT_IN = ["noisy", "oracle-mask", "logmmse", "is-nmf", "kl-nmf"]
ESTIMATORS = ["logmmse", "is-nmf", "kl-nmf"]


@pytest.fixture(scope="module")
def sample():
    """Return the sample recording."""
    clean, rate = soundfile.read(DATA / "sample-clean.wav", dtype="float32")
    noisy, _ = soundfile.read(DATA / "sample-noisy.wav", dtype="float32")
    return Clip(noisy, rate, clean)


def noise(samples, seed=0):
    return 0.1 * np.random.default_rng(seed).standard_normal(samples, np.float32)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Return the name of a small dictionary, of a single frame at 8 kHz."""
    basis = np.random.default_rng(0).random((33, 4), np.float32) ** 4
    path = tmp_path_factory.mktemp("model") / "small.npz"
    Dictionary(basis, 2.0, 8000, Frame(64, 16)).save(path)
    return str(path)


@pytest.mark.parametrize("name", BUILT_IN)
@settings(deadline=None, derandomize=True, max_examples=15)
@given(
    samples=st.sampled_from([0, 1, 2, 100, 1601]),
    rate=st.sampled_from([4000, 8000, 11025, 44100]),
    silent=st.sampled_from(["nowhere", "start", "middle", "everywhere"]),
    level=st.integers(-30, 15),
)
def test_any_sound_comes_back_whole(small, name, samples, rate, silent, level):
    sound = noise(samples)
    where = {
        "nowhere": slice(0),
        "start": slice(samples // 2),
        "middle": slice(samples // 4, -samples // 4),
        "everywhere": slice(None),
    }
    sound[where[silent]] = 0
    scale = np.float32(2.0**level)
    denoised = METHODS[name].run(Clip(scale * sound, rate, scale / 2 * sound, model=small))
    assert denoised.dtype == np.float32
    assert denoised.shape == sound.shape
    assert np.isfinite(denoised).all()
    assert np.abs(denoised).max(initial=0) <= 2 * scale * np.abs(sound).max(initial=0)
    same = METHODS[name].run(Clip(sound, rate, sound / 2, model=small))
    np.testing.assert_allclose(denoised, scale * same, rtol=1e-3, atol=1e-4 * scale)


def test_the_input_is_left_alone(sample):
    clip = Clip(noise(4000), 8000, noise(4000, 1))
    before = clip.noisy.copy(), clip.clean.copy()
    for name in BUILT_IN:
        denoised = METHODS[name].run(clip)
        assert not np.shares_memory(denoised, clip.noisy)
    np.testing.assert_array_equal(clip.noisy, before[0])
    np.testing.assert_array_equal(clip.clean, before[1])
    np.testing.assert_array_equal(METHODS["noisy"].run(clip), clip.noisy)


def test_oracle_mask_is_the_wiener_gain():
    """Written out in float64, with windows of 64 ms every 16 ms."""
    clean, din = noise(4000).astype(float), noise(4000, 1).astype(float)
    clean[1000:2000] *= 10
    frame = Frame(512, 128)
    of_speech, of_noise = (stft.forward(x, frame) for x in (clean, din))
    gain = np.abs(of_speech) ** 2 / (np.abs(of_speech) ** 2 + np.abs(of_noise) ** 2)
    expected = stft.inverse(gain * (of_speech + of_noise), frame, 4000)
    clip = Clip((clean + din).astype(np.float32), 8000, clean.astype(np.float32))
    np.testing.assert_allclose(METHODS["oracle-mask"].run(clip), expected, atol=1e-5)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_only_the_oracle_looks_at_the_clean_speech(sample, name):
    part = Clip(sample.noisy[:16000], sample.rate, sample.clean[:16000])
    blind = METHODS[name].run(part._replace(clean=np.full(16000, np.nan, np.float32)))
    np.testing.assert_array_equal(blind, METHODS[name].run(part))


@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_sample_gets_better(sample, name):
    before = si_sdr(sample.clean, sample.noisy)
    after = si_sdr(sample.clean, METHODS[name].run(sample))
    assert before + 2 < after < si_sdr(sample.clean, METHODS["oracle-mask"].run(sample))


@pytest.mark.parametrize("prior", [0.01, 1.0, 20.0])
@pytest.mark.parametrize("posterior", [0.1, 1.0, 40.0])
def test_log_amplitude_gain(prior, posterior):
    """The mean of log |S| given y, by quadrature: S given y is complex Gaussian."""
    share = prior / (1 + prior)
    # In units of the noise power: mean share * y, variance share.
    grid = np.linspace(-7, 7, 1401)
    real, imaginary = np.meshgrid(grid, grid)
    amplitude = np.abs(share * np.sqrt(posterior) + np.sqrt(share / 2) * (real + 1j * imaginary))
    weight = np.exp(-(real**2 + imaginary**2) / 2)
    log = (weight * np.log(np.maximum(amplitude, 1e-6))).sum() / weight.sum()
    found = amplitude_gain(np.array(prior), np.array(posterior)) * np.sqrt(posterior)
    assert np.log(found) == pytest.approx(log, abs=1e-3)


def test_the_snr_of_a_steady_cell_is_directed_by_its_own_decision():
    gain = _gains(np.full((400, 1), 40.0), np.ones((400, 1)))[-1]
    prior = SNR_SMOOTHING * gain**2 * 40 + (1 - SNR_SMOOTHING) * 39
    np.testing.assert_allclose(amplitude_gain(prior, np.array([40.0])), gain, rtol=1e-6)


def tracked_share():
    """Return where the tracker of a noise of power one rests: E (1 - p) (|y|^2 - l) = 0."""
    y = np.linspace(0, 40, 40001)
    snr = 10**1.5

    def drift(noise):
        p = 1 / (1 + (1 + snr) * np.exp(-y / noise * snr / (1 + snr)))
        return ((1 - p) * (y - noise) * np.exp(-y)).sum()

    return brentq(drift, 0.5, 1.5)


def test_noise_is_tracked():
    """White noise, 10 dB louder from the middle on, and under bursts of speech in half the bins."""
    rng = np.random.default_rng(0)
    frames, share = 1000, tracked_share()
    assert 0.8 < share < 1
    truth = np.where(np.arange(frames) < frames // 2, 1.0, 10.0)[:, None]
    power = truth * rng.standard_exponential((frames, 200))
    tracked = track_noise(power)
    assert tracked[100:500].mean() == pytest.approx(share, rel=0.03)
    assert tracked[700:].mean() == pytest.approx(10 * share, rel=0.03)
    speech = (np.arange(frames) % 50 >= 25)[:, None] & (np.arange(200) < 100)
    bursts = track_noise(power + 300 * speech * rng.standard_exponential(power.shape))
    assert bursts[100:500, :100].mean() == pytest.approx(share, rel=0.05)
    np.testing.assert_array_equal(bursts[:, 100:], tracked[:, 100:])


def test_noise_that_rises_by_far_is_not_taken_for_speech_forever():
    rng = np.random.default_rng(0)
    truth = np.where(np.arange(1500) < 100, 1.0, 1e4)[:, None]
    tracked = track_noise(truth * rng.standard_exponential((1500, 200)))
    assert tracked[1200:].mean() == pytest.approx(1e4 * tracked_share(), rel=0.05)


def divergence(v, approximation, beta):
    ratio = v / approximation
    if beta == 0:
        return (ratio - np.log(ratio) - 1).sum()
    return (v * np.log(ratio) - v + approximation).sum()


@settings(deadline=None, derandomize=True, max_examples=50)
@given(
    beta=st.sampled_from([0, 1]),
    shape=st.tuples(st.integers(1, 12), st.integers(1, 12), st.integers(1, 5)),
    spread=st.floats(0.1, 3),
    seed=st.integers(0, 1000),
)
def test_updates_never_raise_the_divergence(beta, shape, spread, seed):
    rng = np.random.default_rng(seed)
    rows, columns, rank = shape
    v, w, h = (
        np.exp(spread * rng.standard_normal(size))
        for size in ((rows, columns), (rows, rank), (rank, columns))
    )
    for _ in range(5):
        before = divergence(v, w @ h, beta)
        h = update(v, w, h, beta)
        between = divergence(v, w @ h, beta)
        w = w.copy()
        w[:, rank - 1 :] = update(v.T, h.T, w.T, beta, slice(rank - 1, None)).T
        after = divergence(v, w @ h, beta)
        slack = 1e-9 * (1 + before)
        assert after <= between + slack <= before + 2 * slack
    np.testing.assert_allclose(update(w @ h, w, h, beta), h, rtol=1e-6)


def test_nmf_leaves_what_lies_above_the_dictionary_alone(small):
    """Of noise at 44.1 kHz, what the dictionary's 8 kHz cannot hold comes back as it was."""
    sound = noise(44100)
    removed = np.fft.rfft(METHODS["is-nmf"].run(Clip(sound, 44100, sound, model=small)) - sound)
    energy = np.abs(removed) ** 2
    assert energy[4100:].sum() < 1e-4 * energy.sum()
    assert energy.sum() > 1e-3 * (np.abs(np.fft.rfft(sound)) ** 2).sum()
