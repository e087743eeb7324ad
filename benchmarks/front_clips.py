"""Noisy clips to choose settings on, or to test: at 16 kHz mixed here, at 8 kHz NOIZEUS's own."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from alphamf.audio.reader import read
from alphamf.audio.resample import resample
from alphamf.errors import AlphaMFError
from alphamf.evaluation.mixing import mixture
from alphamf.tools.arrays import Floats
from benchmarks.pairs import files

SNRS = (-5, 0, 5, 10, 15)
KINDS = ("stationary", "babble", "nonstationary", "impulsive")
TALKERS = 6
"""Voices of a babble."""


class Clip(NamedTuple):
    """A noisy clip: its name, rate in Hz, and the clean and the noisy sound, shape (samples,)."""

    name: str
    rate: int
    clean: Floats
    noisy: Floats


def clips(rate: int, count: int, split: str = "dev") -> list[Clip]:
    """Return clips, of voices and noises of which nothing was trained on.

    Parameters
    ----------
    rate
        16000: utterances of ``speech-16k`` in noises of ``noise-48k`` and in babble of other
        voices, all of one split, at `SNRS`. 8000: train sentences of NOIZEUS at 0, 5 and 10 dB.
    count
        How many.
    split
        ``dev``, or ``test``, which chooses nothing; of 16000.
    """
    if rate == 8000:
        every = files(split="train", snrs=["0", "5", "10"])
        chosen = [every[k] for k in np.random.default_rng(0).permutation(len(every))[:count]]
        return [
            Clip(f"{noisy.parent.name}/{noisy.stem}", rate, mono(clean, rate), mono(noisy, rate))
            for clean, noisy in chosen
        ]
    noises = manifest("noise-48k", split)
    return [_mixed(k, voices, noises, rate) for k, voices in enumerate(turned(count, split))]


def turned(count: int, split: str = "dev") -> Iterator[list[tuple[Path, str, str]]]:
    """Yield the voices of ``speech-16k``, shuffled, so that each clip begins with another one."""
    voices = shuffled("speech-16k", split)
    for k in range(count):
        first = k % len(voices)
        yield voices[first:] + voices[:first]


def shuffled(corpus: str, split: str) -> list[tuple[Path, str, str]]:
    """Return what `manifest` does, in an order by chance that stays the same."""
    rows = manifest(corpus, split)
    return [rows[k] for k in np.random.default_rng(1).permutation(len(rows))]


def corpora() -> Path:
    """Return the folder of the corpora: ``$ALPHAMF_DATA/corpora``."""
    return Path(os.environ.get("ALPHAMF_DATA", ""), "corpora")


def manifest(corpus: str, split: str = "dev") -> list[tuple[Path, str, str]]:
    """Return path, kind, and speaker or label of the files of a split; empty where unknown."""
    folder = corpora() / corpus
    try:
        with (folder / "MANIFEST.csv").open(newline="", encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["split"] == split]
    except OSError:
        raise AlphaMFError(f"there is no {corpus} in {folder}: set ALPHAMF_DATA") from None
    return [
        (folder / row["path"], row.get("kind", ""), row.get("speaker") or row.get("label", ""))
        for row in rows
    ]


def _mixed(
    number: int, voices: list[tuple[Path, str, str]], noises: list[tuple[Path, str, str]], rate: int
) -> Clip:
    """Mix the first of some voices with a noise; kind and SNR go round with the number."""
    rng = np.random.default_rng((2, number))
    kind, snr = KINDS[number % len(KINDS)], SNRS[number // len(KINDS) % len(SNRS)]
    path, _, speaker = voices[0]
    clean = mono(path, rate)
    if kind == "babble":
        others = [mono(path, rate) for path, _, name in voices[1:] if name != speaker][:TALKERS]
        noise = sum(np.resize(each / each.std(), len(clean)) for each in others)
        name = kind
    else:
        known = [path for path, each, _ in noises if each == kind]
        chosen = known[rng.integers(len(known))]
        noise, name = mono(chosen, rate), chosen.stem
    power = mixture.power(clean, rate, "plain")
    noisy, _ = mixture.mix(clean, power, mixture.noise(noise, rate), snr, rng)
    return Clip(f"{path.stem}_{name}_{snr}dB", rate, clean, noisy)


def mono(path: Path, rate: int) -> Floats:
    """Return the first channel of a file at a rate in Hz."""
    sound, native = read(str(path))
    return sound[:, 0] if native == rate else resample(sound[:, 0], native, rate)
