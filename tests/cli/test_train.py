"""``alphamf train``: bad files, refusals and progress."""

import os
from pathlib import Path

import pytest

from alphamf.learnt.dictionary import load
from tests.support import commands
from tests.support.commands import in_a_terminal
from tests.support.planted import syllables

QUICK = ["--rate", "4000", "--seconds", "1"]

posix = pytest.mark.skipif(os.name != "posix", reason="signals and terminals are POSIX")


def run(*arguments: object, code: int = 0):
    return commands.run("train", *arguments, code=code)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Go where the folder ``clean`` holds six files of three voices."""
    monkeypatch.chdir(tmp_path)
    for k, name in enumerate(("a", "b", "c")):
        Path("clean", name).mkdir(parents=True)
        for number in range(2):
            syllables(Path("clean", name, f"{number}.wav"), 1.5, seed=2 * k + number)
    return tmp_path


def test_a_bad_file_is_reported_and_the_others_are_used(here):
    Path("clean/bad.wav").write_text("no audio")
    result = run("clean", "-o", "m.npz", "--rank", 2, "--steps", 25, *QUICK, code=2)
    assert result.stderr == "Error: clean/bad.wav is not an audio file in a known format\n"
    assert "from 6 files" in result.stdout
    assert load("m.npz").about["unusable"] == 1
    alone = run("clean/bad.wav", "-o", "n.npz", *QUICK, code=2)
    assert alone.stderr == result.stderr
    Path("worse.wav").touch()
    several = run("clean/bad.wav", "worse.wav", "-o", "n.npz", *QUICK, code=2)
    assert several.stderr.count("\n") == 3
    assert "there is no speech to train on; none of the files can be used" in several.stderr
    assert not os.path.exists("n.npz")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--voices", "name"], "unknown rule 'name' for voices"),
        (
            ["--voices", "folder", "clean/a/0.wav"],
            "the rule folder finds only one voice in 2 files",
        ),
        (["--seconds", "0"], "seconds must be from 0.064 to 86400, not 0"),
        (["--seconds", "1e300"], "seconds must be from 0.064 to 86400, not 1e+300"),
        (["--rank", "9" * 23], "rank must be from 1 to 10000, not 99999"),
        (["--seed", "-1"], "--seed must be at least 0, not -1"),
        (["--above", "speech-16k", "--seconds", "nan"], "seconds must be from 0.064 to 86400, not"),
    ],
)
def test_what_train_cannot_do_is_one_sentence(here, arguments, sentence):
    source = "clean/a" if "folder" in arguments else "clean"
    result = run(source, "-o", "m.npz", *arguments, code=2)
    assert result.stderr.startswith("Error: ") and result.stderr.count("\n") == 1
    assert sentence in result.stderr
    assert os.listdir() == ["clean"]


@pytest.mark.slow
@posix
def test_progress_shows_the_objective(here):
    words = ["train", "clean", "-o", "m.npz", "--rank", "2", "--steps", "40", *QUICK]
    seen, _, code = in_a_terminal(*words, columns=120)
    assert code == 0
    assert b"m.npz" in seen and b"of 40 steps" in seen and b"objective " in seen


def test_quiet_says_nothing(here):
    result = run("clean", "-o", "m.npz", "--rank", "2", "--steps", 5, *QUICK, "-q")
    assert result.output == ""
