"""Clips and dictionary of ``alpha-mf-speech``: NOIZEUS, in three disjoint parts.

W is trained on the clean speech of 17 train sentences, hyperparameters are chosen on noisy clips of
the other three (`TUNING`), and the table is of the test sentences. The six voices are the same in
all parts, as in the paper.
"""

from __future__ import annotations

from collections.abc import Callable
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
    chosen = sorted(_pairs(lambda row: row["split"] == "test"))
    return [chosen[k] for k in np.random.default_rng(0).permutation(len(chosen))]


def tuning_clips() -> list[Pair]:
    """List the noisy files of `TUNING`, with their clean ones."""
    return _pairs(lambda row: (row["speaker"], row["noise"]) in TUNING)


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


def _pairs(wanted: Callable[[dict[str, str]], bool]) -> list[Pair]:
    """List the noisy files at 5 dB that are wanted, with their clean ones."""
    rows = _manifest()
    clean = {row["speaker"]: row["path"] for row in rows if row["snr_db"] == "clean"}
    noisy = [row for row in rows if row["snr_db"] == SNR and wanted(row)]
    return [(row["path"], clean[row["speaker"]]) for row in noisy]


def _manifest() -> list[dict[str, str]]:
    return read_manifest(find("noizeus"), CORPORA["noizeus"].columns)
