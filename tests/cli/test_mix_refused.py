"""What ``alphamf mix`` refuses, in which words, and what it never touches."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import soundfile

from alphamf.evaluation.mixing.mixture import LEVELS
from tests.support.mixes import RATE, contents, material, mix, pair, ratio, sound, table


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Go to a folder with two recordings and three noises of two kinds."""
    monkeypatch.chdir(tmp_path)
    material()
    return tmp_path


def test_bad_files_are_one_sentence_each_and_the_rest_is_made(here):
    Path("speech/text.wav").write_text("no audio")
    soundfile.write("speech/silent.wav", np.zeros(RATE), RATE)
    soundfile.write("noise/silent.wav", np.zeros(RATE), RATE)
    sound("noise/click.wav", 0.01)
    result = mix(
        "speech", "gone.wav", "--noise", "noise", "--noise", "no*.wav", "-o", "out",
        "--snr", "0", code=2,
    )  # fmt: skip
    assert sorted(result.stderr.splitlines()) == [
        "Error: gone.wav does not exist",
        "Error: no*.wav matches no audio files",
        "Error: noise/click.wav: a noise must last at least 0.1 s, not 0.010 s",
        "Error: noise/silent.wav: a noise must not be completely silent",
        "Error: speech/silent.wav: speech must not be completely silent",
        "Error: speech/text.wav is not an audio file in a known format",
    ]
    assert len(table()) == 4 and len(contents()) == 2 + 4


def test_speech_too_short_for_an_active_level_or_for_a_noise_with_pauses(here):
    sound("blip.wav", 0.03)
    result = mix("blip.wav", "speech/a.wav", "--noise", "noise/fan.wav", "-o", "out", "--snr", "0",
                 "--level", "active", code=2)  # fmt: skip
    assert "blip.wav: the active speech level needs" in result.stderr
    assert [row["clean"] for row in table()] == ["clean/a.flac"]
    assert mix("blip.wav", "--noise", "noise", "-o", "plain", "--snr", "0").stderr == ""
    # Two samples, in a noise that has a sound every ten milliseconds.
    soundfile.write("tick.wav", [0.1, -0.1], RATE)
    pulses = np.zeros(RATE)
    pulses[79::160], pulses[159::160] = 0.5, -0.5
    soundfile.write("pulses.wav", pulses, RATE)
    result = mix("tick.wav", "--noise", "pulses.wav", "-o", "short", "--snr", "0", code=2)
    assert result.stderr == (
        "Error: tick.wav with pulses.wav: the part of the noise that was drawn is silent; the "
        "speech is too short for this noise\n"
    )
    assert contents("short") == {}


def test_without_any_speech_or_noise_nothing_is_written(here):
    Path("bad.wav").write_text("no audio")
    result = mix("speech", "--noise", "bad.wav", "-o", "out", code=2)
    assert result.stderr == "Error: bad.wav is not an audio file in a known format\n"
    result = mix("gone*.wav", "--noise", "noise", "-o", "out", code=2)
    assert result.stderr == "Error: gone*.wav matches no audio files\n"
    assert not Path("out").exists()
    mix("bad.wav", "--noise", "noise", "-o", "out", code=2)
    assert table() == [] and contents() == {}


def test_an_old_corpus_is_replaced_as_a_whole_and_only_if_that_was_asked_for(here):
    mix("speech", "--noise", "noise", "-o", "out", "--snr", "0,5", "-q")
    before = contents()
    result = mix("speech", "--noise", "noise", "-o", "out", code=2)
    assert result.stderr == "Error: out already contains a corpus; use --overwrite to replace it\n"
    assert contents() == before
    Path("out/notes.txt").touch()
    mix("speech/a.wav", "--noise", "noise/fan.wav", "-o", "out", "--snr", "5", "--overwrite", "-q")
    assert list(contents()) == ["clean/a.flac", "noisy/fan_5dB/a.flac"]
    assert len(table()) == 1 and Path("out/notes.txt").exists()
    assert os.listdir("out/noisy") == ["fan_5dB"]


def test_the_inputs_are_never_replaced(here):
    sound("set/clean/a.flac")
    before = Path("set/clean/a.flac").read_bytes()
    for options in ((), ("--overwrite",)):
        result = mix("set/clean", "--noise", "noise/fan.wav", "-o", "set", *options, code=2)
        assert "is in the folder of the corpus set" in result.stderr
        assert result.stderr.count("\n") == 1
    assert Path("set/clean/a.flac").read_bytes() == before and os.listdir("set") == ["clean"]


def test_nothing_is_removed_or_written_through_a_link_in_the_corpus(here):
    words = ["speech", "--noise", "noise/fan.wav", "-o", "out", "--snr", "5"]
    mix(*words, "-q")
    for name in ("clean", "noisy/fan_5dB"):
        moved = Path("elsewhere", name)
        moved.parent.mkdir(parents=True, exist_ok=True)
        Path("out", name).rename(moved)
        Path("out", name).symlink_to(moved.absolute())
        before = contents("out"), contents("elsewhere")
        result = mix(*words, "--overwrite", code=2)
        assert (
            f"Error: out/{name} is a link; outputs are not written through links" in result.stderr
        )
        assert (contents("out"), contents("elsewhere")) == before and result.stderr.count("\n") == 1
        Path("out", name).unlink()
    # Nor is a link in the place of a file followed or removed.
    Path("out/clean").mkdir()
    Path("out/clean/a.flac").symlink_to(Path("elsewhere/clean/a.flac").absolute())
    kept = Path("elsewhere/clean/a.flac")
    kept.write_bytes(b"precious")
    Path("out/pairs.csv").unlink()
    result = mix(*words, "--overwrite", "-q", code=2)
    assert "out/clean/a.flac is a link" in result.stderr
    assert kept.read_bytes() == b"precious" and Path("out/clean/a.flac").is_symlink()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--snr", "a,5"], "--snr must be numbers from -100 to 100, separated by commas"),
        (["--snr", "nan"], "--snr must be numbers"),
        (["--snr", "5,101"], "--snr must be numbers"),
        (["--snr", ""], "--snr must be numbers"),
        (["--count", "0"], "--count must be at least 1, not 0"),
        (["--seed", "-1"], "--seed must be at least 0, not -1"),
        (["--rate", "3999"], "--rate must be from 4000 to 192000 Hz, not 3999"),
        (["--noise", "-"], "standard input cannot be used as speech or noise"),
        (["-"], "standard input cannot be used as speech or noise"),
        (["-o", "speech/a.wav"], "--output-dir speech/a.wav is not a folder"),
        (["-o", "speech/a.wav/b"], "speech/a.wav/b cannot be written"),
    ],
)
def test_what_cannot_be_met_is_one_sentence(here, arguments, sentence):
    result = mix("speech/a.wav", "--noise", "noise/fan.wav", "-o", "out", *arguments, code=2)
    assert result.stderr.startswith("Error: ") and result.stderr.count("\n") == 1
    assert sentence in result.stderr and result.stdout == ""
    assert sorted(os.listdir()) == ["noise", "speech"]


def test_a_table_with_a_huge_field_is_one_sentence(here):
    Path("out").mkdir()
    Path("out/pairs.csv").write_text("clean,noisy\n" + "a" * 200_000)
    words = ("speech", "--noise", "noise", "-o", "out", "--overwrite")
    sentence = "Error: out/pairs.csv cannot be read: field larger than field limit (131072)\n"
    assert mix(*words, code=2).stderr == sentence


def test_every_odd_recording_is_mixed_or_refused(shared, tmp_path):
    """As speech and as noise."""
    odd = shared / "corpora/odd"
    bad = {"empty", "zero_bytes", "truncated", "truncated_header", "text", "nan_inf", "silence"}
    inputs = {path.stem: path for path in odd.iterdir() if path.suffix not in (".md", ".csv")}
    for level in LEVELS:
        out = tmp_path / level
        result = mix(odd, "--noise", inputs["speech"].with_suffix(".mp3"), "-o", out, "--snr", "0",
                     "--level", level, code=2)  # fmt: skip
        refused = {inputs[name].name for name in bad | {"one_sample"}}
        assert len(result.stderr.splitlines()) >= len(refused)
        assert all(any(name in line for line in result.stderr.splitlines()) for name in refused)
        rows = table(out)
        assert len(rows) >= 9
        for row in rows:
            clean, noisy, _ = pair(row, out)
            assert np.isfinite(noisy).all() and np.abs(noisy).max() <= 1
            assert ratio(row, out) == pytest.approx(0, abs=0.1), row
    clean = shared / "corpora/librispeech-dev/1688/1688-142285-0000.flac"
    result = mix(clean, "--noise", odd, "-o", tmp_path / "noise", "--snr", "0", code=2)
    refused = {inputs[name].name for name in bad | {"one_sample", "ten_ms"}}
    assert all(any(name in line for line in result.stderr.splitlines()) for name in refused)
    for row in table(tmp_path / "noise"):
        assert ratio(row, tmp_path / "noise") == pytest.approx(0, abs=0.05), row
