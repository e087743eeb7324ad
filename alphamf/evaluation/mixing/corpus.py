"""Make a corpus of noisy speech: find recordings, choose mixtures, write them and ``pairs.csv``."""

import csv
import hashlib
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np

from alphamf.audio.reader import read
from alphamf.audio.resample import resample
from alphamf.audio.writer import open_writer
from alphamf.batch.inputs import Problem, plan
from alphamf.errors import AlphaMFError
from alphamf.evaluation.mixing import mixture
from alphamf.inference.random import generator
from alphamf.tools import files as file_tools
from alphamf.tools.arrays import Floats
from alphamf.tools.files import (
    atomic_file,
    file_errors,
    make_folder,
    printable_name,
    real_path,
    refuse_links,
)

TABLE, PARTS = "pairs.csv", ("clean", "noisy")
"""Name of the table of a corpus, and names of its two folders of sound."""


class Mixture(NamedTuple):
    """A line of ``pairs.csv``: a mixture and its sources."""

    # clean, noisy: paths of the two files, relative to the corpus's folder.
    clean: str
    noisy: str
    # noise, snr: kind of noise, and signal-to-noise ratio in dB.
    noise: str
    snr: float
    # noise_file, offset: path of the noise, and the sample of the noise with which the mixture
    # begins, counted at the mixture's rate.
    noise_file: str
    offset: int
    # Factor of the clean file and all its mixtures: a power of two, below one if one of them would
    # exceed full scale.
    gain: float
    level: str  # One of `alphamf.evaluation.mixing.mixture.LEVELS`


def claim(
    folder: Path, inputs: Iterable[str], planned: Iterable[tuple[str, str]], *, overwrite: bool
) -> None:
    """Create the folder of a corpus; with `overwrite`, delete the files of an old one in it.

    Raise AlphaMFError on failure, for an input in its folders, or for a corpus without `overwrite`.
    """
    for name in (TABLE, *PARTS):
        refuse_links(folder / name, folder)
    written = list(corpus_files(folder / TABLE)) if overwrite else []
    ours = {
        file_tools.identify(folder / name) for name in (*written, *chain.from_iterable(planned))
    }
    for path in inputs:
        if file_tools.identify(path) in ours or any(
            file_tools.lies_in(path, folder / part) for part in PARTS
        ):
            raise AlphaMFError(
                f"{printable_name(path)} is in the folder of the corpus "
                f"{printable_name(folder)}; choose another "
                "folder"
            )
    make_folder(folder / TABLE)
    with file_errors(folder, "written"):
        if not overwrite:
            if any((folder / name).exists() for name in (TABLE, *PARTS)):
                raise AlphaMFError(
                    f"{printable_name(folder)} already contains a corpus; use `overwrite` "
                    "to replace it"
                )
            return
        for name in written:  # before anything is removed
            refuse_links((folder / name).parent, folder)
        for name in written:
            (folder / name).unlink(missing_ok=True)
            with suppress(OSError):
                (folder / name).parent.rmdir()
        (folder / TABLE).unlink(missing_ok=True)


@contextmanager
def write_table(
    folder: Path, planned: Iterable[tuple[str, str]], mixtures: Sequence[Mixture]
) -> Iterator[None]:
    """Write ``pairs.csv`` with the `mixtures` so far when the block ends, even after an error.

    Until then it lists the `planned` files, so that `claim` finds the files of a killed run.
    """
    _write_rows(folder, planned)
    try:
        yield
    finally:
        _write_rows(folder, mixtures)


def _write_rows(folder: Path, rows: Iterable[Sequence[object]]) -> None:
    with (
        atomic_file(folder / TABLE, within=folder) as part,
        part.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(Mixture._fields)
        writer.writerows(rows)


def corpus_files(table: Path) -> Iterator[str]:
    """Yield the paths in a table, if any, that `make` could have written, or raise AlphaMFError."""
    if not table.exists():
        return
    with table.open(newline="", encoding="utf-8", errors="surrogateescape") as file:
        try:
            lines = list(csv.DictReader(file))
        except csv.Error as error:
            raise AlphaMFError(f"{printable_name(table)} cannot be read: {error}") from error
        for line in lines:
            for column in ("clean", "noisy"):
                text = line.get(column) or ""
                name = PurePosixPath(text)
                if name.parts[:1] == (column,) and ".." not in name.parts and "\0" not in text:
                    yield str(name)


SNR_LIMIT = 100.0
"""Maximum absolute value of a signal-to-noise ratio, in dB."""


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

    # speech, noise: the recordings that are mixed.
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
    """Yield recordings in `names`, with unique names in the corpus at `folder`, or problems."""
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
    """Yield noises or problems; the kind is the innermost folder below `names`, or the stem."""
    for found in _files(names, folder):
        if isinstance(found, Problem):
            yield found
        else:
            path, relative = found
            yield NoiseFile(path, relative.parent.name or relative.stem)


def _files(names: Iterable[str], folder: Path) -> Iterator[tuple[str, Path] | Problem]:
    """Yield each audio file once, with its path relative to its folder in `names`, or a problem."""
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
    """List mixtures of each recording with each kind of noise at each SNR, or `count` random ones.

    The random numbers of a mixture depend on the seed, its SNR, and the names of its speech and of
    the noises of its kind, not on other files. `snrs`: in dB.
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
    """Return the names of a file's folder and of the file, which stay if a collection is moved."""
    return Path(os.path.abspath(path)).parts[-2:]


def _key(seed: int, *words: str) -> int:
    text = "\0".join([str(seed), *words])
    digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:8])


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
    """Write ``clean/NAME.flac`` and ``noisy/KIND_SNRdB/NAME.flac``; yield mixtures or problems.

    The files are mono with 16 bits. `note` gets a sentence per noise of a lower rate than theirs.
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
    """Write one recording and its mixtures, all with one gain, and yield mixtures or problems."""
    try:
        clean, target, _ = _at(speech.path, rate)
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
    """Return the largest power of two, at most one, that brings a peak to full scale or below."""
    return float(0.5 ** max(0, math.ceil(math.log2(peak))))


def _noise(path: str, target: int | None) -> tuple[mixture.Noise, int]:
    """Return a noise resampled to a rate (by default its own), and its original rate."""
    audio, rate, own = _at(path, target)
    return mixture.noise(audio, rate), own


def _at(path: str, target: int | None) -> tuple[Floats, int, int]:
    """Return a recording, in mono at a rate (by default its own), with this rate and its own."""
    audio, own = read(path)
    target = target or own
    return resample(audio.mean(axis=1), own, target), target, own


def _peak(audio: Floats) -> float:
    return float(np.abs(audio).max())


def _write(folder: Path, name: str, audio: Floats, rate: int, replace: bool) -> None:
    path = folder / name
    make_folder(path, folder)
    with open_writer(path, rate, 1, format="FLAC", within=folder, replace=replace) as writer:
        writer.write(audio[:, None])
