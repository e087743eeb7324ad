"""Choose a dictionary's rank and alpha by how well they predict held-out speech.

The score ranks models of speech, which need not rank denoisers: docs/quality.md.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from alphamf.learnt.dictionary import Dictionary
from alphamf.tools.arrays import Floats
from alphamf.tools.tables import mean_and_error
from alphamf.training.dictionary import unfinished
from alphamf.training.dictionary.fit import fit, is_streamed
from alphamf.training.dictionary.held_out import score
from alphamf.training.dictionary.progress import ProgressCallback, SkipCallback
from alphamf.training.dictionary.settings import TrainingSettings
from alphamf.training.dictionary.voices import Voice, group, hold_out

HELD_OUT = 0.1
"""Default share of the voices that is held out where there are several candidates."""

MOST = 200
"""Maximum number of voices that are held out."""


class Candidate(NamedTuple):
    """A rank and an alpha, with their scores."""

    # rank, alpha: rank and alpha of the dictionary.
    rank: int
    alpha: float
    scores: Floats  # Scores of every held-out voice (`held_out.score`), in nats

    @property
    def mean(self) -> float:
        """Mean log density of a hidden cell, in nats."""
        return float(self.scores.mean())


class Selection(NamedTuple):
    """The best dictionary, and all candidates (empty if there was only one)."""

    model: Dictionary
    candidates: list[Candidate]

    @property
    def best(self) -> Candidate:
        """The candidate that was chosen as the model."""
        return max(self.candidates, key=lambda candidate: candidate.mean)


def select(
    paths: Sequence[str | os.PathLike[str]],
    settings: TrainingSettings,
    *,
    ranks: Sequence[int],
    alphas: Sequence[float],
    held_out: float | None = None,
    folder: str | os.PathLike[str] | None = None,
    progress: ProgressCallback | None = None,
    skipped: SkipCallback | None = None,
) -> Selection:
    """Train a dictionary per rank and alpha, and keep the one that predicts speech best."""
    voices = group(paths, settings.voices)
    if len(ranks) * len(alphas) > 1 and held_out is None:
        held_out = HELD_OUT
    validation: list[Voice] = []
    if held_out is not None:
        voices, validation = hold_out(voices, held_out, MOST, settings.seed)
    # Decided once, as it may take the headers of all files.
    settings = replace(settings, stream=is_streamed(voices, settings))
    pairs = [replace(settings, rank=rank, alpha=alpha) for rank, alpha in product(ranks, alphas)]
    once = _once(skipped)
    candidates: list[Candidate] = []
    best: Dictionary | None = None
    with unfinished.lock_folder(folder if settings.stream or len(pairs) > 1 else None) as place:
        for pair in pairs:
            model, scores = _candidate(
                pair, voices, validation, place, len(pairs) > 1, progress, once
            )
            candidates.append(Candidate(pair.rank, pair.alpha, scores))
            if best is None or candidates[-1].mean > max(c.mean for c in candidates[:-1]):
                best = model
    assert best is not None  # there is at least one pair
    if not validation:
        return Selection(best, [])
    return _described(Selection(best, candidates), held_out)


def _candidate(
    settings: TrainingSettings,
    voices: Sequence[Voice],
    validation: Sequence[Voice],
    folder: Path | None,
    several: bool,
    progress: ProgressCallback | None,
    skipped: SkipCallback | None,
) -> tuple[Dictionary, Floats]:
    """Train and score a candidate; save it if there are several, or load one that was saved."""
    key = unfinished.key(settings, voices, validation)
    done = folder and folder / f"{key}.done.npz"
    known = done and unfinished.load(done, settings)
    if known:
        return known
    checkpoint = folder and folder / f"{key}.npz"
    model = fit(voices, settings, checkpoint=checkpoint, progress=progress, skipped=skipped)
    scores: Floats = np.zeros(0, np.float32)
    if validation:
        scores = score(model, validation, settings.seconds, settings.seed, skipped)
    if done and several:
        unfinished.save(done, model, scores)
    return model, scores


def _described(selection: Selection, held_out: float | None) -> Selection:
    """Add the score to the metadata of the model."""
    mean, error = mean_and_error(selection.best.scores)
    count = len(selection.best.scores)
    about = selection.model.about | {
        "held_out": f"{count} voice{'s' * (count > 1)}",
        "score": f"{mean:.4f} ± {error:.4f} nats per cell",
        "share": held_out,
    }
    return selection._replace(model=replace(selection.model, about=about))


def _once(skipped: SkipCallback | None) -> SkipCallback | None:
    if skipped is None:
        return None
    reported: set[str] = set()

    def report(sentence: str) -> None:
        if sentence not in reported:
            reported.add(sentence)
            skipped(sentence)

    return report
