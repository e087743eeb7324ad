"""The second stage in short windows: its features, its range, and where it is used."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from alphamf.audio import stft
from alphamf.audio.reader import read
from alphamf.audio.stft import Frame
from alphamf.denoising.api import denoise
from alphamf.denoising.settings import PRESETS, Settings
from alphamf.denoising.weights import Weights, find
from alphamf.learnt import network, second_stage
from alphamf.learnt.dictionary import choose as choose_dictionary
from alphamf.learnt.second_stage import SecondStage
from alphamf.scores.score import stoi
from alphamf.training.refiner import noises
from alphamf.training.refiner.shaping import rms
from tests.support.networks import untrained

FRAME = Frame(16, 8)
SIZES = network.Sizes(width=16, hidden=32, blocks=2, maps=3, local=12, deep=1)
WITH_TAPS = SIZES._replace(features=second_stage.WITH_TAPS[0], outputs=second_stage.WITH_TAPS[1])
QUICK = Settings(sampler="em", warm_up=0, steps=4, keep=2)


def drawn(scale=1.0, sizes=WITH_TAPS):
    """Return an untrained network, all of whose parameters matter."""
    values = untrained(sizes, FRAME.bins)
    return SecondStage({name: scale * value for name, value in values.items()}, 16000, FRAME)


class Constant(SecondStage):
    """A second stage with the same two coefficients everywhere, which are its parameters."""

    def coefficients(self, noisy, first):
        both = (np.full(noisy.shape, each, np.float32) for each in self.parameters["both"])
        return second_stage.Coefficients(*both)


def with_constants(sound, speech):
    """Return the shipped weights for 16 kHz, whose second stage has constant coefficients."""
    constant = Constant({"both": np.array([sound, speech])}, 16000, second_stage.frame(16000))
    return replace(find(16000), second_stage=constant)


def spectra(samples=4000):
    """Return those of a sound and of what was made of it."""
    rng = np.random.default_rng(1)
    noisy = rng.standard_normal(samples).astype(np.float32)
    spectrum = stft.forward(noisy, FRAME)
    return spectrum, spectrum * rng.random(spectrum.shape).astype(np.float32)


def sound(seconds=0.6, rate=16000):
    """Return a buzz in white noise, of two channels the second of which is silent."""
    t = np.arange(int(seconds * rate)) / rate
    buzz = sum(np.sin(2 * np.pi * 140 * k * t) / k for k in range(1, 15)) * np.sin(9 * t) ** 2
    noisy = 0.1 * buzz + 0.05 * np.random.default_rng(0).standard_normal(len(t))
    return np.stack([noisy, 0 * noisy], 1).astype(np.float32)


@pytest.mark.parametrize("sizes", [SIZES, WITH_TAPS])
def test_a_network_of_zeros_leaves_the_first_stage_all_but_alone(sizes):
    found = drawn(0.0, sizes).coefficients(*spectra())
    np.testing.assert_allclose(found.sound, second_stage.CHANGE * expit(-4.0), rtol=1e-5)
    np.testing.assert_allclose(found.speech, 1, rtol=1e-5)
    assert len(found.taps) == (6 if sizes is WITH_TAPS else 0) and not np.any(found.taps)


@pytest.mark.parametrize("sizes", [SIZES, WITH_TAPS])
def test_three_quarters_of_the_change_are_taken(monkeypatch, sizes):
    noisy, first = spectra()
    part = second_stage.speech(noisy, first, drawn(1.0, sizes).coefficients(noisy, first), np)
    monkeypatch.setattr(second_stage.SecondStage, "change", 1.0)
    whole = second_stage.speech(noisy, first, drawn(1.0, sizes).coefficients(noisy, first), np)
    np.testing.assert_allclose(part - first, 0.75 * (whole - first), atol=1e-5)
    assert np.abs(whole - first).max() > 0.1


def test_shifted_frames_of_a_steady_tone_are_the_same_in_its_bin():
    """Where a bin's frequency turns the phase by half a round from frame to frame, too."""
    for cycles in (3, 4):
        tone = np.cos(2 * np.pi * cycles * np.arange(4000) / FRAME.n_fft).astype(np.float32)
        spectrum = stft.forward(tone, FRAME)
        for frames in (-1, 1, 2):
            moved = second_stage.shift_frames(spectrum, frames, np)
            inside = slice(4, -4)
            np.testing.assert_allclose(moved[cycles, inside], spectrum[cycles, inside], atol=1e-4)
            ends = moved[..., :1] if frames < 0 else moved[..., -frames:]
            assert not ends.any() and moved.dtype == spectrum.dtype


def test_the_speech_is_the_sum_over_three_frames_of_either():
    """Taps of the lowest bins leave the others alone."""
    noisy, first = spectra(400)
    rng = np.random.default_rng(3)
    sound, whole = rng.random((2, *noisy.shape)).astype(np.float32)
    parts = rng.standard_normal((2, 6, 5, noisy.shape[1])).astype(np.float32)
    taps = tuple(parts[0] + 1j * parts[1])
    factors = second_stage.Coefficients(sound, whole, taps)
    found = second_stage.speech(noisy, first, factors, np)
    bins, frames = noisy.shape
    for b in range(bins):
        for t in range(1, frames - 1):
            wanted = sound[b, t] * noisy[b, t] + whole[b, t] * first[b, t]
            if b < 5:
                wanted += sum(
                    taps[3 * which + k + 1][b, t] * each[b, t + k] * (-1) ** (b * k)
                    for which, each in enumerate((noisy, first))
                    for k in (-1, 0, 1)
                )
            assert abs(found[b, t] - wanted) < 1e-4


def test_the_last_features_are_how_far_each_has_turned():
    """The others are those of the engine in C: `tests/native/test_engine.py`."""
    noisy, first = (each / np.float32(4) for each in spectra())
    loud = np.abs(noisy) ** 2 > 1e-2 * np.mean(np.abs(noisy) ** 2)
    inside = loud[:, 1:] & loud[:, :-1] & (np.abs(first / noisy) > 0.01)[:, 1:]
    found = second_stage.features(noisy, first, 0.0, np)
    assert found.shape == (*noisy.T.shape, second_stage.WITH_TAPS[0])
    turns = np.moveaxis(found.swapaxes(0, 1), -1, 0)[6:]
    phase = np.angle(noisy[:, 1:] / noisy[:, :-1]) - np.pi * np.arange(FRAME.bins)[:, None]
    for cosine, sine in (turns[:2], turns[2:]):  # the second is the first times a real number
        np.testing.assert_allclose(cosine[:, 1:][inside], np.cos(phase)[inside], atol=1e-3)
        np.testing.assert_allclose(sine[:, 1:][inside], np.sin(phase)[inside], atol=1e-3)
        assert not cosine[:, 0].any() and not sine[:, 0].any()


def test_loudness_makes_no_difference():
    noisy, first = spectra()
    one, other = (drawn().coefficients(k * noisy, k * first) for k in (1, 4096))
    for each, louder in zip((*one[:2], *one.taps), (*other[:2], *other.taps), strict=True):
        np.testing.assert_allclose(each, louder, atol=1e-6)


@pytest.mark.parametrize("samples", [1, 20, 8 * second_stage.WINDOW + 8, 12000])
def test_coefficients_are_in_their_ranges_whatever_the_length_and_in_silence(samples):
    for louder in (0, 1e-15, 1):  # the fourth power of the second is below float32's range
        noisy, first = (np.float32(louder) * each for each in spectra(samples))
        part, whole, taps = drawn(30.0).coefficients(noisy, first)
        assert part.shape == whole.shape == noisy.shape and part.dtype == np.float32
        assert np.isfinite(part).all() and np.isfinite(whole).all()
        assert 0 <= part.min() and part.max() <= 1
        assert 0 <= whole.min() and whole.max() <= second_stage.MOST
        assert {(tap.shape, tap.dtype) for tap in taps} == {(noisy.shape, noisy.dtype)}
        assert np.isfinite(taps).all()


@pytest.mark.parametrize("rate", [16000, 44100])
@pytest.mark.parametrize("constants", [(1.0, 0.0), (0.0, 1.0)])
def test_the_coefficients_mix_the_sound_and_the_first_stage(rate, constants):
    given = sound(rate=rate)
    found = denoise(given, rate, QUICK, model=with_constants(*constants)).audio
    if constants == (1.0, 0.0):
        expected = given
    else:
        expected = denoise(given, rate, QUICK, model=replace(find(rate), second_stage=None)).audio
        assert np.abs(expected - given).max() > 0.01
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_no_more_is_removed_than_the_limit():
    given = sound()
    nothing = denoise(given, 16000, replace(QUICK, max_attenuation=0.0)).audio
    np.testing.assert_allclose(nothing, given, atol=1e-6)
    nothing = with_constants(0.0, 0.0)
    assert not denoise(given, 16000, QUICK, model=nothing).audio.any()
    limited = replace(QUICK, max_attenuation=20.0)
    found = denoise(given, 16000, limited, model=nothing).audio
    np.testing.assert_allclose(found, 0.1 * given, atol=1e-6)


def test_plain_has_no_second_stage():
    settings = replace(PRESETS["plain"], steps=6, keep=2, warm_up=2)
    found, without = (
        denoise(sound(), 16000, settings, model=weights).audio
        for weights in (with_constants(0.0, 0.0), Weights(choose_dictionary("auto", 16000)))
    )
    np.testing.assert_array_equal(found, without)


@pytest.mark.slow
def test_a_second_stage_helps_speech_in_crackle(shared):
    """On voices that were left out of the training."""
    gained = []
    paths = sorted((shared / "corpora" / "librispeech-train").glob("*.flac"))[5::12]
    for seed, path in enumerate(paths[:4]):
        speech = read(path)[0][:64000, 0]
        noise = noises.crackle(np.random.default_rng(seed), len(speech), 16000)
        noisy = (speech + noise * rms(speech) / rms(noise)).astype(np.float32)
        with_it = denoise(noisy, 16000, PRESETS["fast"]).audio
        first_alone = replace(find(16000), second_stage=None)
        without = denoise(noisy, 16000, PRESETS["fast"], model=first_alone).audio
        scores = (stoi(speech, each, 16000, extended=True) for each in (with_it, without))
        gained.append(np.subtract(*scores))
    assert np.mean(gained) > 0.005
