"""What denoising must not depend on, bit for bit, and sounds at the edge of arithmetic."""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from alphamf import denoise
from alphamf.audio import stft
from alphamf.denoising.settings import PRESETS
from alphamf.scores.score import si_sdr
from tests.support.places import DATA

FAST = replace(PRESETS["fast"], steps=4, keep=2, warm_up=3)
PLAIN = replace(PRESETS["plain"], steps=6, keep=3, warm_up=3)

few = settings(max_examples=8, deadline=None)
seeds = st.integers(0, 2**16)
presets = st.sampled_from([FAST, PLAIN])
rates = st.sampled_from([8000, 22050])


def sound(seed: int, samples: int = 3000, channels: int | None = None) -> np.ndarray:
    """Noise whose level moves, as that of speech does."""
    rng = np.random.default_rng(seed)
    shape = (samples,) if channels is None else (samples, channels)
    level = 1.1 + np.sin(np.arange(samples) / 300)
    return (0.1 * rng.standard_normal(shape).T * level).T.astype(np.float32)


@given(
    seed=seeds,
    power=st.integers(-80, 120),
    sign=st.sampled_from([1, -1]),
    preset=presets,
    rate=rates,
    channels=st.sampled_from([None, 2]),
)
@few
def test_a_power_of_two_of_either_sign_scales_the_result(seed, power, sign, preset, rate, channels):
    audio, factor = sound(seed, channels=channels), np.float32(sign * 2.0**power)
    with patch("alphamf.denoising.estimate.LONG", 1):  # short chains model components too
        before, after = (denoise(a, rate, preset, seed=seed) for a in (audio, factor * audio))
    np.testing.assert_array_equal(after.audio, factor * before.audio)
    np.testing.assert_array_equal(after.noise, factor * before.noise)
    np.testing.assert_array_equal(after.gain, before.gain)
    np.testing.assert_array_equal(after.gain_std, before.gain_std)


@given(seed=seeds, order=st.permutations(range(3)), preset=presets)
@few
def test_the_order_of_channels(seed, order, preset):
    audio = sound(seed, channels=3)
    before, after = (denoise(a, 8000, preset, seed=seed) for a in (audio, audio[:, order]))
    np.testing.assert_array_equal(after.audio, before.audio[:, order])
    np.testing.assert_array_equal(after.gain, before.gain[order])


@given(seed=seeds, hops=st.integers(1, 40))
@few
def test_a_shift_by_hops_shifts_the_spectrogram_exactly(seed, hops):
    frame, audio = stft.Frame(512, 128), sound(seed)
    late = np.concatenate([np.zeros(128 * hops, np.float32), audio])
    np.testing.assert_array_equal(
        stft.forward(late, frame)[:, hops:], stft.forward(audio, frame)
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["fast", "plain"])
@pytest.mark.parametrize("silence", ["before", "within"])
def test_digital_silence_beside_a_sound_leaves_its_denoising_alone(preset, silence):
    """The model's noise is about as loud all the time, and must not be taken to vanish."""
    noisy, clean = (
        soundfile.read(DATA / f"sample-{name}.wav", dtype="float32", frames=48000)[0]
        for name in ("noisy", "clean")
    )
    settings, rate = replace(PRESETS[preset], steps=60, keep=20), 16000
    place = 0 if silence == "before" else 24000
    nothing = np.zeros(rate, np.float32)
    longer = np.concatenate([noisy[:place], nothing, noisy[place:]])
    found = denoise(longer, rate, settings).audio
    np.testing.assert_allclose(found[place + 1024 : place + rate - 1024], 0, atol=1e-6)
    found = np.concatenate([found[:place], found[place + rate :]])
    without = denoise(noisy, rate, settings).audio
    assert si_sdr(clean, found) > si_sdr(clean, without) - 1


def click(level: float = 1.0) -> np.ndarray:
    audio = np.zeros(3000, np.float32)
    audio[1500] = level
    return audio


def level(peak: float) -> np.ndarray:
    audio = sound(1)
    return (audio / np.abs(audio).max() * np.float64(peak)).astype(np.float32)


EDGES = {
    "silence": np.zeros(3000, np.float32),
    "full scale, either sign": np.sign(sound(1)),
    "constant": np.full(3000, 0.5, np.float32),
    "a click": click(),
    "a faint click": click(1e-30),
    "a click over noise far below": click(1e30) + level(1e-5),
    "one sample": sound(1, 1),
    "shorter than a window": sound(1, 100),
    **{f"peak {peak:g}": level(peak) for peak in (1e-45, 1e-40, 3e-39, 1e-30, 1e30, 3.4e38)},
}


@pytest.mark.parametrize("preset", [FAST, PLAIN], ids=["fast", "plain"])
@pytest.mark.parametrize("name", EDGES)
def test_the_edges_of_arithmetic_give_finite_results(name, preset):
    found = denoise(EDGES[name], 8000, preset)
    for part in (found.audio, found.noise, found.gain, found.gain_std):
        assert np.isfinite(part).all()
    assert np.abs(found.audio).max() / 2 <= np.abs(EDGES[name]).max()


@pytest.mark.parametrize(
    ("alphas", "preset"),
    [((a, b), FAST) for a in (0.5, 2.0) for b in (0.5, 2.0)]
    + [((a, b), PLAIN) for a in (0.5, 1.0, 2.0) for b in (0.5, 2.0)],
)
def test_the_ends_of_alpha(alphas, preset):
    ends = replace(preset, alpha_speech=alphas[0], alpha_noise=alphas[1], steps=30, keep=10)
    assert np.isfinite(denoise(sound(2), 8000, ends).audio).all()


@pytest.mark.parametrize("rank", [1, 200])
@pytest.mark.parametrize("samples", [100, 3000])
def test_one_spectrum_of_noise_and_more_than_there_are_frames(rank, samples):
    found = denoise(sound(3, samples), 8000, replace(PLAIN, noise_rank=rank))
    assert np.isfinite(found.audio).all()
