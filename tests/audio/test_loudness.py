"""Loudness as pyloudnorm measures it, in blocks; true peaks that stay below the ceiling."""

import json
from contextlib import ExitStack

import numpy as np
import pyloudnorm
import pytest
import soundfile
from scipy.signal import resample_poly

from alphamf.audio import loudness
from alphamf.audio.loudness import Normalizer
from alphamf.audio.writer import open_writer
from alphamf.errors import AlphaMFError
from tests.support.commands import QUICK, run


def speechlike(rate, seconds, channels, seed=0):
    """Noise in bursts, with clicks far above it."""
    rng = np.random.default_rng(seed)
    samples = int(rate * seconds)
    sound = 0.02 * rng.standard_normal((samples, channels))
    sound *= (np.sin(np.arange(samples) / rate * 3) > -0.5)[:, None] + 0.001
    sound[rng.integers(0, samples, 20)] *= 15
    return sound.astype(np.float32)


def measured(sound, rate):
    return pyloudnorm.Meter(rate).integrated_loudness(sound.astype(np.float64))


def found_in(sound, rate):
    return loudness.loudness(loudness.measure(sound, rate))


@pytest.mark.parametrize("rate", [8000, 16000, 44100, 48000])
@pytest.mark.parametrize("channels", [1, 2, 5])
def test_loudness_in_blocks_is_that_of_the_whole(rate, channels, monkeypatch):
    monkeypatch.setattr(loudness, "_CHUNK", 7001)
    sound = speechlike(rate, 4.1, channels)
    # The last block, which is not whole, is left out as the standard has it.
    whole = sound[: len(sound) // (rate // 10) * (rate // 10)]
    assert found_in(sound, rate) == pytest.approx(measured(whole, rate), abs=0.02)


@pytest.mark.parametrize(
    "names", ["FL FR FC LFE BL BR", "FL FR FC LFE BC SL SR", "FL FR FC LFE BL BR SL SR"]
)
def test_weights_of_more_channels(names):
    """As BS.1770-4: 1.5 dB more for what is at the sides, nothing for the lowest frequencies."""
    sound, kinds = speechlike(16000, 2, 1), names.split()
    sides = ("SL", "SR") if "SL" in kinds else ("BL", "BR")
    alone = found_in(sound, 16000)
    for place, name in enumerate(kinds):
        many = np.zeros((len(sound), len(kinds)), np.float32)
        many[:, place] = sound[:, 0]
        levels = loudness.measure(many, 16000)
        weight = 0 if name == "LFE" else 1.41 if name in sides else 1
        assert levels.powers.sum() == pytest.approx(
            weight * loudness.measure(sound, 16000).powers.sum()
        )
        found = loudness.loudness(levels)
        if name == "LFE":
            assert found is None
        else:
            assert found - alone == pytest.approx(10 * np.log10(weight), abs=0.05)


@pytest.mark.parametrize("rate", [3400, 8000, 44100, 48000])
def test_true_peaks_are_those_of_the_oversampled_sound(rate, monkeypatch):
    monkeypatch.setattr(loudness, "_CHUNK", 5001)
    sound = speechlike(rate, 1, 2)
    levels = loudness.measure(sound, rate)
    between = np.abs(resample_poly(sound, 4, 1, axis=0)).max(axis=1).reshape(-1, 4).max(axis=1)
    wanted = np.maximum.reduceat(between, np.arange(0, len(sound), levels.size))
    np.testing.assert_allclose(levels.peaks, wanted, rtol=2e-3, atol=1e-5)


@pytest.mark.parametrize("rate", [16000, 44100])
@pytest.mark.parametrize("wanted", [-9.0, -16.0, -23.0, -40.0])
def test_a_recording_is_brought_to_a_loudness_below_the_ceiling(rate, wanted, monkeypatch):
    monkeypatch.setattr(loudness, "_CHUNK", 20000)
    sound = speechlike(rate, 5, 2)
    levels = loudness.measure(sound, rate)
    found = loudness.normalizing_gain(levels, wanted)
    amplified = list(loudness.amplified(sound, levels, found))
    out = np.concatenate([block for block, _ in amplified])
    assert measured(out, rate) == pytest.approx(wanted, abs=0.05)
    assert found.after == pytest.approx(measured(out, rate), abs=0.05)
    fine = np.abs(resample_poly(out.astype(np.float64), 16, 1, axis=0)).max()
    assert 20 * np.log10(fine) < loudness.CEILING + 0.1
    assert max(peak for _, peak in amplified) == pytest.approx(fine, rel=0.02)
    # The limiter's gain is a line between the edges of blocks, and works around peaks alone.
    blocks = (np.arange(len(out)) + 0.5) / levels.size
    curve = found.gain * np.interp(blocks, np.arange(len(found.edges)), found.edges)
    np.testing.assert_allclose(out, sound * curve[:, None], rtol=1e-5, atol=1e-7)
    plain = np.abs(out - sound * np.float32(found.gain)).max(axis=1) == 0
    assert plain.mean() > {-40: 0.99, -23: 0.5, -16: 0.2}.get(wanted, 0)


def test_what_has_no_loudness():
    for silent in (np.zeros((9000, 1), np.float32), speechlike(8000, 0.3, 1)):
        assert loudness.normalizing_gain(loudness.measure(silent, 8000), -16) is None
    with pytest.raises(AlphaMFError, match="up to 8 channels, not 9"):
        loudness.check(8000, 9)


def test_rates_at_which_the_filter_is_not_stable_are_refused(empty):
    for rate in (1000, 2000, 2900, 3399):
        with pytest.raises(AlphaMFError, match=f"at 3400 Hz or more, not at {rate} Hz"):
            loudness.check(rate, 1)
    sound = speechlike(3400, 20, 1)
    assert found_in(sound, 3400) == pytest.approx(20 * np.log10(np.std(sound)), abs=3)
    soundfile.write("a.wav", speechlike(2000, 1, 1), 2000)
    refused = run("denoise", "a.wav", "--normalize", "-16", *QUICK, code=2).stderr
    assert refused.startswith("Error: a.wav: loudness can be measured at 3400 Hz or more")
    assert not (empty / "a.denoised.wav").exists()


def test_a_loudness_that_is_not_finite_is_none():
    with np.errstate(over="ignore", invalid="ignore"):
        assert found_in(np.full((8000, 1), 1e200), 8000) is None


def test_what_has_no_loudness_is_written_in_parts(tmp_path):
    silent = np.zeros((3 * loudness._CHUNK + 7, 1), np.float32)
    with open_writer(tmp_path / "a.wav", 8000, 1) as writer, ExitStack() as stack:
        lengths = []
        write = writer.write
        writer.write = lambda block: (lengths.append(len(block)), write(block))
        normalizer = Normalizer(writer, 8000, 1, -16.0, stack)
        normalizer.write(silent)
        assert normalizer.finish() is None
    assert max(lengths) <= loudness._CHUNK
    assert soundfile.info(tmp_path / "a.wav").frames == len(silent)


def test_the_option(empty):
    soundfile.write("a.wav", speechlike(8000, 3, 1), 8000)
    result = json.loads(run("denoise", "a.wav", "--normalize", "-20LUFS", "--json", *QUICK).stdout)
    out = soundfile.read("a.denoised.wav", always_2d=True)[0]
    assert measured(out, 8000) == pytest.approx(-20, abs=0.15)
    assert result["loudness"]["after"] == pytest.approx(-20, abs=0.15)
    assert result["loudness"]["true_peak_db"] <= -0.95
    soundfile.write("b.wav", np.zeros(800), 8000)
    said = run("denoise", "b.wav", "--normalize", "-20", *QUICK).stdout
    assert "too quiet to measure its loudness" in said
    assert not soundfile.read("b.denoised.wav")[0].any()
    for wrong in ("loud", "3", "-71", "-16dB", "nan"):
        refused = run("denoise", "a.wav", "--normalize", wrong, code=2).stderr
        assert "--normalize must be a loudness from -70 to 0 LUFS, such as -16LUFS" in refused
