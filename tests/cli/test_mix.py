"""``alphamf mix`` as a user meets it: a corpus that `alphamf evaluate` reads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alphamf.audio.speech_level import active_power
from alphamf.cli.mix import Level
from alphamf.evaluation.mixing.mixture import LEVELS
from tests.support.mixes import RATE, contents, material, mix, pair, ratio, sound, table


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Go to a folder with two recordings and three noises of two kinds."""
    monkeypatch.chdir(tmp_path)
    material()
    return tmp_path


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


@pytest.mark.slow
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    snr=st.floats(-20, 20).map(lambda x: float(f"{x:g}")),
    level=st.sampled_from(LEVELS),
    seed=st.integers(0, 1000),
    loud=st.floats(0.02, 0.5),
    rate=st.sampled_from([RATE, 11025, 16000]),
)
def test_the_ratio_stands_in_the_files_whatever_is_asked_for(here, snr, level, seed, loud, rate):
    sound("c.wav", 0.8, scale=loud, seed=seed, rate=rate)
    mix("c.wav", "--noise", "noise/fan.wav", "--noise", "noise/rain", "-o", "out",
        f"--snr={snr}", "--level", level, "--seed", seed, "--overwrite", "-q")  # fmt: skip
    rows = table()
    assert len(rows) == 3
    for row in rows:
        clean, noisy, _ = pair(row)
        assert ratio(row) == pytest.approx(snr, abs=0.1)
        assert max(np.abs(clean).max(), np.abs(noisy).max()) <= 1
        assert 0 < float(row["gain"]) <= 1


def test_the_same_seed_gives_the_same_bytes_and_more_files_leave_them(here):
    options = ("--snr", "0,5")
    mix("speech", "--noise", "noise", "-o", "one", *options)
    first = contents("one")
    mix("speech", "--noise", "noise", "-o", "same", *options)
    assert contents("same") == first
    mix("speech", "--noise", "noise", "-o", "other", *options, "--seed", 1)
    other = contents("other")
    assert set(other) == set(first)
    assert all((other[n] == first[n]) == n.startswith("clean") for n in first)

    sound("speech/c.wav", seed=3)
    sound("late/wind.wav", 2, seed=4)
    mix("speech", "--noise", "noise", "--noise", "late", "-o", "more", "--snr", "0,5,15")
    more = contents("more")
    assert len(more) == 3 + 3 * 3 * 3
    assert {name: more[name] for name in first} == first

    mix("speech", "--noise", "noise", "-o", "some", *options, "--count", 3)
    some = contents("some")
    assert len(table("some")) == 3 and some.items() <= more.items()


def test_what_would_clip_is_made_softer_with_its_clean_file(here):
    sound("loud.wav", scale=0.2, seed=5)
    mix("loud.wav", "speech/a.wav", "--noise", "noise/fan.wav", "-o", "out", "--snr", "-20,0,20")
    loud, soft = table()[:3], table()[3:]
    assert {row["gain"] for row in loud} == {loud[0]["gain"]}
    gain = float(loud[0]["gain"])
    assert gain in (1 / 16, 1 / 8)
    original = soundfile.read("loud.wav")[0]
    clean = pair(loud[0])[0]
    np.testing.assert_allclose(clean, gain * original, atol=2**-15)
    assert 0.5 < np.abs(pair(loud[0])[1]).max() <= 1
    for row in loud:
        assert ratio(row) == pytest.approx(float(row["snr"]), abs=0.05)
    assert len({row["gain"] for row in soft}) == 1 and float(soft[0]["gain"]) == 4 * gain


def test_speech_that_leaves_room_is_left_as_it_is(here):
    mix("speech/a.wav", "--noise", "noise/fan.wav", "-o", "out", "--snr", "10,30")
    for row in table():
        assert float(row["gain"]) == 1
        np.testing.assert_array_equal(pair(row)[0], soundfile.read("speech/a.wav")[0])


def test_rates_and_channels(here):
    """The speech decides the rate, unless --rate does; a noise of a lower one is noted once."""
    sound("speech/a.wav", 1.0, rate=16000, channels=2)
    noises = ["noise/fan.wav", "noise/rain/0.wav", "noise/rain/1.wav"]
    options = [word for noise in noises for word in ("--noise", noise)]
    result = mix("speech/a.wav", *options, "-o", "out", "--snr", "0,5")
    for row in table():
        clean, _, rate = pair(row)
        assert (rate, clean.shape) == (16000, (16000,))
        assert ratio(row) == pytest.approx(float(row["snr"]), abs=0.05)
    both = soundfile.read("speech/a.wav")[0]
    np.testing.assert_allclose(pair(table()[0])[0], both.mean(axis=1), atol=2**-15)
    assert result.stderr.splitlines() == [
        f"Note: {noise} has a rate of 8000 Hz, so its mixtures at 16000 Hz contain no noise above "
        "4000 Hz"
        for noise in noises
    ]
    result = mix("speech", "--noise", "noise/fan.wav", "-o", "low", "--snr", "0", "--rate", 4000)
    assert result.stderr == ""
    for row in table("low"):
        assert pair(row, "low")[2] == 4000
        assert ratio(row, "low") == pytest.approx(0, abs=0.05)
    quiet = mix("speech/a.wav", "--noise", "noise/fan.wav", "-o", "quiet", "--snr", "0", "-q")
    assert quiet.output == ""


def test_names_keep_their_place_in_a_folder(here):
    """Two speakers may have spoken the same sentence."""
    for speaker in "xy":
        sound(f"corpus/{speaker}/SA1.wav", seed=ord(speaker))
    mix("corpus", "--noise", "noise/fan.wav", "-o", "out", "--snr", "0")
    assert [row["noisy"] for row in table()] == [
        f"noisy/fan_0dB/{speaker}/SA1.flac" for speaker in "xy"
    ]
    result = mix(
        "corpus/x/SA1.wav", "corpus/y/SA1.wav", "--noise", "noise/fan.wav", "-o", "flat",
        "--snr", "0", code=2,
    )  # fmt: skip
    assert result.stderr == (
        "Error: corpus/y/SA1.wav has the same name in the corpus as corpus/x/SA1.wav\n"
    )
    assert len(table("flat")) == 1


def test_files_of_the_same_name_may_be_noises_of_one_kind(here):
    for k in range(2):
        sound(f"n{k}/hum.wav", 2, seed=k)
    for k in range(12):
        sound(f"many/{k}.wav", 0.2, seed=k)
    mix("many", "--noise", "n0/hum.wav", "--noise", "n1/hum.wav", "-o", "out", "--snr", "0")
    assert {row["noise"] for row in table()} == {"hum"}
    assert {row["noise_file"] for row in table()} == {"n0/hum.wav", "n1/hum.wav"}


def test_levels_are_those_of_the_library():
    assert tuple(level.value for level in Level) == LEVELS


@pytest.mark.slow
def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom alphamf.cli.app import app\n"
        "assert CliRunner().invoke(app, ['mix', '--help']).exit_code == 0\n"
        "heavy = {'numpy', 'soundfile', 'alphamf.evaluation.mixing.mixture'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
