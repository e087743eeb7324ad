"""Speech and noise are added at the ratio that was asked for."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphamf.errors import AlphaMFError
from alphamf.evaluation.mixing import mixture
from alphamf.evaluation.mixing.corpus import NoiseFile, Speech, claim, recipes, write_table
from tests.support.mixes import RATE, babble, decibels


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    snr=st.floats(-40, 40),
    speech_seconds=st.floats(0.1, 1.0),
    noise_seconds=st.floats(0.1, 1.0),
    level=st.sampled_from(mixture.LEVELS),
    offset=st.floats(-0.5, 0.5),
)
def test_ratio_is_the_one_asked_for(seed, snr, speech_seconds, noise_seconds, level, offset):
    """Whatever the lengths, levels and constant offsets of speech and noise."""
    speech = babble(speech_seconds, seed) + np.float32(offset)
    noise = mixture.noise(babble(noise_seconds, seed + 1) - np.float32(offset), RATE)
    assert noise.audio.mean() == pytest.approx(0, abs=1e-6)
    power = mixture.power(speech, RATE, level)
    assert power == pytest.approx(mixture.power(speech - np.float32(offset), RATE, level), rel=1e-3)
    noisy, start = mixture.mix(speech, power, noise, snr, np.random.default_rng(seed))
    assert noisy.dtype == np.float32 and noisy.shape == speech.shape
    assert 0 <= start < len(noise.audio)
    added = (noisy - speech).astype(np.float64)
    assert decibels(power / np.mean(added**2)) == pytest.approx(snr, abs=0.02)
    again, same = mixture.mix(speech, power, noise, snr, np.random.default_rng(seed))
    np.testing.assert_array_equal(again, noisy)
    assert same == start


def test_a_short_noise_is_repeated_without_a_gap_or_a_click():
    """A tone that does not fit goes on, at about its own level, through four repetitions."""
    tone = np.sin(np.arange(RATE) * 2 * np.pi * 100.3 / RATE).astype(np.float32)
    speech = np.zeros(4 * RATE, np.float32)
    noisy, _ = mixture.mix(speech, 0.5, mixture.noise(tone, RATE), 0.0, np.random.default_rng(0))
    assert np.abs(np.diff(noisy)).max() < 1.5 * np.abs(np.diff(tone)).max()
    short = np.square(noisy).reshape(-1, RATE // 50).mean(axis=1)
    assert short.min() > 0.2 and short.max() < 1.2


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), at=st.floats(0, 4.8))
def test_pauses_of_a_noise_are_not_amplified(seed, at):
    """A bark of a fifth of a second in five of (nearly) nothing is in each piece of a half."""
    rng = np.random.default_rng(seed)
    audio = rng.choice(np.float32([-1, 0, 1]) / 32768, 5 * RATE)
    start = int(at * RATE)
    audio[start : start + RATE // 5] += np.float32(0.2) * babble(0.2, seed)
    noise = mixture.noise(audio, RATE)
    noisy, offset = mixture.mix(np.zeros(RATE // 2, np.float32), 1.0, noise, 0.0, rng)
    assert offset < start + RATE // 5 and offset + RATE // 2 > start
    assert np.abs(noisy).max() > 3


def test_pieces_are_drawn_from_all_over_a_noise():
    noise = mixture.noise(babble(5), RATE)
    rng = np.random.default_rng(0)
    speech = np.zeros(RATE, np.float32)
    starts = [mixture.mix(speech, 1.0, noise, 0.0, rng)[1] for _ in range(400)]
    assert min(starts) < 0.1 * RATE and max(starts) > 3.9 * RATE
    counts, _ = np.histogram(starts, 4, (0, 4 * RATE))
    assert counts.min() > 60


@pytest.mark.parametrize("seconds", [0.5, 4])
def test_a_noise_that_is_mostly_silence_is_refused(seconds):
    """In speech that is shorter, and in one for which it is repeated."""
    speech, rng = babble(seconds), np.random.default_rng(0)
    sparse = [
        np.concatenate([babble(0.2), np.zeros(round(x * RATE), np.float32)]) for x in (1, 0.1)
    ]
    few, more = (mixture.noise(each, RATE) for each in sparse)
    with pytest.raises(AlphaMFError, match="% of the noise is digital silence"):
        for _ in range(20):
            mixture.mix(speech, 1.0, few, 0.0, rng)
    mixture.mix(speech, 1.0, more, 0.0, rng)


names = st.lists(st.text("abc/ ", min_size=1, max_size=4), min_size=1, max_size=4, unique=True)


@settings(max_examples=60, deadline=None)
@given(
    speech=names,
    more=names,
    files=names,
    ratios=st.lists(st.integers(-9, 9), min_size=1, max_size=3, unique=True),
)
def test_further_files_and_ratios_leave_the_mixtures_as_they_are(speech, more, files, ratios):
    def made(names, noises, snrs, seed=0):
        clean = [Speech(f"{name}.wav", name) for name in dict.fromkeys(names)]
        found = recipes(clean, noises, snrs, seed=seed)
        return {(recipe.files, recipe.noise, recipe.key) for recipe in found}

    noises = [NoiseFile(f"n/{name}.wav", name) for name in files]
    first = made(speech, noises, ratios)
    assert len(first) == len(speech) * len(files) * len(ratios)
    assert first <= made([*speech, *more], noises, ratios)
    assert first <= made(speech, [*noises, NoiseFile("n/x.wav", "x")], ratios)
    assert first <= made(speech, noises, [*ratios, 10])
    assert not first & made(speech, noises, ratios, seed=1)


def test_files_of_a_kind_are_all_used_and_a_further_one_takes_only_its_share():
    speech = [Speech(f"{k}.wav", str(k)) for k in range(200)]
    noises = [NoiseFile(f"rain/{k}.wav", "rain") for k in range(4)]
    before = recipes(speech, noises[:3], [0.0])
    after = recipes(speech, noises, [0.0])
    for noise in noises:
        assert 25 < sum(recipe.noise == noise for recipe in after) < 80
    for one, other in zip(before, after, strict=True):
        assert one == other or other.noise == noises[3]


def test_a_count_draws_from_all_and_no_more_than_there_are():
    speech = [Speech(f"{k}.wav", str(k)) for k in range(20)]
    noises = [NoiseFile("a.wav", "a"), NoiseFile("b.wav", "b")]
    every = recipes(speech, noises, [0.0, 5.0])
    drawn = recipes(speech, noises, [0.0, 5.0], count=30)
    assert len(drawn) == 30 and [recipe for recipe in every if recipe in drawn] == drawn
    assert len({recipe.speech for recipe in drawn}) > 12
    assert {(recipe.noise.kind, recipe.snr) for recipe in drawn} == {
        (kind, snr) for kind in "ab" for snr in (0.0, 5.0)
    }
    assert drawn != recipes(speech, noises, [0.0, 5.0], count=30, seed=1)
    assert recipes(speech, noises, [0.0, 5.0], count=1000) == every


def test_a_table_removes_only_what_the_corpus_holds(tmp_path):
    """Names that lead out of the corpus, as nobody but an enemy would write, are passed over."""
    folder = tmp_path / "corpus"
    inside = [folder / "clean/a.flac", folder / "noisy/fan_0dB/a.flac"]
    others = [tmp_path / "x.flac", folder / "clean/b.flac", folder / "notes.txt"]
    for path in (*inside, *others):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    table = "clean,noisy\nclean/a.flac,noisy/fan_0dB/a.flac\n"
    table += f"../x.flac,noisy/../../x.flac\n{tmp_path}/x.flac,notes.txt\n,\n"
    (folder / "pairs.csv").write_text(table)
    with pytest.raises(AlphaMFError, match="already contains a corpus"):
        claim(folder, [], [], overwrite=False)
    claim(folder, [str(tmp_path / "x.flac")], [], overwrite=True)
    assert not any(path.exists() for path in inside) and all(path.exists() for path in others)
    assert not (folder / "pairs.csv").exists() and not (folder / "noisy/fan_0dB").exists()


def test_what_a_killed_run_left_is_removed(tmp_path):
    planned = [("clean/a.flac", f"noisy/fan_{snr}dB/a.flac") for snr in (0, 5)]
    left = [tmp_path / name for name in planned[0]]
    with write_table(tmp_path, planned, []):
        for path in left:
            path.parent.mkdir(parents=True)
            path.touch()
        claim(tmp_path, [], [], overwrite=True)
    assert not any(path.exists() for path in left)


def test_the_table_is_written_when_the_work_is_broken_off(tmp_path):
    with pytest.raises(KeyboardInterrupt), write_table(tmp_path, [], []):
        raise KeyboardInterrupt
    assert (tmp_path / "pairs.csv").read_text().strip() == (
        "clean,noisy,noise,snr,noise_file,offset,gain,level"
    )
