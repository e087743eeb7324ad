"""Make a corpus of noisy speech from clean speech and noises."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from alphamf.audio.reader import read
from alphamf.audio.resample import resample
from alphamf.audio.writer import open_writer
from alphamf.batch.inputs import Problem
from alphamf.errors import AlphaMFError
from alphamf.evaluation.mixing import mixture
from alphamf.evaluation.mixing.recipes import NoiseFile, Recipe, Speech
from alphamf.evaluation.mixing.table import Mixture
from alphamf.inference.random import generator
from alphamf.tools.arrays import Floats
from alphamf.tools.files import make_folder, printable_name


def usable_noises(noises: Iterable[NoiseFile]) -> Iterator[NoiseFile | Problem]:
    """Read each noise; yield the noise if it can be used, otherwise the problem."""
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
    replace: bool = True,
) -> Iterator[Mixture | Problem]:
    """Write ``clean/NAME.flac`` and ``noisy/KIND_SNRdB/NAME.flac``, mono, 16 bits.

    Two noises and one recording at a time are in memory.
    """
    noted: set[str] = set()

    @lru_cache(maxsize=2)
    def noise_at(path: str, target: int) -> mixture.Noise:
        noise, own = _noise(path, target)
        if own < target and note is not None and path not in noted:
            noted.add(path)
            note(
                f"{printable_name(path)} has a rate of {own} Hz, so its mixtures at "
                f"{target} Hz contain "
                f"no noise above {own // 2} Hz"
            )
        return noise

    own: dict[Speech, list[Recipe]] = {}
    for recipe in todo:
        own.setdefault(recipe.speech, []).append(recipe)
    for speech, several in own.items():
        yield from _mixtures(speech, several, folder, level, rate, replace, noise_at)


def _mixtures(
    speech: Speech,
    todo: list[Recipe],
    folder: Path,
    level: str,
    rate: int | None,
    replace: bool,
    noise_at: Callable[[str, int], mixture.Noise],
) -> Iterator[Mixture | Problem]:
    """Mix one recording in two passes: the clean file and all its mixtures have one gain."""
    try:
        clean, target = _at(speech.path, rate)
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
    gain = _gain(loudest)
    clean_name, _ = good[0].files
    _write(folder, clean_name, clean * np.float32(gain), target, replace)
    for recipe in good:
        noisy, offset = mixed(recipe)
        _, name = recipe.files
        _write(folder, name, noisy * np.float32(gain), target, replace)
        noise = recipe.noise
        yield Mixture(clean_name, name, noise.kind, recipe.snr, noise.path, offset, gain, level)


def _gain(peak: float) -> float:
    """Return the power of two that brings a peak down to full scale, without rounding."""
    return float(0.5 ** max(0, math.ceil(math.log2(peak))))


def _mono(path: str) -> tuple[Floats, int]:
    audio, rate = read(path)
    return audio.mean(axis=1), rate


def _noise(path: str, target: int | None) -> tuple[mixture.Noise, int]:
    """Return a noise resampled to a rate (by default its own), and its original rate."""
    audio, own = _mono(path)
    target = target or own
    return mixture.noise(resample(audio, own, target), target), own


def _at(path: str, target: int | None) -> tuple[Floats, int]:
    """Return a recording resampled to a rate (by default its own), and that rate."""
    audio, own = _mono(path)
    target = target or own
    return resample(audio, own, target), target


def _peak(audio: Floats) -> float:
    return float(np.abs(audio).max())


def _write(folder: Path, name: str, audio: Floats, rate: int, replace: bool) -> None:
    path = folder / name
    make_folder(path, folder)
    with open_writer(path, rate, 1, format="FLAC", within=folder, replace=replace) as writer:
        writer.write(audio[:, None])
