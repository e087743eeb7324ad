"""``alphamf train``, ``info`` and ``models``."""

import hashlib
import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from alphamf.learnt import network_file
from alphamf.learnt.dictionary import load, shipped_dictionaries
from alphamf.learnt.network_file import TrainedNetwork
from tests.support.commands import run
from tests.support.places import DATA
from tests.support.planted import syllables

SAMPLE = DATA / "sample-clean.wav"


def test_info_of_a_recording(empty):
    soundfile.write("a.wav", 0.5 * np.sin(np.arange(90000) / 9)[:, None] * [1, 0.5], 44100)
    lines = dict(line.split(None, 1) for line in run("info", "a.wav").stdout.splitlines())
    assert lines["file"] == "a.wav"
    assert lines["format"] == "WAV PCM_16"
    assert (lines["rate"], lines["channels"]) == ("44100 Hz", "2")
    assert lines["length"] == "0:00:02.041 (90000 samples)"
    assert lines["peak"] == "-6.0 dB of full scale"
    assert lines["rms"].startswith("-11.1 dB")
    assert lines["model"].startswith("speech-16k (16000 Hz")
    assert lines["room"] == "unknown: the recording is shorter than 3 s" and "bands" not in lines
    piped = run("info", "-", stdin=Path("a.wav").read_bytes()).stdout
    assert piped == run("info", "a.wav").stdout.replace("a.wav", "standard input")
    found = json.loads(run("info", "a.wav", "--json").stdout)
    assert found["samples"] == 90000 and found["duration"] == pytest.approx(90000 / 44100)
    assert found["peak_db"] == pytest.approx(-6.02, abs=0.01)
    assert (found["format"], found["subtype"], found["model"]) == ("WAV", "PCM_16", "speech-16k")
    assert found["room"]["reason"] == "the recording is shorter than 3 s"
    assert found["room"]["rt60"] is None and found["room"]["drr_db"] is None
    soundfile.write("b.wav", np.zeros(9), 8000)
    assert json.loads(run("info", "b.wav", "--json").stdout)["rms_db"] is None
    assert "digital silence" in run("info", "b.wav").stdout
    gone = run("info", "no.wav", "--json", code=2).stdout
    assert "no.wav does not exist" in json.loads(gone)["error"]


def test_info_says_what_is_known_of_the_room(empty):
    rng = np.random.default_rng(0)
    clean, rate = soundfile.read(SAMPLE)
    tail = rng.standard_normal(rate // 2) * 10 ** (-3 * np.arange(rate // 2) / (0.6 * rate))
    tail[0] = np.sqrt(np.sum(tail[1:] ** 2))  # RT60 .6 s, as much direct sound as echo
    soundfile.write("hall.wav", 0.05 * np.convolve(clean, tail)[: len(clean)], rate)
    lines = dict(line.split(None, 1) for line in run("info", "hall.wav").stdout.splitlines())
    assert "direct-to-reverberant ratio" in lines["room"]
    assert lines["bands"].startswith("RT60 at 250 Hz 0.") and "4000 Hz" in lines["bands"]
    found = json.loads(run("info", "hall.wav", "--json").stdout)["room"]
    assert found["reason"] is None and found["rt60"]["low"] < 0.6 < found["rt60"]["high"]
    assert found["drr_db"]["low"] < 0 < found["drr_db"]["high"]
    assert list(found["rt60_by_band"]) == ["250", "500", "1000", "2000", "4000"]
    value = f"RT60 {found['rt60']['value']:.2f} s ({found['rt60']['low']:.2f} to"
    assert lines["room"].startswith(value)


def test_info_of_what_is_neither(empty):
    Path("a.wav").write_text("no audio")
    assert run("info", "a.wav", code=2).stderr == (
        "Error: a.wav is not an audio file in a known format\n"
    )
    assert "unknown model 'a.npz'" in run("info", "a.npz", code=2).stderr
    long = f"{300 * 'm'}.npz"
    refused = f"Error: {long} cannot be opened: File name too long\n"
    assert run("info", long, code=2).stderr == refused
    assert run("info", "", code=2).stderr == "Error: '' is a folder, not an audio file\n"


def with_header(**changes):
    """Write a shipped model with another header as ``m.npz``."""
    with np.load(shipped_dictionaries()["speech-8k"]) as archive:
        arrays = dict(archive)
    header = json.loads(str(arrays["header"])) | changes
    np.savez("m.npz", **arrays | {"header": np.array(json.dumps(header))})


def test_the_text_of_a_model_is_shown_escaped(empty):
    bad = "\x1b]0;title\x07\x9b31m\nlast"
    with_header(about={bad: bad})
    shown = r"\x1b]0;title\x07\x9b31m\nlast"
    assert run("info", "m.npz").stdout.splitlines()[-1] == f"{shown}  {shown}"
    with_header(format=bad + 100_000 * "x")
    error = run("info", "m.npz", code=2).stderr
    assert f"unknown model format {shown}xxx" in error and len(error) < 200


def test_short_memory_is_no_bad_model(empty, monkeypatch):
    def full(*arguments, **options):
        raise MemoryError

    monkeypatch.setattr(np, "memmap", full)
    path = str(shipped_dictionaries()["speech-8k"])
    assert run("info", path, code=2).stderr == f"Error: there is not enough memory to read {path}\n"


def test_models_lists_the_shipped_ones_and_info_explains_each(empty):
    header, *lines = run("models").stdout.splitlines()
    assert header.split() == ["NAME", "WHAT", "SIZE"]
    assert {len(line) for line in lines} == {len(header)}
    networks = network_file.shipped_networks()
    assert [line.split()[0] for line in lines] == [*shipped_dictionaries(), *networks]
    for name, path in networks.items():
        text = run("info", name).stdout
        assert f"{TrainedNetwork.load(path).rate} Hz" in text and "clips" in text
    for name in shipped_dictionaries():
        text = run("info", name).stdout
        assert f"{load(name).rate} Hz" in text and str(load(name).rank) in text
    model = json.loads(run("info", "speech-8k", "--json").stdout)
    assert (model["rate"], model["columns"]) == (8000, load("speech-8k").rank)
    shutil.copy(networks["refiner-8k"], "mine.npz")
    assert run("info", "mine.npz").stdout == run("info", "refiner-8k").stdout


@pytest.mark.slow
def test_train_makes_a_model_that_denoises_and_records_how(empty):
    asked = ["--rank", 6, "--steps", 10, "--alpha", 1.1, "--seed", 2, "--rate", 8000]
    result = run("train", SAMPLE, "-o", "m.npz", *asked, "--seconds", 2.5)
    assert result.stdout.startswith(
        "m.npz: 8000 Hz, 6 columns of 3 frames, alpha 1.1, from 1 files"
    )
    model = load("m.npz")
    assert (model.rank, model.alpha, model.rate) == (6, 1.1, 8000)
    about = model.about
    again = [
        *("--rate", model.rate, "--rank", model.rank, "--alpha", model.alpha),
        *("--sampler", about["sampler"], "--steps", about["steps"], "--seed", about["seed"]),
        *("--seconds", about["most"].split()[0], "--voices", about["voices_by"]),
    ]
    run("train", SAMPLE, "-o", "again.npz", *again)
    assert Path("again.npz").read_bytes() == Path("m.npz").read_bytes()
    assert about["software"].startswith("alphamf ") and about["seed"] == 2
    assert "1.1" in run("info", "m.npz").stdout
    soundfile.write("a.wav", 0.1 * np.random.default_rng(0).standard_normal(4000), 8000)
    line = run("denoise", "a.wav", "--model", "m.npz", "--steps", 5, "--json").stdout
    found = hashlib.sha256(Path("m.npz").read_bytes()).hexdigest()
    assert json.loads(line)["model_sha256"] == found
    assert soundfile.info("a.denoised.wav").frames == 4000


TO = "clean.wav -o m.npz"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("clean.wav -o m.txt", "the output of -o must end in .npz, not m.txt"),
        ("clean.wav -o none/m.npz", "cannot write none/m.npz: the folder does not"),
        ("clean.wav -o d.npz --overwrite", "d.npz is a folder; give a file name"),
        (f"gone.wav -o {300 * 'm'}.npz", "mmm.npz cannot be written: File name too long"),
        ("clean.wav -o old.npz", "old.npz already exists; use --overwrite"),
        ("- -o m.npz", "standard input cannot be used as clean speech"),
        ("gone.wav -o m.npz", "gone.wav does not exist"),
        ("no*.wav -o m.npz", "no*.wav matches no audio files"),
        (f"{TO} --rank 0", "rank must be from 1 to 10000, not 0"),
        (f"{TO} --voices name", "unknown rule 'name' for voices"),
        (f"{TO} --voices folder old.npz", "the rule folder finds only one voice in 2 files"),
        (f"{TO} --seed -1", "--seed must be at least 0, not -1"),
        (f"{TO} --above speech-16k --seconds nan", "seconds must be from 0.064 to 86400, not"),
        (f"{TO} --sampler x", "unknown --sampler 'x'"),
    ],
)
def test_what_train_cannot_do_is_one_sentence(empty, line, sentence):
    Path("clean.wav").symlink_to(SAMPLE)
    Path("old.npz").write_text("a model")
    Path("d.npz").mkdir()
    result = run("train", *line.split(), code=2)
    assert result.stderr.startswith("Error: ") and result.stderr.count("\n") == 1
    assert sentence in result.stderr
    assert sorted(os.listdir()) == ["clean.wav", "d.npz", "old.npz"]


TINY = ("--rate", "4000", "--seconds", "1", "--rank", 2)
"""Options of a quick training on the voices."""


@pytest.fixture
def voices(empty):
    """Write the folder ``clean``, with six files of three voices."""
    for k, name in enumerate(("a", "b", "c")):
        Path("clean", name).mkdir(parents=True)
        for number in range(2):
            syllables(Path("clean", name, f"{number}.wav"), 1.5, seed=2 * k + number)


@pytest.mark.slow
@pytest.mark.usefixtures("voices")
def test_a_bad_file_is_reported_and_the_others_are_used():
    Path("clean/bad.wav").write_text("no audio")
    result = run("train", "clean", "-o", "m.npz", "--steps", 25, *TINY, code=2)
    assert result.stderr == "Error: clean/bad.wav is not an audio file in a known format\n"
    assert "from 5 files" in result.stdout and load("m.npz").about["unusable"] == 1
    said = re.search(r"on a voice .* by (.+) dB \(plain\) and (.+) dB \(fast\)", result.stdout)
    assert said and float(said[1].split()[0]) < -0.5, result.stdout  # two spectra are not enough
    Path("worse.wav").touch()
    several = run("train", "clean/bad.wav", "worse.wav", "-o", "n.npz", *TINY, code=2)
    assert several.stderr.count("\n") == 3
    assert "there is no speech to train on; none of the files can be used" in several.stderr
    assert not os.path.exists("n.npz")
