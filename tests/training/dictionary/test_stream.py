"""A dictionary from streamed speech: which excerpts, what memory it takes, how it resumes."""

from __future__ import annotations

import os
import shutil
import tracemalloc

import numpy as np
import pytest
import soundfile

from alphamf.audio.stft import Frame
from alphamf.errors import AlphaMFError
from alphamf.inference.random import generator
from alphamf.training.dictionary import runs, stream
from alphamf.training.dictionary.activations import activate
from alphamf.training.dictionary.api import train
from alphamf.training.dictionary.fit import fit
from alphamf.training.dictionary.settings import TrainingSettings
from alphamf.training.dictionary.speech import Excerpts
from alphamf.training.dictionary.stream import VoiceStream
from alphamf.training.dictionary.voices import group
from tests.support.planted import PLANTED, RATE, Stopped, cosines, syllables

QUICK = {"rate": RATE, "rank": 3, "context": 1, "seconds": 1.0, "stream": True}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Four voices, of which the first one has three files."""
    folder = tmp_path_factory.mktemp("clean")
    names = ["a-1", "a-2", "a-3", "b-1", "c-1", "d-1"]
    return [syllables(folder / f"{name}.wav", seed=k) for k, name in enumerate(names)]


@pytest.mark.parametrize("alpha", [2.0, pytest.param(1.2, marks=pytest.mark.slow)])
def test_planted_spectra_are_found(files, alpha):
    model = train(files, **QUICK, alpha=alpha, steps=400)
    assert cosines(model.basis, PLANTED ** (alpha / 2)).min() > 0.96
    np.testing.assert_allclose(model.basis.sum(0), 1, rtol=1e-4)


def test_what_is_reported(files, monkeypatch):
    reported, heard = [], set()
    read = Excerpts.read

    def spy(self, path, place):
        heard.add(path)
        return read(self, path, place)

    monkeypatch.setattr(Excerpts, "read", spy)
    model = train(files, **QUICK, steps=30, voices="prefix", seed=4, progress=reported.append)
    assert [progress.step for progress in reported] == list(range(1, 31))
    assert {(p.rank, p.alpha, p.steps) for p in reported} == {(3, 1.0, 30)}
    assert reported[-1].objective > reported[2].objective
    about = model.about
    assert (about["files"], about["voices"], about["passes"]) == (len(heard), 4, 7.5)
    assert 4 <= len(heard) <= 6  # the first voice has three, of which each pass draws one
    assert (about["steps"], about["keep"], about["seed"]) == (30, 10, 4)
    assert about["seconds"] == pytest.approx(30, abs=1)


def test_seeds(files):
    first, same, other = (train(files, **QUICK, steps=5, seed=seed).basis for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, same)
    assert (first != other).mean() > 0.99


def test_every_pass_takes_each_voice_once(files, monkeypatch):
    """Every pass hears every voice once, whatever its files, in another order, elsewhere."""
    excerpts = []
    read = Excerpts.read

    def spy(self, path, place):
        excerpts.append((os.path.basename(path)[0], path, place))
        return read(self, path, place)

    monkeypatch.setattr(Excerpts, "read", spy)
    train(files, **QUICK, steps=48, keep=1, voices="prefix")
    passes = ["".join(name for name, _, _ in excerpts[k : k + 4]) for k in range(0, 48, 4)]
    assert {"".join(sorted(names)) for names in passes} == {"abcd"}
    assert len(set(passes)) > 4
    assert {path for _, path, _ in excerpts} == set(files)
    assert len({place for _, _, place in excerpts}) == 48


def test_the_amount_of_speech_decides(files, monkeypatch):
    """By headers; beyond `MAX_IN_MEMORY` it is streamed, with at least a step for each voice."""
    settings = {key: value for key, value in QUICK.items() if key != "stream"}

    def passes(**more):
        return train(files, **settings | {"seconds": 1.5} | more).about.get("passes")

    monkeypatch.setattr(runs, "STEPS", 3)
    monkeypatch.setattr(runs, "MIN_STEPS", 4)
    assert passes() is None
    monkeypatch.setattr("alphamf.training.dictionary.fit.MAX_IN_MEMORY", 8.9)
    assert passes() == 1.0
    assert passes(voices="prefix") is None  # 4 voices of 1.5 s
    assert passes(seconds=2.5, voices="prefix") is None  # 2.5 + 3 * 2 s, though 4 * 2.5 is more
    assert passes(seconds=4.0, voices="prefix") == 1.0
    assert passes(stream=False) is None
    assert passes(sampler="sgrld") is None
    with pytest.raises(AlphaMFError, match="streamed training supports only the sampler em"):
        passes(sampler="sgrld", stream=True)


def peak(paths):
    """Return the most memory in bytes that three steps take."""
    train(paths, **QUICK, steps=1)
    tracemalloc.start()
    try:
        train(paths, **QUICK, steps=3)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow(files, tmp_path):
    """Neither with the number of files nor with their length."""
    few = peak(files[:2])
    many = [*files, *(syllables(tmp_path / f"{k}.wav", seed=k) for k in range(20))]
    assert peak(many) < 1.1 * few
    long = syllables(tmp_path / "long.wav", 60.0)
    assert peak([long, files[0]]) < 1.5 * few


def test_a_long_turn_is_cut(tmp_path, monkeypatch):
    """The model sees ten seconds at a time, and all of them."""
    columns = []

    def spy(power, *rest):
        columns.append(power.shape[1])
        return activate(power, *rest)

    monkeypatch.setattr(stream, "activate", spy)
    path = syllables(tmp_path / "long.wav", 26.0)
    train([path], **QUICK | {"seconds": 25.0}, steps=1)
    assert len(columns) == 3 and max(columns) <= 625
    assert sum(columns) == pytest.approx(25 * 62.5, abs=3)


def voices_of(*paths):
    return group([str(path) for path in paths])


def test_silence_is_passed_over(files, tmp_path):
    """Silent files, silent parts of a file, and silence at the ends of an excerpt."""
    soundfile.write(tmp_path / "silent.wav", np.zeros(RATE), RATE)
    audio, _ = soundfile.read(files[0], dtype="float32")
    gap = np.zeros(20 * RATE, np.float32)
    soundfile.write(tmp_path / "gaps.wav", np.concatenate([gap, audio, gap]), RATE)
    settings = TrainingSettings(**QUICK)
    target = VoiceStream(voices_of(tmp_path / "silent.wav", tmp_path / "gaps.wav"), settings)
    rng = generator(0, 0)
    theta = target.start(rng)
    for _ in range(12):
        assert (target.draw(rng, theta).plus > 0).all()
    assert target.used_files == 1
    assert target.seconds == pytest.approx(12, abs=6)
    reader = Excerpts(RATE, settings.frame, 1.0)
    assert len(reader.read(str(tmp_path / "gaps.wav"), 0.1)) == 0
    # Two seconds from half a second before the speech: one and a half are left, and cut to one.
    assert len(reader.read(str(tmp_path / "gaps.wav"), 19.5 / 40)) == RATE
    assert 0 < len(reader.read(str(tmp_path / "gaps.wav"), 18.5 / 40)) < 0.75 * RATE
    with pytest.raises(AlphaMFError, match="all the files are silent"):
        train([tmp_path / "silent.wav"], **QUICK)


def test_a_stretch_is_where_it_is_asked_for(tmp_path):
    """The first and the last one reach the ends; seeking finds the same as reading on."""
    ramp = np.linspace(0.5, 1, 5 * RATE).astype(np.float32) * (-1) ** np.arange(5 * RATE)
    soundfile.write(tmp_path / "ramp.wav", ramp, RATE, subtype="FLOAT")
    reader = Excerpts(RATE, Frame(256, 64), 1.0)
    path = str(tmp_path / "ramp.wav")
    np.testing.assert_array_equal(reader.read(path, 0.0), ramp[:RATE])
    np.testing.assert_array_equal(reader.read(path, 0.5), ramp[6000 : 6000 + RATE])
    np.testing.assert_array_equal(reader.read(path, 1 - 1e-9), ramp[3 * RATE : 4 * RATE])
    assert len(Excerpts(RATE, Frame(256, 64), 60.0).read(path, 0.7)) == len(ramp)


def test_files_that_do_not_do(files, tmp_path):
    (tmp_path / "text.wav").write_text("no audio")
    soundfile.write(tmp_path / "low.wav", np.ones(800), 2000)
    os.mkfifo(tmp_path / "pipe.wav")
    bad = [tmp_path / name for name in ("text.wav", "low.wav", "pipe.wav", "gone.wav")]
    sentences = []
    model = train([*files, *bad], **QUICK, steps=20, skipped=sentences.append)
    assert model.about["unusable"] == 4 and model.about["files"] == 6
    found = sorted(sentence.partition(".wav ")[2] for sentence in sentences)
    assert len(found) == 4  # each of them once, though its turn comes twice
    assert found[0].startswith("does not exist")
    assert found[1].startswith("has a rate of 2000 Hz")
    assert found[2].startswith("is not a regular file")
    assert found[3].startswith("is not an audio file")
    with pytest.raises(AlphaMFError, match=r"\.wav "):
        train([*files, *bad], **QUICK, steps=20)
    with pytest.raises(AlphaMFError, match="none of the files can be used"):
        train(bad, **QUICK, skipped=sentences.append)


def test_a_pipe_is_not_waited_for(files, tmp_path):
    """Wherever it comes up: also where silence has been found before."""
    os.mkfifo(tmp_path / "x-1.wav")
    for k in (2, 3, 4):
        soundfile.write(tmp_path / f"x-{k}.wav", np.zeros(RATE), RATE)
    paths = [files[0], *(tmp_path / f"x-{k}.wav" for k in (1, 2, 3, 4))]
    reported = []
    train(paths, **QUICK, voices="prefix", steps=30, skipped=reported.append)
    assert len(reported) == 1 and "not a regular file" in reported[0]


def test_a_file_that_goes_away(files, tmp_path):
    path = tmp_path / "a.wav"
    shutil.copyfile(files[0], path)
    reader = Excerpts(RATE, Frame(256, 64), 1.0)
    reader.read(str(path), 0.0)
    path.unlink()
    with pytest.raises(AlphaMFError, match=r"a\.wav can no longer be read"):
        reader.read(str(path), 0.0)


def test_a_seek_that_fails_is_a_sentence(files, tmp_path):
    path = tmp_path / "a.wav"
    shutil.copyfile(files[0], path)
    reader = Excerpts(RATE, Frame(256, 64), 0.1)
    reader.read(str(path), 0.0)
    soundfile.write(path, np.full(10, 0.1), RATE)  # what is known of it is no longer so
    with pytest.raises(AlphaMFError, match=r"a\.wav can no longer be read"):
        reader.read(str(path), 0.99)


def test_a_read_that_fails_is_not_the_end(files, tmp_path, monkeypatch):
    """Libsndfile takes it for one, and another model would be learnt from what is left."""
    monkeypatch.setenv("ALPHAMF_SANDBOX", "off")  # or the read fails in another process
    reader = Excerpts(RATE, Frame(256, 64), 1.0)
    reader.read(str(files[0]), 0.0)
    read = soundfile.SoundFile.read
    monkeypatch.setattr(soundfile.SoundFile, "read", lambda *a, **k: read(*a, **k)[:-1])
    with pytest.raises(AlphaMFError, match="can no longer be read completely"):
        reader.read(str(files[0]), 0.0)


def test_a_header_that_is_read_otherwise_is_not_believed(files, tmp_path):
    """Libsndfile takes a read that fails for zeros: 16 bits were 8, and noise was learnt."""
    path = tmp_path / "a.wav"
    shutil.copyfile(files[0], path)
    reader = Excerpts(RATE, Frame(256, 64), 0.1)
    reader.read(str(path), 0.0)
    soundfile.write(path, soundfile.read(path)[0], RATE, subtype="PCM_U8")
    with pytest.raises(AlphaMFError, match="can no longer be read completely"):
        reader.read(str(path), 0.0)


def stop_at(last):
    def report(progress):
        if progress.step == last:
            raise Stopped

    return report


def test_resumed_is_unbroken(files, tmp_path):
    """Bit for bit, whether it was stopped before the averaging or during it, or twice."""
    settings = TrainingSettings(**QUICK, steps=65, keep=30)
    voices = voices_of(*files)
    whole = fit(voices, settings)
    path = tmp_path / "state.npz"
    for last in (21, 47):
        with pytest.raises(Stopped):
            fit(voices, settings, checkpoint=path, progress=stop_at(last))
    steps = []
    model = fit(voices, settings, checkpoint=path, progress=lambda p: steps.append(p.step))
    assert steps == list(range(41, 66))
    np.testing.assert_array_equal(model.basis, whole.basis)
    assert model.about == whole.about
