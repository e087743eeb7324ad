"""Choose a dictionary's rank and alpha by the speech that it has not heard.

What is chosen is the better model of speech, which need not be the better denoiser. At a fixed
alpha of 0.7 or 1, ranks of 20, 60 and 120 come in the order of the SI-SDR that they denoise with.
But the score prefers larger alphas (1.4 over 1 over 0.7), where denoising is best at 1.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.learnt.dictionary import Dictionary
from alphamf.tools.arrays import Floats
from alphamf.tools.files import atomic, exclusive, reason, shown
from alphamf.tools.tables import mean_and_error
from alphamf.training.dictionary.fit import Skip, Tell, learn, streams
from alphamf.training.dictionary.held_out import score
from alphamf.training.dictionary.settings import Course
from alphamf.training.dictionary.voices import Voice, group, hold_out

SHARE = 0.1
"""Share of the voices that is held out where a choice asks for it."""

MOST = 200
"""Most voices that are held out."""

_OURS = re.compile(r"[0-9a-f]{16}(\.done)?\.npz(\.part)?|\.alphamf-[0-9a-f]{16}\.part")


class Candidate(NamedTuple):
    """A rank and an alpha, and the score of every voice that was held out (`held_out.score`)."""

    rank: int
    alpha: float
    scores: Floats

    @property
    def mean(self) -> float:
        """Mean log density of a hidden cell, in nats."""
        return float(self.scores.mean())


class Selection(NamedTuple):
    """The best dictionary, and what was tried: nothing where there was nothing to choose."""

    model: Dictionary
    candidates: list[Candidate]

    @property
    def best(self) -> Candidate:
        """The candidate that the model is."""
        return max(self.candidates, key=lambda candidate: candidate.mean)


def select(
    paths: Sequence[str | os.PathLike[str]],
    course: Course,
    *,
    ranks: Sequence[int],
    alphas: Sequence[float],
    share: float | None = None,
    folder: str | os.PathLike[str] | None = None,
    progress: Tell | None = None,
    skipped: Skip | None = None,
) -> Selection:
    """Learn a dictionary for every rank and alpha, and keep the one that foretells speech best.

    Parameters
    ----------
    paths
        Audio files of clean speech.
    course
        The other settings; its own rank and alpha do not matter.
    ranks, alphas
        What to try: every pair.
    share
        Share of the voices that only the score hears, 200 at most. None: a tenth of them, or none
        where there is a single pair.
    folder
        Where unfinished work lies, so that the same call finishes it: the chain's checkpoint, and
        the candidates that are done. It is made where needed; `clear` removes it.
    progress, skipped
        As in `train`; a sentence comes once.

    Raises
    ------
    AlphaMFError
        As in `train`; there are fewer than two voices to hold some out of; or the share is out of
        range.
    """
    voices = group(paths, course.voices)
    if len(ranks) * len(alphas) > 1 and share is None:
        share = SHARE
    unheard: list[Voice] = []
    if share is not None:
        voices, unheard = hold_out(voices, share, MOST, course.seed)
    # Settled once, as it may take the headers of all files.
    course = replace(course, stream=streams(voices, course))
    pairs = [replace(course, rank=rank, alpha=alpha) for rank, alpha in product(ranks, alphas)]
    once = _once(skipped)
    candidates: list[Candidate] = []
    best: Dictionary | None = None
    with _made(folder if course.stream or len(pairs) > 1 else None) as place:
        for pair in pairs:
            key = _key(pair, voices, unheard)
            done = place and place / f"{key}.done.npz"
            known = done and _load(done, pair)
            if not known:
                checkpoint = place and place / f"{key}.npz"
                model = learn(voices, pair, checkpoint=checkpoint, progress=progress, skipped=once)
                scores: Floats = np.zeros(0, np.float32)
                if unheard:
                    scores = score(model, unheard, course.seconds, course.seed, once)
                known = model, scores
                if done and len(pairs) > 1:
                    _save(done, *known)
            model, scores = known
            candidates.append(Candidate(pair.rank, pair.alpha, scores))
            if best is None or candidates[-1].mean > max(c.mean for c in candidates[:-1]):
                best = model
    assert best is not None  # there is at least one pair
    if not unheard:
        return Selection(best, [])
    chosen = Selection(best, candidates)
    mean, error = mean_and_error(chosen.best.scores)
    count = len(chosen.best.scores)
    about = best.about | {
        "held_out": f"{count} voice{'s' * (count > 1)}",
        "score": f"{mean:.4f} ± {error:.4f} nats a cell",
        "share": share,
    }
    return chosen._replace(model=replace(best, about=about))


def clear(folder: str | os.PathLike[str]) -> None:
    """Remove the folder of unfinished work that `select` made, and nothing that it did not."""
    with suppress(OSError):
        for path in Path(folder).iterdir():
            if _OURS.fullmatch(path.name):
                path.unlink()
        Path(folder).rmdir()


@contextmanager
def _made(folder: str | os.PathLike[str] | None) -> Iterator[Path | None]:
    """Make a folder, keep other runs out, and take it away again where it stays empty."""
    if folder is None:
        yield None
        return
    place = Path(folder)
    try:
        place.mkdir(exist_ok=True)
    except OSError as error:
        raise AlphaMFError(f"{shown(folder)} cannot be made: {reason(error)}") from error
    with exclusive(place, f"another run works in {shown(folder)}", folder=True):
        try:
            yield place
        finally:
            with suppress(OSError):
                place.rmdir()


def _once(skipped: Skip | None) -> Skip | None:
    if skipped is None:
        return None
    told: set[str] = set()

    def tell(sentence: str) -> None:
        if sentence not in told:
            told.add(sentence)
            skipped(sentence)

    return tell


def _key(course: Course, voices: Sequence[Voice], unheard: Sequence[Voice]) -> str:
    """Return what tells this work from other work: the settings, the files as they are now."""
    digest = hashlib.sha256()
    digest.update(json.dumps([version("alphamf"), asdict(course)]).encode())
    for part in (voices, unheard):
        for voice in part:
            for file in voice.files:
                try:
                    status = os.stat(file)
                    state = [status.st_size, status.st_mtime_ns]
                except OSError:
                    state = []
                digest.update(json.dumps([voice.name, file, state]).encode())
        digest.update(b"/")
    return digest.hexdigest()[:16]


def _save(path: Path, model: Dictionary, scores: Floats) -> None:
    with atomic(path) as part, part.open("wb") as file:
        about = np.array(json.dumps(model.about))
        np.savez(file, basis=model.basis, scores=scores, about=about)


def _load(path: Path, course: Course) -> tuple[Dictionary, Floats] | None:
    """Return a candidate that is done; None where there is none that can be read."""
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            basis, scores, about = file["basis"], file["scores"], json.loads(str(file["about"]))
        model = Dictionary(basis, course.alpha, course.rate, course.frame, course.context, about)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, AlphaMFError):
        return None
    return model, scores
