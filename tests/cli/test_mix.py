"""``alphamf mix`` as a user meets it: a corpus that `alphamf evaluate` reads."""

import os
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import soundfile

from alphamf.audio.speech_level import active_power
from alphamf.cli import mix as command
from alphamf.evaluation.mixing.mixture import LEVELS
from tests.support.mixes import RATE, contents, material, mix, pair, ratio, sound, table


@pytest.fixture
def here(empty):
    """Go to a folder with two recordings and three noises of two kinds."""
    material()
    return empty


def test_a_corpus_in_the_layout_that_evaluate_reads(here):
    result = mix("speech", "--noise", "noise", "-o", "out", "--snr", "-5,2.5")
    names = {f"{kind}_{snr}dB" for kind in ("rain", "fan") for snr in ("-5", "2.5")}
    assert set(os.listdir("out")) == {"clean", "noisy", "pairs.csv"}
    assert set(os.listdir("out/noisy")) == names
    for folder in ("clean", *(f"noisy/{name}" for name in names)):
        assert set(os.listdir(Path("out", folder))) == {"a.flac", "b.flac"}
    rows = table()
    assert len(rows) == 8
    for row in rows:
        assert row["noisy"].startswith(f"noisy/{row['noise']}_{float(row['snr']):g}dB/")
        assert row["noise_file"].startswith(f"noise/{row['noise']}")
        assert ratio(row) == pytest.approx(float(row["snr"]), abs=0.05)
        assert soundfile.info(Path("out", row["noisy"])).subtype == "PCM_16"
    assert result.stdout.startswith("out: 8 mixtures of 2 recordings in ")
    assert "out/pairs.csv" in result.stdout and result.stdout.count("\n") == 1
    for name, seed in (("same", 0), ("other", 1)):
        mix("speech", "--noise", "noise", "-o", name, "--snr", "-5,2.5", "--seed", seed)
    first, same, other = (contents(name) for name in ("out", "same", "other"))
    assert same == first and set(other) == set(first)
    assert all((other[n] == first[n]) == n.startswith("clean") for n in first)
    mix("speech", "--noise", "noise", "-o", "some", "--snr", "-5,2.5", "--count", 3)
    assert len(table("some")) == 3 and contents("some").items() <= first.items()


def test_a_mixture_can_be_made_again_from_its_line(here):
    mix("speech", "--noise", "noise/rain", "-o", "out", "--snr", "0,10", "--level", "active")
    for row in table():
        clean, noisy, rate = pair(row)
        noise = soundfile.read(row["noise_file"])[0]
        noise = (noise - noise.mean())[int(row["offset"]) :][: len(clean)]
        added = noisy - clean
        assert added @ noise / np.sqrt(added @ added * (noise @ noise)) > 0.9999
        wanted = active_power(clean, rate) * 10 ** (-float(row["snr"]) / 10)
        assert np.square(added).mean() == pytest.approx(wanted, rel=0.01)


def test_what_would_clip_is_made_softer_with_its_clean_file(here):
    sound("loud.wav", scale=0.2, seed=5)
    mix("loud.wav", "speech/a.wav", "--noise", "noise/fan.wav", "-o", "out", "--snr", "-20,0,20")
    loud, soft = table()[:3], table()[3:]
    assert {row["gain"] for row in loud} == {loud[0]["gain"]}
    gain = float(loud[0]["gain"])
    assert gain in (1 / 16, 1 / 8)
    np.testing.assert_allclose(pair(loud[0])[0], gain * soundfile.read("loud.wav")[0], atol=2**-15)
    assert 0.5 < np.abs(pair(loud[0])[1]).max() <= 1
    for row in loud:
        assert ratio(row) == pytest.approx(float(row["snr"]), abs=0.05)
    assert len({row["gain"] for row in soft}) == 1 and float(soft[0]["gain"]) == 4 * gain
    mix("speech/a.wav", "--noise", "noise/fan.wav", "-o", "room", "--snr", "10,30")
    for row in table("room"):  # which leaves it as it is
        assert float(row["gain"]) == 1
        np.testing.assert_array_equal(pair(row, "room")[0], soundfile.read("speech/a.wav")[0])


def test_rates_and_channels(here):
    """The speech decides the rate, unless --rate does; a noise of a lower one is noted once."""
    sound("speech/a.wav", 1.0, rate=16000, channels=2)
    result = mix("speech/a.wav", "--noise", "noise", "-o", "out", "--snr", "0,5")
    for row in table():
        clean, _, rate = pair(row)
        assert (rate, clean.shape) == (16000, (16000,))
        assert ratio(row) == pytest.approx(float(row["snr"]), abs=0.05)
    both = soundfile.read("speech/a.wav")[0]
    np.testing.assert_allclose(pair(table()[0])[0], both.mean(axis=1), atol=2**-15)
    used = {row["noise_file"] for row in table()}
    assert sorted(result.stderr.splitlines()) == [
        f"Note: {noise} has a rate of 8000 Hz, so its mixtures at 16000 Hz contain no noise above "
        "4000 Hz"
        for noise in sorted(used)
    ]
    result = mix("speech", "--noise", "noise/fan.wav", "-o", "low", "--snr", "0", "--rate", 4000)
    assert result.stderr == ""
    for row in table("low"):
        assert pair(row, "low")[2] == 4000
        assert ratio(row, "low") == pytest.approx(0, abs=0.05)
    assert mix("speech/a.wav", "--noise", "noise/fan.wav", "-o", "quiet", "-q").output == ""


def test_names_keep_their_place_in_a_folder(here):
    """Two speakers may have spoken the same sentence."""
    for speaker in "xy":
        sound(f"corpus/{speaker}/SA1.wav", seed=ord(speaker))
    mix("corpus", "--noise", "noise/fan.wav", "-o", "out", "--snr", "0")
    assert [row["noisy"] for row in table()] == [
        f"noisy/fan_0dB/{speaker}/SA1.flac" for speaker in "xy"
    ]
    flat = ("corpus/x/SA1.wav", "corpus/y/SA1.wav", "--noise", "noise/fan.wav", "-o", "flat")
    assert mix(*flat, "--snr", "0", code=2).stderr == (
        "Error: corpus/y/SA1.wav has the same name in the corpus as corpus/x/SA1.wav\n"
    )
    assert len(table("flat")) == 1


def test_levels_are_those_of_the_library():
    chosen, _ = get_args(command.mix.__annotations__["level"])
    assert get_args(chosen) == LEVELS


# What is refused, in which words, and what is never touched.


def test_bad_files_are_one_sentence_each_and_the_rest_is_made(here):
    Path("speech/text.wav").write_text("no audio")
    soundfile.write("speech/silent.wav", np.zeros(RATE), RATE)
    soundfile.write("noise/silent.wav", np.zeros(RATE), RATE)
    sound("noise/click.wav", 0.01)
    words = ("speech", "gone.wav", "--noise", "noise", "--noise", "no*.wav", "-o", "out")
    assert sorted(mix(*words, "--snr", "0", code=2).stderr.splitlines()) == [
        "Error: gone.wav does not exist",
        "Error: no*.wav matches no audio files",
        "Error: noise/click.wav: a noise must last at least 0.1 s, not 0.010 s",
        "Error: noise/silent.wav: a noise must not be completely silent",
        "Error: speech/silent.wav: speech must not be completely silent",
        "Error: speech/text.wav is not an audio file in a known format",
    ]
    assert len(table()) == 4 and len(contents()) == 2 + 4
    for speech, noise in (("speech", "speech/text.wav"), ("gone*.wav", "noise")):
        mix(speech, "--noise", noise, "-o", "none", code=2)
        assert not Path("none").exists()


def test_speech_too_short_for_an_active_level_or_for_a_noise_with_pauses(here):
    sound("blip.wav", 0.03)
    words = ("blip.wav", "speech/a.wav", "--noise", "noise/fan.wav", "-o", "out", "--snr", "0")
    result = mix(*words, "--level", "active", code=2)
    assert "blip.wav: the active speech level needs" in result.stderr
    assert [row["clean"] for row in table()] == ["clean/a.flac"]
    # Two samples, in a noise that has a sound every ten milliseconds.
    soundfile.write("tick.wav", [0.1, -0.1], RATE)
    pulses = np.zeros(RATE)
    pulses[79::160], pulses[159::160] = 0.5, -0.5
    soundfile.write("pulses.wav", pulses, RATE)
    result = mix("tick.wav", "--noise", "pulses.wav", "-o", "short", "--snr", "0", code=2)
    assert "the part of the noise that was drawn is silent" in result.stderr
    assert contents("short") == {}


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
    words = ("set/clean", "--noise", "noise/fan.wav", "-o", "set", "--overwrite")
    assert "is in the folder of the corpus set" in mix(*words, code=2).stderr
    assert Path("set/clean/a.flac").read_bytes() == before and os.listdir("set") == ["clean"]


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
        (["-o", "speech/a.wav"], "--output-dir speech/a.wav is not a folder"),
        (["-o", "speech/a.wav/b"], "speech/a.wav/b cannot be created"),
        (["-o", "old", "--overwrite"], "old/pairs.csv cannot be read: field larger than"),
    ],
)
def test_what_cannot_be_met_is_one_sentence(here, arguments, sentence):
    Path("old").mkdir()
    Path("old/pairs.csv").write_text("clean,noisy\n" + "a" * 200_000)
    result = mix("speech/a.wav", "--noise", "noise/fan.wav", "-o", "out", *arguments, code=2)
    assert result.stderr.startswith("Error: ") and result.stderr.count("\n") == 1
    assert sentence in result.stderr and result.stdout == ""
    assert sorted(os.listdir()) == ["noise", "old", "speech"]
