"""The option --dereverb."""

import json

import numpy as np
import pytest
import soundfile

from alphamf import PRESETS, denoise
from alphamf.scores.score import si_sdr
from tests.denoising.test_late_reverberation import in_room
from tests.support.commands import run


@pytest.fixture
def room(tmp_path, monkeypatch):
    """Write a voice in a room; return its early part and the file's samples."""
    monkeypatch.chdir(tmp_path)
    _, early, heard = in_room(rate=8000)
    soundfile.write("talk.wav", heard, 8000, "FLOAT")
    return early, heard


@pytest.mark.parametrize(
    ("words", "share"),
    [
        (["talk.wav", "--dereverb"], 1.0),
        (["--dereverb", "talk.wav"], 1.0),
        (["talk.wav", "--dereverb", "--quiet"], 1.0),
        (["--dereverb", "50%", "talk.wav"], 0.5),
        (["--dereverb", ".5", "talk.wav"], 0.5),
        (["--dereverb=0.5", "talk.wav"], 0.5),
        (["--dereverb", "0", "talk.wav"], 0.0),
        (["--", "talk.wav"], 0.0),
    ],
)
def test_a_share_may_follow(room, words, share):
    _, heard = room
    run("denoise", *words)
    output, _ = soundfile.read("talk.denoised.wav", dtype="float32")
    expected = denoise(heard, 8000, dereverb=share).audio
    np.testing.assert_allclose(output, expected, atol=1e-6)


def test_the_echo_is_less(room):
    early, heard = room
    run("denoise", "talk.wav", "--dereverb", "-o", "out.wav")
    output, _ = soundfile.read("out.wav", dtype="float32")
    assert si_sdr(early, output) > si_sdr(early, denoise(heard, 8000).audio) + 1.0


@pytest.mark.parametrize("share", ["2", "150%", "-1"])
def test_a_share_out_of_range_is_refused(room, share):
    found = run("denoise", "talk.wav", f"--dereverb={share}", code=2)
    assert "--dereverb must be from 0 to 1" in found.output


def test_low_latency_does_not_have_it(room):
    found = run("denoise", "talk.wav", "--dereverb", "--latency", "low", code=2)
    assert "--dereverb cannot be combined with --latency low" in found.output


def test_a_result_names_its_settings_and_network(room):
    found = json.loads(run("denoise", "talk.wav", "--dereverb", "--json").stdout)
    assert "dereverberator-8k" in json.dumps(found)
    assert PRESETS["fast"].dereverb == 0
