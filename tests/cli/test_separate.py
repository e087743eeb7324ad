"""``alphamf separate`` as a user meets it: files whose sum is the recording, and clear errors."""

import os
import re

import numpy as np
import pytest
import soundfile

from tests.support.commands import run

RATE = 16000
SOURCES = "-s", "voice=speech-16k", "-s", "rest=2"


@pytest.fixture(autouse=True)
def recordings(empty):
    """Go to a folder with two recordings of a quarter of a second in ``in/``."""
    os.mkdir("in")
    rng = np.random.default_rng(0)
    for name, channels in (("a.wav", 1), ("b.flac", 2)):
        soundfile.write(f"in/{name}", rng.uniform(-0.3, 0.3, (4000, channels)), RATE)


def test_a_file_for_each_source_adds_up_to_the_recording():
    result = run("separate", "in", *SOURCES, "-o", "out")
    assert sorted(os.listdir("out")) == [
        "a.rest.wav", "a.voice.wav", "b.rest.flac", "b.voice.flac"
    ]  # fmt: skip
    for name, form in (("a", "wav"), ("b", "flac")):
        whole, rate = soundfile.read(f"in/{name}.{form}")
        parts = [soundfile.read(f"out/{name}.{each}.{form}") for each in ("voice", "rest")]
        assert {each[1] for each in parts} == {rate}
        np.testing.assert_allclose(parts[0][0] + parts[1][0], whole, atol=1e-4)
    assert re.search(r"in/a\.wav: .*voice\.wav, .*rest\.wav in \d", result.stdout)


def test_a_folder_is_continued_and_results_are_not_inputs():
    run("separate", "in", *SOURCES)
    made = sorted(os.listdir("in"))
    os.unlink("in/a.voice.wav")
    result = run("separate", "in", *SOURCES, code=2)
    assert "a.rest.wav already exists" in result.stderr
    os.unlink("in/a.rest.wav")
    assert run("separate", "in", *SOURCES).stdout.count("\n") == 1
    assert sorted(os.listdir("in")) == made


def test_keep_writes_one_file():
    given = *SOURCES, "-s", "more=1"
    run("separate", "in/a.wav", *given, "-o", "all")
    run("separate", "in/a.wav", *given, "--keep", "voice,more", "-o", "one", "-q")
    assert os.listdir("one") == ["a.kept.wav"]
    parts = [soundfile.read(f"all/a.{name}.wav")[0] for name in ("voice", "more")]
    np.testing.assert_allclose(soundfile.read("one/a.kept.wav")[0], sum(parts), atol=1e-6)


def test_a_file_that_fails_leaves_the_others():
    with open("in/bad.wav", "wb") as file:
        file.write(b"RIFF and nothing else")
    result = run("separate", "in/bad.wav", "in/a.wav", "in/none.wav", *SOURCES, "-o", "out", code=2)
    assert sorted(os.listdir("out")) == ["a.rest.wav", "a.voice.wav"]
    assert result.stderr.count("Error: ") == 2 and "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["-s", "voice=speech-16k"], "two sources or more"),
        (["-s", "voice", "-s", "rest=2"], "must be NAME=WHAT"),
        (["-s", "a=1", "-s", "a=2"], "gives a twice"),
        ([*SOURCES, "--keep", "music"], "--keep 'music' is not a source; there are voice, rest"),
        (["-s", "voice=speech-16k", "-s", "rest=999999999"], "from 1 to 10000"),
        ([*SOURCES, "-"], "standard input cannot be separated"),
    ],
)
def test_bad_options_are_refused_in_one_sentence(words, sentence):
    result = run("separate", "in/a.wav", *words, "-o", "out", code=2)
    assert sentence in " ".join(result.stderr.split()) and not os.path.exists("out")
