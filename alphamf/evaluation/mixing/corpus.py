"""A corpus of noisy speech, made from folders of clean speech and of noises."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from alphamf.audio.inputs import Problem
from alphamf.audio.reader import read
from alphamf.audio.resample import resample
from alphamf.audio.writer import open_writer
from alphamf.errors import AlphaMFError
from alphamf.evaluation.mixing import mixture
from alphamf.evaluation.mixing.table import Mixture
from alphamf.inference.random import generator
from alphamf.tools.arrays import Floats
from alphamf.tools.files import reason, shown

SNR_LIMIT = 100.0
"""Highest and, with a minus, lowest signal-to-noise ratio, in dB."""


class Speech(NamedTuple):
    """A clean recording, and its name in the corpus: a path without ending."""

    path: str
    name: str


class Noise(NamedTuple):
    """A file of noise, and its kind; files of a kind stand for each other."""

    path: str
    kind: str


class Recipe(NamedTuple):
    """A mixture to be made; `key` is the seed of what is drawn for it."""

    speech: Speech
    noise: Noise
    snr: float
    key: int

    @property
    def name(self) -> str:
        """Name in the corpus, a path without ending."""
        return f"{self.noise.kind}_{self.snr:g}dB/{self.speech.name}"


def recipes(
    speech: Iterable[Speech],
    noises: Iterable[Noise],
    snrs: Sequence[float],
    *,
    count: int | None = None,
    seed: int = 0,
) -> list[Recipe]:
    """List the mixtures: each speech with each kind of noise at each ratio, or `count` of them.

    What is drawn for a mixture, here and later, hangs on the names of its speech and condition:
    further files leave it as it is.
    """
    kinds: dict[str, list[Noise]] = {}
    for noise in noises:
        kinds.setdefault(noise.kind, []).append(noise)
    found = []
    for one in speech:
        for kind, several in kinds.items():
            for snr in snrs:
                words = (one.name, kind, f"{snr:g}")
                # Each file has a number of its own; the one with the least is taken.
                noise = min((_key(seed, *words, *_last(each.path)), each) for each in several)[1]
                found.append(Recipe(one, noise, snr, _key(seed, *words)))
    if count is not None:
        drawn = set(sorted(recipe.key for recipe in found)[:count])
        found = [recipe for recipe in found if recipe.key in drawn]
    return found


def usable(noises: Iterable[Noise]) -> Iterator[Noise | Problem]:
    """Read each noise, and tell which can be used."""
    for noise in noises:
        try:
            _noise(noise.path, None)
        except AlphaMFError as error:
            yield Problem(noise.path, str(error))
        else:
            yield noise


def make(
    todo: Sequence[Recipe],
    folder: Path,
    *,
    level: str = "plain",
    rate: int | None = None,
    note: Callable[[str], None] | None = None,
) -> Iterator[Mixture | Problem]:
    """Write ``clean/NAME.flac`` and ``noisy/KIND_SNRdB/NAME.flac``, mono, with 16 bits.

    Two noises and one recording at a time are in memory.

    Parameters
    ----------
    todo
        From `recipes`.
    folder
        The corpus.
    level
        One of `alphamf.evaluation.mixing.mixture.LEVELS`.
    rate
        Sampling rate of the corpus; by default each clean file keeps its own.
    note
        Called once with a sentence about each noise whose rate is lower.

    Yields
    ------
    Mixture or Problem
        A mixture that was written, or why a file could not be used.

    Raises
    ------
    AlphaMFError
        The corpus cannot be written.
    """
    told: set[str] = set()

    @lru_cache(maxsize=2)
    def noise_at(path: str, target: int) -> mixture.Noise:
        noise, own = _noise(path, target)
        if own < target and note is not None and path not in told:
            told.add(path)
            note(
                f"{shown(path)} has a rate of {own} Hz: above {own // 2} Hz its mixtures at "
                f"{target} Hz hold no noise"
            )
        return noise

    own: dict[Speech, list[Recipe]] = {}
    for recipe in todo:
        own.setdefault(recipe.speech, []).append(recipe)
    for speech, several in own.items():
        yield from _mixtures(speech, several, folder, level, rate, noise_at)


def _mixtures(
    speech: Speech,
    todo: list[Recipe],
    folder: Path,
    level: str,
    rate: int | None,
    noise_at: Callable[[str, int], mixture.Noise],
) -> Iterator[Mixture | Problem]:
    """Mix one recording, in two rounds: the clean file and all its mixtures share their gain."""
    try:
        clean, own = _mono(speech.path)
        target = rate or own
        clean = resample(clean, own, target)
        power = mixture.power(clean, target, level)
    except AlphaMFError as error:
        yield Problem(speech.path, str(error))
        return

    def mixed(recipe: Recipe) -> tuple[Floats, int]:
        noise = noise_at(recipe.noise.path, target)
        return mixture.mix(clean, power, noise, recipe.snr, generator(recipe.key))

    good, loudest = [], _peak(clean)
    for recipe in todo:
        try:
            loudest = max(loudest, _peak(mixed(recipe)[0]))
        except AlphaMFError as error:
            yield Problem(f"{speech.path} with {recipe.noise.path}", str(error))
        else:
            good.append(recipe)
    if not good:
        return
    # A power of two keeps every digit, and thereby the active level, which other factors move.
    gain = 0.5 ** max(0, math.ceil(math.log2(loudest)))
    clean_name = f"clean/{speech.name}.flac"
    _write(folder / clean_name, clean * np.float32(gain), target)
    for recipe in good:
        noisy, offset = mixed(recipe)
        name = f"noisy/{recipe.name}.flac"
        _write(folder / name, noisy * np.float32(gain), target)
        noise = recipe.noise
        yield Mixture(clean_name, name, noise.kind, recipe.snr, noise.path, offset, gain, level)


def _mono(path: str) -> tuple[Floats, int]:
    audio, rate = read(path)
    return audio.mean(axis=1), rate


def _noise(path: str, target: int | None) -> tuple[mixture.Noise, int]:
    """Return a noise at a rate, by default its own, and its own rate."""
    audio, own = _mono(path)
    target = target or own
    return mixture.noise(resample(audio, own, target), target), own


def _peak(audio: Floats) -> float:
    return float(np.abs(audio).max())


def _write(path: Path, audio: Floats, rate: int) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AlphaMFError(f"{shown(path)} cannot be written: {reason(error)}") from error
    with open_writer(path, rate, 1, format="FLAC") as writer:
        writer.write(audio[:, None])


def _last(path: str) -> tuple[str, ...]:
    """Return a file's name and its folder's: what stays when the collection moves."""
    return Path(os.path.abspath(path)).parts[-2:]


def _key(seed: int, *words: str) -> int:
    text = "\0".join([str(seed), *words])
    digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:8])
