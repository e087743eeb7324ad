"""``alphamf train`` on much speech: choices, bad files, progress, and a kill."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

from alphamf.learnt.dictionary import load
from tests.support import commands
from tests.support.commands import COMMAND, in_a_terminal, until
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


def test_lists_are_tried_and_the_best_is_kept(here):
    result = run(
        "clean", "-o", "m.npz", "--rank", "1,3", "--alpha", "2,1,2", "--steps", 30, *QUICK,
        "--voices", "folder", "--held-out", "0.34",
    )  # fmt: skip
    heading, *lines, summary = result.stdout.splitlines()
    assert heading.split() == [
        "rank", "alpha", "log", "density", "of", "a", "hidden", "cell", "difference", "to",
        "the", "best",
    ]  # fmt: skip
    assert [line.lstrip("* ").split()[:2] for line in lines] == [
        ["1", "2"], ["1", "1"], ["3", "2"], ["3", "1"],
    ]  # fmt: skip
    assert [line[0] for line in lines].count("*") == 1
    best = next(line for line in lines if line[0] == "*").split()
    model = load("m.npz")
    assert (str(model.rank), f"{model.alpha:g}") == tuple(best[1:3])
    assert model.about["score"].split()[0] == best[3]
    # A single voice is held out, whose score has no error.
    assert model.about["held_out"] == "1 voice" and best[-1] == "nan"
    assert "from 2 files in 2 voices" in summary
    assert sorted(os.listdir()) == ["clean", "m.npz"]


def test_a_stream_needs_no_choice(here):
    result = run("clean", "-o", "m.npz", "--rank", 2, "--steps", 9, "--stream", *QUICK)
    assert result.stdout.startswith("m.npz: 4000 Hz, 2 columns of 3 frames, alpha 1, from 6 files")
    assert load("m.npz").about["passes"] == 1.5
    assert sorted(os.listdir()) == ["clean", "m.npz"]


@pytest.mark.parametrize("form", ["--stream", "--no-stream"])
def test_a_bad_file_is_reported_and_the_others_are_used(here, form):
    Path("clean/bad.wav").write_text("no audio")
    result = run("clean", "-o", "m.npz", "--rank", 2, "--steps", 25, form, *QUICK, code=2)
    assert result.stderr == "Error: clean/bad.wav is not an audio file in a known format\n"
    assert "from 6 files" in result.stdout
    assert load("m.npz").about["unusable"] == 1
    alone = run("clean/bad.wav", "-o", "n.npz", form, *QUICK, code=2)
    assert alone.stderr == result.stderr
    Path("worse.wav").touch()
    several = run("clean/bad.wav", "worse.wav", "-o", "n.npz", form, *QUICK, code=2)
    assert several.stderr.count("\n") == 3
    assert "there is no speech to train on; none of the files can be used" in several.stderr
    assert not os.path.exists("n.npz")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--rank", "3,x"], "--rank must be a number, or several separated by commas, not '3,x'"),
        (["--rank", "2.5"], "--rank must be a number"),
        (["--alpha", "1,,2"], "--alpha must be a number"),
        (["--alpha", "1,3"], "alpha must be from 0.5 to 2, not 3"),
        (["--voices", "name"], "unknown rule 'name' for voices"),
        (
            ["--voices", "folder", "clean/a/0.wav"],
            "the rule folder finds only one voice in 2 files",
        ),
        (["--held-out", "1"], "the held-out fraction must be between 0 and 1"),
        (["--seconds", "0"], "seconds must be from 0.064 to 86400, not 0"),
        (["--seconds", "1e300"], "seconds must be from 0.064 to 86400, not 1e+300"),
        (["--rank", "9" * 23], "rank must be from 1 to 10000, not 99999"),
        (["--stream", "--sampler", "sgrld"], "streamed training supports only the sampler em"),
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
def test_a_kill_costs_little_and_changes_nothing(here):
    """The same command again continues from the checkpoint, to the bytes of an unbroken run."""
    settings = ["clean", "--rank", "8", "--steps", "150", "--stream", *QUICK, "--seed", "3"]
    process = subprocess.Popen([*COMMAND, "train", *settings, "-o", "m.npz"])
    folder = Path("m.npz.checkpoint")
    until(lambda: list(folder.glob("*.npz")))
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert folder.is_dir() and not Path("m.npz").exists()
    first = next(iter(folder.glob("*.npz")))
    with np.load(first) as state:
        assert 20 <= int(state["state.step"]) < 150
    run(*settings, "-o", "m.npz", "-q")
    assert not folder.exists()
    run(*settings, "-o", "whole.npz", "-q")
    assert Path("m.npz").read_bytes() == Path("whole.npz").read_bytes()


@pytest.mark.slow
@posix
def test_progress_shows_the_objective(here):
    words = ["train", "clean", "-o", "m.npz", "--rank", "2,3", "--steps", "40", *QUICK]
    seen, _, code = in_a_terminal(*words, columns=120)
    assert code == 0
    assert b"m.npz, rank 2, alpha 1" in seen and b"m.npz, rank 3, alpha 1" in seen
    assert b"of 40 steps" in seen and b"objective " in seen


def test_quiet_says_nothing(here):
    result = run("clean", "-o", "m.npz", "--rank", "2,3", "--steps", 5, *QUICK, "-q")
    assert result.output == ""
