"""Rank and alpha chosen by held-out speech, and work that survives a stop."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
import soundfile

from alphamf.audio.stft import Frame, forward
from alphamf.errors import AlphaMFError
from alphamf.factorization.likelihood import log_density
from alphamf.learnt.dictionary import Dictionary
from alphamf.tools.tables import mean_and_error
from alphamf.training.dictionary import selection
from alphamf.training.dictionary.held_out import score
from alphamf.training.dictionary.selection import select
from alphamf.training.dictionary.settings import TrainingSettings
from alphamf.training.dictionary.unfinished import clear
from alphamf.training.dictionary.voices import group
from tests.support.planted import PLANTED, RATE, Stopped, syllables

SETTINGS = TrainingSettings(rate=RATE, context=1, seconds=1.0, steps=40)
GRID = {"ranks": [1, 3], "alphas": [1.0, 2.0]}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Ten voices that speak the planted sounds."""
    folder = tmp_path_factory.mktemp("voices")
    return [syllables(folder / f"{k}.wav", 1.0, seed=k) for k in range(10)]


def model_of(basis, alpha=2.0):
    basis = (basis / basis.sum(0)).astype(np.float32)
    return Dictionary(basis, alpha, RATE, Frame(256, 64))


@pytest.mark.slow
def test_the_score_knows_a_better_dictionary(files):
    """Above all: more columns are no better for being more, as they are where no cell is hidden."""
    rng = np.random.default_rng(0)
    voices = group(files)
    # All that a cell can say of itself, and nothing of its neighbours.
    single = np.eye(129) + 1e-4
    bases = {
        "planted": PLANTED,
        "two of them": PLANTED[:, :2],
        "noisy": PLANTED * np.exp(rng.standard_normal(PLANTED.shape)),
        "bins": single,
    }
    scores = {name: score(model_of(basis), voices, 1.0, 0) for name, basis in bases.items()}
    for name in ("two of them", "noisy", "bins"):
        less, error = mean_and_error(scores["planted"] - scores[name])
        assert less > 4 * error, name


@pytest.mark.parametrize("alpha", [0.8, 1.3, 2.0])
def test_the_score_is_a_log_density(tmp_path, alpha):
    """White noise, and a flat column: that of the cells under the dispersion that suits them."""
    noise = np.random.default_rng(0).standard_normal(4 * RATE).astype(np.float32)
    path = str(tmp_path / "noise.wav")
    soundfile.write(path, noise / np.abs(noise).max(), RATE, subtype="FLOAT")
    power = np.abs(forward(noise, Frame(256, 64)))[:, 8:-8] ** 2
    power /= power.mean()
    found = score(model_of(np.ones((129, 1)), alpha), group([path]), 4.0, 0)[0]
    scales = np.exp(np.linspace(-2, 1, 61))
    best = max(log_density(power, np.full(1, scale), alpha).mean() for scale in scales)
    assert found == pytest.approx(best, abs=0.05)


def test_the_score_is_of_the_seed(files):
    voices, model = group(files[:3]), model_of(PLANTED)
    first, same, other = (score(model, voices, 1.0, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, same)
    assert (first != other).all()
    # Another seed hides other cells of the same voices.
    assert np.abs(first - other).max() < 1


def test_the_score_passes_over_what_says_nothing(files, tmp_path):
    soundfile.write(tmp_path / "x-1.wav", np.zeros(RATE), RATE)
    (tmp_path / "x-2.wav").write_text("no audio")
    nothing = [str(tmp_path / "x-1.wav"), str(tmp_path / "x-2.wav")]
    reported = []
    values = score(model_of(PLANTED), group([*nothing, *files[:2]]), 1.0, 0, reported.append)
    assert len(values) == 2 and len(reported) == 1
    with pytest.raises(AlphaMFError, match=r"x-2\.wav is not an audio file"):
        score(model_of(PLANTED), group(nothing), 1.0, 0)
    with pytest.raises(AlphaMFError, match="held-out voices contain no speech"):
        score(model_of(PLANTED), group(nothing), 1.0, 0, reported.append)


@pytest.mark.parametrize("stream", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_best_is_kept(files, stream):
    """Gaussian sounds of three kinds: alpha = 2, and not one column."""
    chosen = select(files, replace(SETTINGS, stream=stream), **GRID, held_out=0.4)
    pairs = [(candidate.rank, candidate.alpha) for candidate in chosen.candidates]
    assert pairs == [(1, 1.0), (1, 2.0), (3, 1.0), (3, 2.0)]
    assert (chosen.best.rank, chosen.best.alpha) == (3, 2.0)
    assert (chosen.model.rank, chosen.model.alpha) == (3, 2.0)
    assert len(chosen.best.scores) == 4
    about = chosen.model.about
    assert about["files"] == 6 and about["held_out"] == "4 voices"
    assert about["score"].startswith(f"{chosen.best.mean:.4f} ± ")


def test_without_a_choice_nothing_is_held_out(files):
    chosen = select(files, SETTINGS, ranks=[2], alphas=[1.0])
    assert chosen.candidates == [] and chosen.model.about["files"] == 10
    chosen = select(files, SETTINGS, ranks=[2], alphas=[1.0], held_out=0.3)
    assert len(chosen.candidates) == 1 and chosen.model.about["files"] == 7


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
def test_a_stopped_choice_goes_on(files, tmp_path, monkeypatch, stream):
    """What is done is not done again, what was begun goes on, and the bits are the same."""
    settings = replace(SETTINGS, stream=stream)
    whole = select(files, settings, **GRID)
    folder, steps = tmp_path / "m.npz.checkpoint", []

    def report(progress):
        if (progress.rank, progress.alpha, progress.step) == (3, 1.0, 33):
            raise Stopped

    with pytest.raises(Stopped):
        select(files, settings, **GRID, folder=folder, progress=report)
    chosen = select(files, settings, **GRID, folder=folder, progress=steps.append)
    # A stream goes on from its last checkpoint, the twentieth step.
    begun = range(21, 41) if stream else range(1, 41)
    assert [(p.rank, p.alpha, p.step) for p in steps] == [
        *((3, 1.0, step) for step in begun),
        *((3, 2.0, step) for step in range(1, 41)),
    ]
    np.testing.assert_array_equal(chosen.model.basis, whole.model.basis)
    assert chosen.model.about == whole.model.about
    for one, other in zip(chosen.candidates, whole.candidates, strict=True):
        np.testing.assert_array_equal(one.scores, other.scores)
    assert folder.is_dir()
    (folder / "notes.txt").touch()
    clear(folder)
    assert os.listdir(folder) == ["notes.txt"]
    (folder / "notes.txt").unlink()
    clear(folder)
    assert not folder.exists()
    clear(folder)


def test_other_work_is_not_gone_on_with(files, tmp_path):
    """Another setting or another file, even at the same path, is other work."""
    settings = replace(SETTINGS, stream=True, steps=20)

    def steps(paths, settings):
        reported = []
        select(
            paths,
            settings,
            ranks=[2],
            alphas=[1.0],
            folder=tmp_path / "x",
            progress=reported.append,
        )
        return len(reported)

    paths = [syllables(tmp_path / "a.wav", 1.0), files[0]]
    assert steps(paths, settings) == 20
    assert steps(paths, settings) == 0
    assert steps(paths, replace(settings, seed=1)) == 20
    assert steps(paths[::-1], settings) == 20
    syllables(tmp_path / "a.wav", 1.0, seed=5)
    os.utime(tmp_path / "a.wav", (1, 1))
    assert steps(paths, settings) == 20


def test_a_broken_file_of_what_is_done_is_done_again(files, tmp_path):
    folder = tmp_path / "x"
    whole = select(files[:4], SETTINGS, **GRID, folder=folder)
    for path in folder.glob("*.done.npz"):
        path.write_bytes(path.read_bytes()[:-200])
    reported = []
    again = select(files[:4], SETTINGS, **GRID, folder=folder, progress=reported.append)
    assert len(reported) == 4 * SETTINGS.steps
    np.testing.assert_array_equal(again.model.basis, whole.model.basis)


def test_no_folder_is_left_where_nothing_was_done(files, tmp_path):
    folder = tmp_path / "x"
    with pytest.raises(AlphaMFError, match="does not exist"):
        select([*files, str(tmp_path / "gone.wav")], SETTINGS, **GRID, folder=folder)
    assert not folder.exists()
    select(files[:2], SETTINGS, ranks=[1], alphas=[1.0], folder=folder)
    assert not folder.exists()
    (tmp_path / "file").touch()
    with pytest.raises(AlphaMFError, match=r"cannot create .*file: "):
        select(files, SETTINGS, **GRID, folder=tmp_path / "file")


def test_a_bad_file_is_reported_once(files, tmp_path, monkeypatch):
    (tmp_path / "text.wav").write_text("no audio")
    monkeypatch.setattr(selection, "HELD_OUT", 0.5)
    reported = []
    chosen = select(
        [*files[:3], str(tmp_path / "text.wav")], SETTINGS, **GRID, skipped=reported.append
    )
    assert len(reported) == 1 and chosen.candidates


def test_what_cannot_be_chosen(files):
    with pytest.raises(
        AlphaMFError, match=r"the held-out fraction must be between 0 and 1, not 1\.5"
    ):
        select(files, SETTINGS, ranks=[1], alphas=[1.0], held_out=1.5)
    with pytest.raises(AlphaMFError, match="at least two"):
        select(files[:1], SETTINGS, **GRID)
    with pytest.raises(AlphaMFError, match="rank must be from 1 to 10000, not 0"):
        select(files, SETTINGS, ranks=[3, 0], alphas=[1.0])
