"""Clips of NOIZEUS, and the sentences that dictionaries are trained on."""

from __future__ import annotations

import csv
import os
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

REPOSITORY = Path(__file__).parents[1]
FOLDS = 4


class Clip(NamedTuple):
    """A test clip.

    Attributes
    ----------
    noisy, clean
        Its files.
    snr
        In dB.
    fold
        Whose dictionary was not trained on the sentence.
    """

    noisy: Path
    clean: Path
    snr: int
    fold: int


def corpus(
    snrs: list[int], cross_validate: bool, limit: int | None
) -> tuple[list[Clip], list[list[Path]]]:
    """Return the clips in a fixed order, and the training files of each fold.

    Parameters
    ----------
    snrs
        In dB.
    cross_validate
        Whether the clips are of the train sentences, in `FOLDS` folds.
    limit
        Most clips at a level; None: all.
    """
    shared = os.environ.get("ALPHAMF_DATA") or REPOSITORY.parent / "shared"
    folder = Path(shared) / "corpora" / "noizeus"
    if not (folder / "MANIFEST.csv").is_file():
        sys.exit(f"There is no NOIZEUS in {folder}: set ALPHAMF_DATA.")
    with open(folder / "MANIFEST.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    clean = {row["speaker"]: row for row in rows if row["snr_db"] == "clean"}
    known = sorted(name for name, row in clean.items() if row["split"] == "train")
    if cross_validate:
        folds = {name: k % FOLDS for k, name in enumerate(known)}
    else:
        folds = {name: 0 for name, row in clean.items() if row["split"] == "test"}
    training = [
        [folder / clean[name]["path"] for name in known if folds.get(name) != fold]
        for fold in sorted(set(folds.values()))
    ]
    clips: list[Clip] = []
    for snr in snrs:
        chosen = sorted(
            (row for row in rows if row["snr_db"] == str(snr) and row["speaker"] in folds),
            key=lambda row: (row["speaker"], row["noise"]),
        )
        # Shuffled, so that some of them have different sentences and noises, alike at every level.
        order = np.random.default_rng(0).permutation(len(chosen))[:limit]
        for row in (chosen[k] for k in sorted(order)):
            name = row["speaker"]
            clips.append(Clip(folder / row["path"], folder / clean[name]["path"], snr, folds[name]))
    return clips, training
