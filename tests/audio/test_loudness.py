"""Loudness as pyloudnorm measures it, in blocks; true peaks that stay below the ceiling."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack

import numpy as np
import pytest
import soundfile
from scipy.signal import resample_poly

from alphamf.audio import loudness
from alphamf.audio.normalizer import Normalizer
from alphamf.audio.writer import open_writer
from alphamf.errors import AlphaMFError
from alphamf.tools.extras import install_packages
from tests.support.commands import QUICK, run

pyloudnorm = pytest.importorskip("pyloudnorm", reason="the extra normalize is not installed")


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


@pytest.mark.parametrize("rate", [8000, 16000, 44100, 48000])
@pytest.mark.parametrize("channels", [1, 2, 5])
def test_loudness_in_blocks_is_that_of_the_whole(rate, channels):
    sound = speechlike(rate, 4.1, channels)
    meter = loudness.Meter(rate, channels)
    for start in range(0, len(sound), 7001):
        meter.add(sound[start : start + 7001])
    # The last block, which is not whole, is left out as the standard has it.
    whole = sound[: len(sound) // (rate // 10) * (rate // 10)]
    assert meter.result() == pytest.approx(measured(whole, rate), abs=0.02)


@pytest.mark.parametrize("rate", [16000, 44100])
@pytest.mark.parametrize("wanted", [-16.0, -23.0, -40.0])
def test_a_recording_is_brought_to_a_loudness_below_the_ceiling(rate, wanted, monkeypatch):
    monkeypatch.setattr(loudness, "_CHUNK", 20000)
    sound = speechlike(rate, 5, 2)
    found = loudness.normalizing_gain(sound, rate, wanted)
    out = np.concatenate(list(loudness.limit_peaks(sound, rate, found.gain)))
    assert measured(out, rate) == pytest.approx(wanted, abs=0.15)
    assert found.after == pytest.approx(measured(out, rate), abs=0.05)
    fine = np.abs(resample_poly(out.astype(np.float64), 16, 1, axis=0)).max()
    assert 20 * np.log10(fine) < loudness.CEILING + 0.1
    # The limiter works around peaks alone.
    plain = np.abs(out - sound * np.float32(found.gain)).max(axis=1) == 0
    assert plain.mean() > (0.5 if wanted < -20 else 0.2)


def test_what_has_no_loudness():
    for silent in (np.zeros((9000, 1), np.float32), speechlike(8000, 0.3, 1)):
        assert loudness.normalizing_gain(silent, 8000, -16) is None
    with pytest.raises(AlphaMFError, match="up to 5 channels, not 6"):
        loudness.Meter(8000, 6)


def test_rates_at_which_the_filter_is_not_stable_are_refused(tmp_path, monkeypatch):
    for rate in (1000, 2000, 2900, 3399):
        with pytest.raises(AlphaMFError, match=f"at 3400 Hz or more, not at {rate} Hz"):
            loudness.Meter(rate, 1)
    sound = speechlike(3400, 20, 1)
    meter = loudness.Meter(3400, 1)
    meter.add(sound)
    assert meter.result() == pytest.approx(20 * np.log10(np.std(sound)), abs=3)
    monkeypatch.chdir(tmp_path)
    soundfile.write("a.wav", speechlike(2000, 1, 1), 2000)
    refused = run("denoise", "a.wav", "--normalize", "-16", *QUICK, code=2).stderr
    assert refused == (
        "Error: a.wav: loudness can be measured at 3400 Hz or more, not at 2000 Hz\n"
    )
    assert not (tmp_path / "a.denoised.wav").exists()


def test_a_loudness_that_is_not_finite_is_none():
    meter = loudness.Meter(8000, 1)
    with np.errstate(over="ignore"):
        meter.add(np.full((8000, 1), 1e200))
    assert meter.result() is None


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


def test_the_option(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    soundfile.write("a.wav", speechlike(8000, 3, 1), 8000)
    result = json.loads(run("denoise", "a.wav", "--normalize", "-20LUFS", "--json", *QUICK).stdout)
    out = soundfile.read("a.denoised.wav", always_2d=True)[0]
    assert measured(out, 8000) == pytest.approx(-20, abs=0.15)
    assert result["loudness"]["after"] == pytest.approx(-20, abs=0.15)
    assert result["loudness"]["true_peak_db"] <= -0.95
    soundfile.write("b.wav", np.zeros(800), 8000)
    assert (
        "too quiet to measure its loudness"
        in run("denoise", "b.wav", "--normalize", "-20", *QUICK).stdout
    )
    assert not soundfile.read("b.denoised.wav")[0].any()
    for wrong in ("loud", "3", "-71", "-16dB", "nan"):
        refused = run("denoise", "a.wav", "--normalize", wrong, code=2).stderr
        assert "--normalize must be a loudness from -70 to 0 LUFS, such as -16LUFS" in refused
    monkeypatch.setitem(sys.modules, "pyloudnorm", None)
    refused = run("denoise", "a.wav", "--normalize", "-16", code=2).stderr
    assert install_packages("pyloudnorm") in refused
