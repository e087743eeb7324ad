"""A dictionary is learnt from files: the spectra that they hold, whatever their form."""

import numpy as np
import pytest
import soundfile

from alphamf.audio.stft import Frame
from alphamf.errors import AlphaMFError
from alphamf.learnt import dictionary
from alphamf.training.dictionary import api
from alphamf.training.dictionary.api import train
from alphamf.training.dictionary.speech import Voice
from tests.support.planted import coloured, cosines

RATE = 8000
BINS = np.arange(257)
PLANTED = np.exp(-0.5 * ((BINS[:, None] - np.array([40, 90, 180])) / 25) ** 2) + 1e-3
"""Power spectra, one in a column, which overlap."""

QUICK = {"rank": 3, "context": 1, "steps": 40}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two files, in which the planted sounds follow each other in syllables."""
    folder = tmp_path_factory.mktemp("clean")
    paths = []
    for k in range(2):
        rng = np.random.default_rng(k)
        parts = [coloured(PLANTED[:, rng.integers(3)], 0.25, rng) for _ in range(16)]
        paths.append(folder / f"voice{k}.wav")
        soundfile.write(paths[-1], np.concatenate(parts), RATE, subtype="FLOAT")
    return paths


@pytest.mark.parametrize("alpha", [pytest.param(2.0, marks=pytest.mark.slow), 1.2])
@pytest.mark.parametrize("sampler", ["em", pytest.param("sgrld", marks=pytest.mark.slow)])
def test_planted_spectra_are_found(files, alpha, sampler):
    """The dispersion of a power spectrum P is in proportion to P^(alpha/2)."""
    model = train(files, alpha=alpha, sampler=sampler, rank=3, context=1, steps=400)
    assert model.basis.dtype == np.float32
    assert cosines(model.basis, PLANTED ** (alpha / 2)).min() > 0.97
    # Which the exponent makes a difference to.
    wrong = cosines(model.basis, PLANTED ** (1 if alpha < 2 else 0.6))
    assert wrong.mean() < cosines(model.basis, PLANTED ** (alpha / 2)).mean()


def test_context_stacks_frames(tmp_path):
    """A sound that lasts gives a column whose frames are alike."""
    path = tmp_path / "hum.wav"
    soundfile.write(path, coloured(PLANTED[:, 1], 4, np.random.default_rng(0)), RATE)
    model = train([path], alpha=2.0, rank=1, context=3, steps=40)
    assert model.basis.shape == (3 * 257, 1)
    assert (model.context, model.frame, model.rate) == (3, Frame(512, 128), RATE)
    np.testing.assert_allclose(model.basis.sum(0), 1, rtol=1e-4)
    for frame in np.split(model.basis, 3):
        assert cosines(frame, PLANTED[:, 1:2]).min() > 0.98
        assert frame.sum() == pytest.approx(1 / 3, abs=0.01)


def test_what_is_told(files, tmp_path):
    """The settings are in the file, and progress comes after every step."""
    told = []
    model = train(files, **QUICK, seed=3, progress=told.append)
    assert [progress.step for progress in told] == list(range(1, 41))
    assert {p.steps for p in told} == {40}
    # At alpha = 1 nothing makes it rise at every step, but it does in the long run.
    assert np.mean([p.objective for p in told[:5]]) < np.mean([p.objective for p in told[-5:]])
    assert model.about["files"] == 2
    assert model.about["seconds"] == pytest.approx(8, abs=0.5)
    assert {model.about[key] for key in ("sampler", "steps", "keep", "seed")} == {"em", 40, 13, 3}
    model.save(tmp_path / "model.npz")
    assert dictionary.load(tmp_path / "model.npz").about == model.about


def test_form_of_the_files_does_not_matter(tmp_path):
    """Level, channels, rate and silence around the speech leave the dictionary as it is."""
    audio = coloured(PLANTED[:, 1], 2, np.random.default_rng(0), rate=16000)
    audio += np.float32(0.3) * coloured(PLANTED[:, 0], 2, np.random.default_rng(1), rate=16000)
    silence = np.zeros(16000 * 3, np.float32)
    forms = {
        "plain": audio,
        "quiet": audio * np.float32(2.0**-20),
        "stereo": np.stack([audio, np.zeros_like(audio)], axis=1),
        "framed": np.concatenate([silence, audio, silence]),
    }
    learnt = {}
    for name, form in forms.items():
        path = tmp_path / f"{name}.wav"
        soundfile.write(path, form, 16000, subtype="FLOAT")
        learnt[name] = train([path], **QUICK)
    for name in ("quiet", "stereo"):
        np.testing.assert_array_equal(learnt[name].basis, learnt["plain"].basis)
    assert learnt["framed"].about["seconds"] == pytest.approx(2, abs=0.2)
    total = learnt["framed"].basis.sum(1), learnt["plain"].basis.sum(1)
    assert cosines(total[0][:, None], total[1][:, None]).min() > 0.95


def test_files_count_alike(files, tmp_path):
    """A file counts no more for being loud, or longer than `seconds`."""
    audio, _ = soundfile.read(files[0], dtype="float32")
    loud, long = tmp_path / "loud.wav", tmp_path / "long.wav"
    soundfile.write(loud, audio * np.float32(1024), RATE, subtype="FLOAT")
    soundfile.write(long, np.tile(audio, 5), RATE, subtype="FLOAT")
    models = [train([first, files[1]], **QUICK, seconds=2.0) for first in (files[0], loud, long)]
    for model in models:
        assert model.about["seconds"] == pytest.approx(4, abs=0.01)
        np.testing.assert_array_equal(model.basis, models[0].basis)


def test_voices_are_balanced(tmp_path):
    """A voice counts no more for having several files."""
    rng = np.random.default_rng(0)
    names = ["a-1", "a-2", "a-3", "b-1"]
    paths = [tmp_path / f"{name}.wav" for name in names]
    for path in paths:
        soundfile.write(path, coloured(PLANTED[:, rng.integers(3)], 1.5, rng), RATE)
    model = train(paths, **QUICK, seconds=2.0, voices="prefix")
    # Two seconds of the first voice, from two of its files, and what there is of the second.
    assert model.about["seconds"] == pytest.approx(3.5, abs=0.01)
    assert (model.about["files"], model.about["voices"]) == (3, 2)
    np.testing.assert_array_equal(
        train([*paths[:2], paths[3]], **QUICK, seconds=2.0, voices="prefix").basis, model.basis
    )


def test_silent_files_are_passed_over(files, tmp_path):
    soundfile.write(tmp_path / "silent.wav", np.zeros(RATE), RATE)
    opposed = np.outer(coloured(PLANTED[:, 0], 1, np.random.default_rng(0)), [1, -1])
    soundfile.write(tmp_path / "opposed.wav", opposed, RATE, subtype="FLOAT")
    silent = [tmp_path / "silent.wav", tmp_path / "opposed.wav"]
    np.testing.assert_array_equal(
        train([*silent, *files], **QUICK).basis, train(files, **QUICK).basis
    )
    with pytest.raises(AlphaMFError, match="all the files are silent"):
        train(silent)


def test_a_folder_is_the_files_in_it(files, tmp_path):
    folder = files[0].parent
    given = sorted(str(path) for path in folder.iterdir())
    expected = train(given, **QUICK)
    for paths in ([folder], folder, str(folder), [f"{folder}/*"], [*given[:1], folder]):
        np.testing.assert_array_equal(train(paths, **QUICK).basis, expected.basis)
    with pytest.raises(AlphaMFError, match="contains no audio files"):
        train([tmp_path])


def test_files_that_do_not_do(files, tmp_path):
    with pytest.raises(AlphaMFError, match="no files were given"):
        train([])
    with pytest.raises(AlphaMFError, match=r"gone\.wav does not exist"):
        train([*files, tmp_path / "gone.wav"])
    with pytest.raises(AlphaMFError, match=r"voice0\.wav has a rate of 8000 Hz"):
        train(files, rate=16000)


def test_files_that_do_not_do_are_passed_over_where_somebody_listens(files, tmp_path):
    (tmp_path / "text.wav").write_text("not audio")
    bad = [tmp_path / "text.wav", tmp_path / "gone.wav"]
    told = []
    model = train([bad[0], *files, bad[1]], **QUICK, skipped=told.append)
    assert len(told) == 2
    assert "text.wav is not an audio file" in told[0] and "gone.wav does not exist" in told[1]
    assert model.about["unusable"] == 2
    np.testing.assert_array_equal(model.basis, train(files, **QUICK).basis)
    with pytest.raises(AlphaMFError, match="none of the files can be used"):
        train(bad, **QUICK, skipped=told.append)


@pytest.mark.parametrize(
    ("name", "value"),
    [("rate", 0), ("rate", 3999), ("rate", 96000), ("alpha", 0.4), ("alpha", 2.1), ("seconds", 0)],
    ids=str,
)
def test_out_of_range(files, name, value):
    """What lies beside a range; other values: `tests/test_arguments.py`."""
    with pytest.raises(AlphaMFError, match=name) as caught:
        train(files, **QUICK | {name: value})
    assert "\n" not in str(caught.value)


def test_the_rate_is_that_of_the_voices(files, tmp_path):
    """16 kHz, or 8 kHz where a file has less; files that cannot be read do not count."""
    high = []
    for rate in (16000, 44100):
        high.append(tmp_path / f"{rate}.wav")
        soundfile.write(high[-1], coloured(PLANTED[:, 1], 1, np.random.default_rng(0), rate), rate)
    (tmp_path / "text.wav").write_text("not audio")
    quick = QUICK | {"steps": 3, "skipped": lambda sentence: None}
    assert train([*high, tmp_path / "text.wav"], **quick).rate == 16000
    assert train([*high, files[0]], **quick).rate == 8000
    assert train(high, **quick, rate=8000).rate == 8000


def test_memory_is_bounded(files, tmp_path, monkeypatch):
    """Beyond `MOST_CELLS`, voices are drawn at random, and the last one is cut."""
    paths = [tmp_path / f"{k}.wav" for k in range(6)]
    for k, path in enumerate(paths):
        soundfile.write(path, coloured(PLANTED[:, k % 3], 1, np.random.default_rng(k)), RATE)
    shapes, found = [], []
    stacked = api.stack
    monkeypatch.setattr(api, "stack", lambda *a: shapes.append(a[0].shape[1]) or stacked(*a))
    monkeypatch.setattr(api, "MOST_CELLS", 257 * 156)  # 2.5 s
    for seed in range(4):
        shapes.clear()
        model = train(paths, **QUICK | {"steps": 3}, seconds=1.0, seed=seed)
        assert model.about["files"] == 3 and model.about["seconds"] == pytest.approx(2.5, abs=0.02)
        assert sum(shapes) <= 156 + 3 * 4
        found.append(model.basis)
    assert len({basis.tobytes() for basis in found}) == 4
    whole = train(paths[:2], **QUICK | {"steps": 3}, seconds=1.0)
    assert whole.about["files"] == 2


@pytest.mark.parametrize(("voices", "held"), [(4, 0), (5, 1), (14, 2), (60, api.TRIED)])
def test_a_fifth_of_the_voices_is_held_back(voices, held):
    groups = [Voice(str(k), (f"{k}/a", f"{k}/b")) for k in range(voices)]
    files, tried = api.hold_back(groups)
    assert len(files) == 2 * (voices - held) and len(tried) == held
    assert not {file.partition("/")[0] for file in files} & {
        file.partition("/")[0] for file in tried
    }


@pytest.mark.slow
def test_the_shipped_model_gains_nothing_over_itself(tmp_path):
    audio, rate = soundfile.read("data/sample-clean.wav", frames=24000)
    soundfile.write(tmp_path / "a.wav", audio, rate)
    said = []
    found = api.gains_over_shipped(
        dictionary.load("speech-16k"), [tmp_path / "a.wav", "gone.wav"], said.append
    )
    assert found == {"plain": [0.0], "fast": [0.0]}
    assert said == ["gone.wav does not exist"]
