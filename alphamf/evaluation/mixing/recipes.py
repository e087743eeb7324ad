"""Find the recordings for a corpus, and choose its mixtures and the noise file of each."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from alphamf.batch.inputs import Problem, plan
from alphamf.tools.files import printable_name
from alphamf.tools.paths import real_path

SNR_LIMIT = 100.0
"""Highest and, with a minus, lowest signal-to-noise ratio, in dB."""


class Speech(NamedTuple):
    """A clean recording, and its name in the corpus: a path without extension."""

    path: str
    name: str


class NoiseFile(NamedTuple):
    """A noise file, and its kind; files of the same kind are interchangeable."""

    path: str
    kind: str


class Recipe(NamedTuple):
    """A mixture to make."""

    # speech, noise: its files.
    speech: Speech
    noise: NoiseFile
    snr: float  # In dB
    key: int  # Seed of its random numbers

    @property
    def files(self) -> tuple[str, str]:
        """The clean and the noisy file, relative to the corpus."""
        name = f"{self.speech.name}.flac"
        return f"clean/{name}", f"noisy/{self.noise.kind}_{self.snr:g}dB/{name}"


def find_speech(names: Iterable[str], folder: Path) -> Iterator[Speech | Problem]:
    """Yield the clean recordings, each with a unique name."""
    taken: dict[str, str] = {}
    for found in _files(names, folder):
        if isinstance(found, Problem):
            yield found
            continue
        path, relative = found
        name = relative.with_suffix("").as_posix()
        if name in taken:
            sentence = (
                f"{printable_name(path)} has the same name in the corpus as "
                f"{printable_name(taken[name])}"
            )
            yield Problem(path, sentence)
            continue
        taken[name] = path
        yield Speech(path, name)


def find_noises(names: Iterable[str], folder: Path) -> Iterator[NoiseFile | Problem]:
    """Yield the noise recordings; the kind is the subfolder below `names`, or the name."""
    for found in _files(names, folder):
        if isinstance(found, Problem):
            yield found
        else:
            path, relative = found
            yield NoiseFile(path, relative.parent.name or relative.stem)


def _files(names: Iterable[str], folder: Path) -> Iterator[tuple[str, Path] | Problem]:
    """Yield the audio files of the given names once each, with paths in their folders."""
    taken = set()
    for name in names:
        # One name at a time: files of different folders may have the same name.
        files = plan([name], output_dir=str(folder), overwrite=True)
        yield from files.problems
        for job in files.jobs:
            if (real := real_path(job.source)) not in taken:
                taken.add(real)
                yield job.source, Path(job.output).relative_to(folder)


def recipes(
    speech: Iterable[Speech],
    noises: Iterable[NoiseFile],
    snrs: Sequence[float],
    *,
    count: int | None = None,
    seed: int = 0,
) -> list[Recipe]:
    """List the mixtures: each speech with each kind of noise at each SNR, or `count` of them.

    Random choices for a mixture depend only on the names of its speech and condition, not on other
    files.

    `snrs`: in dB.
    """
    kinds: dict[str, list[NoiseFile]] = {}
    for noise in noises:
        kinds.setdefault(noise.kind, []).append(noise)
    found = []
    for one in speech:
        for kind, several in kinds.items():
            for snr in snrs:
                words = (one.name, kind, f"{snr:g}")
                # The file with the smallest hash is taken.
                noise = min((_key(seed, *words, *_last(each.path)), each) for each in several)[1]
                found.append(Recipe(one, noise, snr, _key(seed, *words)))
    if count is not None:
        drawn = set(sorted(recipe.key for recipe in found)[:count])
        found = [recipe for recipe in found if recipe.key in drawn]
    return found


def _last(path: str) -> tuple[str, ...]:
    """Return the names of a file and its folder, which stay if the collection is moved."""
    return Path(os.path.abspath(path)).parts[-2:]


def _key(seed: int, *words: str) -> int:
    text = "\0".join([str(seed), *words])
    digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:8])
