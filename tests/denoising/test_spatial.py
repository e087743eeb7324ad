"""Channels that share a voice: who does, what becomes of its place, and of those that do not."""

from dataclasses import replace

import numpy as np
import pytest
import soundfile

from alphamf import PRESETS, denoise
from alphamf.audio.resample import resample
from alphamf.audio.stft import Frame, forward
from alphamf.denoising import spatial
from alphamf.denoising.estimate import estimate_speech
from alphamf.denoising.gain import SegmentPosterior
from alphamf.denoising.grids import Spectra, grid_of
from alphamf.denoising.posterior import Posterior
from alphamf.denoising.weights import find
from alphamf.scores.score import si_sdr
from tests.support.commands import QUICK as SIX
from tests.support.commands import run
from tests.support.places import DATA

QUICK = replace(PRESETS["fast"], warm_up=8, steps=8, keep=4)
SEPARATE = replace(QUICK, channels="separate")
FRAME = Frame(256, 64)


@pytest.fixture(scope="module")
def voice():
    clean, rate = soundfile.read(DATA / "sample-clean.wav", dtype="float32", frames=48000)
    return resample(clean, rate, 8000), 8000


@pytest.fixture(scope="module")
def wide():
    """Return a second at a rate that the second stage is for."""
    clean, rate = soundfile.read(DATA / "sample-clean.wav", dtype="float32", frames=24000)
    return clean[8000:], rate


@pytest.fixture(scope="module")
def noises():
    rng = np.random.default_rng(0)
    level = 0.02 * (1 + np.sin(np.arange(24000) / 3000))
    return (level * rng.standard_normal((4, 24000))).astype(np.float32)


def level_error(clean, found):
    """Mean error in dB of the level between channels, in frames 10 to 30 dB below the loudest."""
    powers = [
        np.stack([(np.abs(forward(np.ascontiguousarray(c), FRAME)) ** 2).sum(0) for c in audio.T])
        for audio in (clean, found)
    ]
    level = 10 * np.log10(powers[0].sum(0) + 1e-12)
    weak = (level < level.max() - 10) & (level > level.max() - 30)
    of_clean, of_found = (10 * np.log10((a + 1e-9) / (b + 1e-9)) for a, b in powers)
    return np.abs(of_found - of_clean)[weak].mean()


@pytest.mark.parametrize("right", [1.0, 0.4])
def test_a_voice_keeps_its_place(voice, noises, right):
    clean, rate = voice
    clean = np.stack([clean, right * np.roll(clean, 5)], 1)
    noisy = clean + noises[:2].T * np.float32([1, 1.5 * right])
    apart, together = (denoise(noisy, rate, each).audio for each in (SEPARATE, QUICK))
    scores = [
        np.mean([si_sdr(*pair) for pair in zip(clean.T, x.T, strict=True)])
        for x in (apart, together)
    ]
    assert scores[1] > scores[0] + 0.5
    assert level_error(clean, together) < min(1.5, 0.6 * level_error(clean, apart))


def test_channels_separate_are_each_denoised_alone(voice, noises):
    clean, rate = voice
    noisy = clean[:, None] + noises[:2].T
    found = denoise(noisy, rate, SEPARATE).audio
    for channel in range(2):
        alone = denoise(noisy[:, channel], rate, QUICK).audio
        np.testing.assert_array_equal(found[:, channel], alone)


def test_those_that_share_a_voice_among_many(voice, noises):
    """Three channels hold one voice, one another, one nothing; those two come out as if alone."""
    clean, rate = voice
    other = np.roll(clean, 10000)
    silent = np.zeros_like(clean)
    sounds = np.stack([clean, other, 0.5 * np.roll(clean, 3), clean, silent], 1)
    sounds[:, :4] += noises.T
    rest = np.pad(noises, ((0, 1), (0, 0)))
    spectra, noise = (
        np.stack([forward(np.ascontiguousarray(c), FRAME) for c in each])
        for each in (sounds.T, rest)
    )
    power, noise = np.abs(spectra - noise) ** 2, np.abs(noise) ** 2
    gains = power / (power + noise + 1e-9)
    assert spatial.sharing_groups(spectra, gains) == [[0, 2, 3], [1], [4]]
    found, alone = (denoise(sounds, rate, each).audio for each in (QUICK, SEPARATE))
    np.testing.assert_array_equal(found[:, [1, 4]], alone[:, [1, 4]])
    for k in (0, 2, 3):
        assert si_sdr(clean, found[:, k] if k != 2 else np.roll(found[:, k], -3)) > si_sdr(
            clean, alone[:, k] if k != 2 else np.roll(alone[:, k], -3)
        )


@pytest.mark.parametrize("preset", [QUICK, replace(QUICK, refine=False)])
def test_the_limit_holds_for_linked_channels(wide, noises, preset):
    clean, rate = wide
    noisy = clean[:, None] + noises[:2, :16000].T
    held = denoise(noisy, rate, replace(preset, max_attenuation=0.0)).audio
    np.testing.assert_allclose(held, noisy, atol=2e-6)
    free, held = (
        denoise(noisy, rate, replace(preset, max_attenuation=limit)).audio for limit in (None, 6.0)
    )
    assert np.sum(free**2) < np.sum(held**2)
    assert np.sum(held**2) > 0.23 * np.sum(noisy**2)


def test_wiener_with_known_covariances():
    """Where the speech has rank one and all gains are equal, no noise remains apart from it."""
    rng = np.random.default_rng(1)
    speech = rng.standard_normal((5, 400)) + 1j * rng.standard_normal((5, 400))
    place = np.array([1.0, 0.5 - 0.5j, -0.3j])[:, None, None]
    noise = rng.standard_normal((3, 5, 400)) + 1j * rng.standard_normal((3, 5, 400))
    spectra = (place * speech + 0.3 * noise).astype(np.complex64)
    power = np.abs(place) ** 2 * np.ones((3, 5, 400))
    gains = (power / (power + 0.09)).astype(np.float32)
    found = spatial.speech(spectra, gains)
    apart = [np.sum(np.abs(x[1:] - place[1:] * x[:1]) ** 2) for x in (spectra, found)]
    assert apart[1] < 0.4 * apart[0]
    before, after = (np.mean(np.abs(x - place * speech) ** 2) for x in (spectra, found))
    assert after < 0.75 * before


def test_only_linked_channels_heed_the_gain_before_the_refiner(voice):
    clean, rate = voice
    weights = find(rate, second_stage="none")
    spectra = Spectra(clean, rate)
    ones = np.ones_like(spectra.spectrum_on(grid_of(weights.dictionary)), np.float32)
    none = Posterior(*np.ones((4, 0, ones.shape[1]), np.float32), [1.0, 1.0], draws=1)
    power = {}
    for channels in ("linked", "separate"):
        for before in (1.0, 0.1):
            one = SegmentPosterior(spectra, np.float32(1), ones, 0 * ones, before * ones, none)
            settings = replace(QUICK, channels=channels)
            found = estimate_speech([one, one], weights, settings, np)
            power[channels, before] = np.sum(found[0].speech ** 2)
            np.testing.assert_array_equal(found[0].gain, ones)
    assert power["linked", 0.1] < 0.8 * power["linked", 1.0]
    assert power["separate", 0.1] == power["separate", 1.0]
    np.testing.assert_allclose(power["linked", 1.0], np.sum(clean**2), rtol=1e-3)


def test_the_command(wide, noises, empty):
    clean, rate = wide
    soundfile.write("two.wav", clean[:, None] + noises[:2, :16000].T, rate, subtype="FLOAT")
    for name, options in {
        "a": (),
        "b": ("--channels", "linked"),
        "c": ("--channels", "separate"),
    }.items():
        run("denoise", "two.wav", "-o", f"{name}.wav", *SIX, *options)
    default, linked, separate = (soundfile.read(f"{name}.wav")[0] for name in "abc")
    np.testing.assert_array_equal(linked, default)
    assert not np.array_equal(linked, separate)


def test_the_place_is_a_triangle_of_three_turns_and_a_little_of_all():
    turns = np.float32([[1, 0, 0, 0], [0, 1, 1, 1]])  # which channel has the voice
    near = turns @ (2 * np.eye(4) + np.eye(4, k=1) + np.eye(4, k=-1) + spatial.WHOLE)
    found = spatial._place(np.repeat(turns, spatial.TURN, axis=1)[:, None].astype(np.complex64))
    expected = (near / near.sum(0)).repeat(spatial.TURN, axis=1)
    np.testing.assert_allclose(found[[0, 1], [0, 1], 0], expected, rtol=1e-5)


def test_the_place_is_taken_at_every_level():
    rng = np.random.default_rng(2)
    spectra = rng.standard_normal((2, 3, 4 * spatial.TURN, 2)).astype(np.float32)
    spectra = np.ascontiguousarray(spectra).view(np.complex64)[..., 0]
    gains = rng.random(spectra.shape).astype(np.float32)
    found = spatial.speech(spectra, gains)
    np.testing.assert_allclose(spatial.speech(spectra / 16, gains), found / 16, atol=1e-3)
