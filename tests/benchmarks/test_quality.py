"""Clips of the tables of quality, and the tables themselves."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from alphamf.audio.speech_level import pause_depth
from alphamf.scores.score import si_sdr
from benchmarks import quality, quality_clips
from benchmarks.front_clips import Clip
from benchmarks.report import run_main

RATE = quality_clips.RATE


@pytest.mark.parametrize("case", quality.CASES)
def test_an_unknown_method_is_one_sentence(case, monkeypatch, capsys, tmp_path):
    arguments = ["quality", case, "--methods", "good", "-o", str(tmp_path / "a")]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit):
        run_main(quality.main)
    assert "there is no method 'good'" in capsys.readouterr().err


@pytest.fixture
def clip(monkeypatch):
    """Return a clip; the recordings are one tone at 30 Hz that is soft, and one that is not."""
    times = np.arange(2 * RATE) / RATE
    noise = np.random.default_rng(0).standard_normal((2, len(times)))
    soft, loud = (noise[0] + level * np.sin(2 * np.pi * 30 * times) for level in (0.01, 1.0))
    recordings = {"soft": soft.astype(np.float32), "loud": loud.astype(np.float32)}
    monkeypatch.setattr(quality_clips, "manifest", lambda *_: [("soft", "", ""), ("loud", "", "")])
    monkeypatch.setattr(quality_clips, "mono", lambda path, rate: recordings[path])
    quality_clips.rumbles.cache_clear()
    yield Clip("en_a", RATE, noise[0].astype(np.float32), noise.sum(0).astype(np.float32))
    quality_clips.rumbles.cache_clear()


def test_the_voice_keeps_its_own_rumble_and_not_the_noises(clip):
    found = {name: made for (name,), made in quality_clips.rumble(0, clip, "dev")}
    assert list(found) == list(quality_clips.RUMBLES) and len(quality_clips.rumbles()) == 1
    own, other, loud = (found[name] for name in list(quality_clips.RUMBLES)[1:])
    assert found["none"] is clip
    np.testing.assert_array_equal(own.noisy, other.noisy)
    np.testing.assert_array_equal(other.clean, clip.clean)
    added = own.clean - clip.clean
    assert -13.1 < 20 * np.log10(added.std() / clip.clean.std()) < -6.9
    np.testing.assert_allclose(added, own.noisy - clip.noisy, atol=1e-6)
    np.testing.assert_allclose(quality_clips.below(added, RATE), added, atol=1e-4)
    assert 0 <= 20 * np.log10((loud.noisy - clip.noisy).std() / clip.clean.std()) < 10.1


def test_the_noise_lies_as_far_down_as_the_group_says(clip):
    voice = np.random.default_rng(3).standard_normal(len(clip.clean)).astype(np.float32)
    clip = clip._replace(clean=voice)
    found = {name: made for (name, *_), made in quality_clips.nearly_clean(0, clip, "test")}
    ratios = [si_sdr(made.clean, made.noisy) for made in found.values()]
    np.testing.assert_allclose(ratios[:2], [30, 40], atol=0.2)
    assert list(found) == ["30 dB", "40 dB", "clean"] and ratios[2] == np.inf


def test_hiss_of_clean_files_lies_as_deep_as_the_group_says(clip):
    levels = np.repeat([1.0, 1e-5], RATE)
    clip = clip._replace(clean=(levels * clip.clean).astype(np.float32))
    made = list(quality_clips.hiss(0, clip, "dev"))
    depths = [pause_depth(made.clean, RATE) for _, made in made]
    np.testing.assert_allclose(depths, quality_clips.HISS, atol=0.5)
    assert made[1][0] == ("50 dB",) and all(made.noisy is clip.clean for _, made in made)


def test_groups_of_a_clip_are_its_noise_level_language_and_pauses(clip):
    ((groups, made),) = quality_clips.unheard(5, clip, "test")
    assert groups == ("babble", "0 dB", "language en", "louder pauses") and made is clip


def test_references_with_quiet_pauses_are_a_group_of_their_own(clip):
    levels = np.repeat([1.0, 10 ** (-55 / 20)], RATE)
    quiet = clip._replace(clean=(levels * clip.clean).astype(np.float32))
    ((groups, _),) = quality_clips.unheard(5, quiet, "test")
    assert groups[-1] == "quiet pauses"
    for voice, more in ((quiet, ["clean, quiet pauses"]), (clip, [])):
        *_, (groups, _) = quality_clips.nearly_clean(0, voice, "test")
        assert groups == ("clean", *more)


@pytest.fixture
def printed(clip, monkeypatch, capsys, tmp_path):
    """Return what the command prints about two clips, the second of which has quiet pauses."""

    def command(*words):
        arguments = ["quality", *words, "--jobs", "1", "--split", "test", "-o", str(tmp_path / "a")]
        monkeypatch.setattr(sys, "argv", arguments)
        quality.main()
        return capsys.readouterr().out

    levels = np.repeat([1.0, 10 ** (-55 / 20)], RATE)
    quiet = clip._replace(clean=(levels * clip.clean).astype(np.float32))
    monkeypatch.setattr(quality, "sounds", lambda *_: [clip, quiet])
    return command


def test_tables_of_a_page_have_clips_with_quiet_pauses_apart(printed):
    found = printed("unheard", "--methods", "noisy")
    assert "The 1 clips whose clean file has quiet pauses:\n\n| method | SI-SDR dB |" in found
    found = printed("nearly-clean", "--methods", "noisy,logmmse")
    # The first table is for a page where tables are narrow.
    assert found.startswith("| PESQ | noisy |\n") and "| PESQ | noisy | logmmse |\n" in found


def test_clean_recordings_with_quiet_pauses_keep_their_pesq_apart(printed):
    pytest.importorskip("pesq", reason="PESQ needs pip install 'alphamf[eval]'")
    found = printed("nearly-clean", "--methods", "noisy,logmmse")
    assert "| clean, quiet pauses (1) | 4.644 |" in found
    assert "| clean, quiet pauses (1) | 100% |" in found


ROWS = [
    quality.Row("a", ("babble", "0 dB"), {"noisy": [1.0, 2.0, 0.5], "fast": [2.0, 2.5, 0.6]}),
    quality.Row("b", ("street", "0 dB"), {"noisy": [3.0, 3.0, 0.7], "fast": [6.0, np.nan, 0.7]}),
]


def test_means_over_all_and_by_group():
    lines = quality.overall(ROWS).splitlines()
    assert lines[0] == "| method | SI-SDR dB | PESQ | ESTOI |"
    assert lines[3] == "| fast | 4.00 ± 2.00 | 2.500 | 0.650 ± 0.050 |"
    parts = [part.splitlines() for part in quality.by_group(ROWS).split("\n\n")]
    assert [part[0] for part in parts] == [
        f"| {score} | noisy | fast |" for score in ("SI-SDR dB", "PESQ", "ESTOI")
    ]
    assert parts[0][2:] == [
        "| babble (1) | 1.00 | 2.00 |",
        "| street (1) | 3.00 | 6.00 |",
        "| 0 dB (2) | 2.00 ± 1.00 | 4.00 ± 2.00 |",
    ]
    # One clip may be of more groups than another.
    rows = [ROWS[0]._replace(groups=("babble",)), ROWS[1]]
    assert quality.by_group(rows).splitlines()[4] == "| 0 dB (1) | 3.00 | 6.00 |"


def test_how_many_recordings_sound_as_they_were():
    rows = [quality.Row("a", ("clean",), {"fast": [1.0, pesq, 0.9]}) for pesq in (4.2, 4.4)]
    rows[1] = rows[1]._replace(groups=("clean", "clean, quiet pauses"))
    assert quality.kept(rows).splitlines()[2:] == [
        "| clean (2) | 50% |",
        "| clean, quiet pauses (1) | 100% |",
    ]


def test_what_was_not_changed_has_an_infinite_ratio():
    assert quality.mean([np.inf, np.inf], 2) == "∞"


def test_a_method_is_compared_with_the_others_clip_by_clip():
    rows = [
        quality.Row(row.clip, row.groups, {"dtln": row.scores["noisy"], **row.scores})
        for row in ROWS
    ]
    lines = quality.ahead(rows, "fast").splitlines()
    assert lines[0] == "| SI-SDR dB, by noise | less dtln |"
    assert lines[2] == "| all | +2.00 ± 1.00 |"
