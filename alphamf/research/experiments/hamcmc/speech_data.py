"""Clips and dictionary of ``alpha-mf-speech``: NOIZEUS, in three disjoint parts.

W is trained on the clean speech of 17 train sentences, hyperparameters are chosen on noisy clips of
the other three (`TUNING`), and the table is of the test sentences. The six voices are the same in
all parts, as in the paper.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from alphamf.audio.reader import read
from alphamf.learnt.dictionary import Dictionary
from alphamf.research.corpora import find
from alphamf.research.sources import CORPORA
from alphamf.tools.arrays import Floats
from alphamf.tools.manifest import read_manifest
from alphamf.training.dictionary.api import train

SNR = "5"

TUNING = (("sp05", "babble"), ("sp14", "car"), ("sp24", "street"))
"""Sentence and noise of the clips that hyperparameters are chosen on."""

Pair = tuple[str, str]
"""A noisy file and its clean one, below the corpus's folder."""


def test_clips() -> list[Pair]:
    """List the 80 noisy files at 5 dB of the test sentences, with their clean ones, shuffled.

    Shuffled, so that any part of the list has different sentences and noises.
    """
    rows = _manifest()
    chosen = [
        (row["path"], _clean(rows, row["speaker"]))
        for row in rows
        if row["split"] == "test" and row["snr_db"] == SNR
    ]
    chosen.sort()
    order = np.random.default_rng(0).permutation(len(chosen))
    return [chosen[k] for k in order]


def tuning_clips() -> list[Pair]:
    """List the noisy files of `TUNING`, with their clean ones."""
    rows = _manifest()
    return [
        (row["path"], _clean(rows, row["speaker"]))
        for row in rows
        if row["snr_db"] == SNR and (row["speaker"], row["noise"]) in TUNING
    ]


def training_files() -> list[str]:
    """List the clean files that W is trained on."""
    held_out = {sentence for sentence, _ in TUNING}
    return sorted(
        row["path"]
        for row in _manifest()
        if row["split"] == "train" and row["snr_db"] == "clean" and row["speaker"] not in held_out
    )


def waves(pair: Pair) -> tuple[Floats, Floats]:
    """Read a noisy signal and its clean one."""
    (noisy, _), (clean, _) = (read(find("noizeus") / path) for path in pair)
    return noisy[:, 0], clean[:, 0]


@cache
def dictionary() -> Dictionary:
    """Train 100 spectra of single frames at alpha 1.2, once per process."""
    paths = [find("noizeus") / path for path in training_files()]
    return train(paths, rate=8000, rank=100, alpha=1.2, context=1, seed=0)


def _clean(rows: list[dict[str, str]], sentence: str) -> str:
    (path,) = (
        row["path"] for row in rows if row["speaker"] == sentence and row["snr_db"] == "clean"
    )
    return path


def _manifest() -> list[dict[str, str]]:
    return read_manifest(find("noizeus"), CORPORA["noizeus"].columns)
