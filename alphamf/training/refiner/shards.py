"""Training clips on disk, a hundred in a file, so that a stopped run can be resumed.

Training reads them from there, so that they need not fit into memory.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple, overload

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.learnt.dictionary import load as load_dictionary
from alphamf.learnt.network_file import find
from alphamf.learnt.refiner import Refiner
from alphamf.tools.arrays import Floats
from alphamf.tools.files import atomic, reason, shown
from alphamf.training.refiner.clips import (
    FirstStageClip,
    SecondStageClip,
    TrainingClip,
    first_stage_clip,
    second_stage_clip,
)
from alphamf.training.refiner.mixtures import load

SIZE = 100
"""Clips in a file."""


class Recipe(NamedTuple):
    """What a set of clips is made of: it determines them.

    Attributes
    ----------
    voices, sounds
        Files, folders or patterns of speech and of other sounds.
    model
        Name or file of the dictionary, which also determines the sampling rate.
    seconds
        Length of a clip.
    seed
        The same seed gives the same clips.
    first
        Of second-stage clips: name or file of the first stage's refiner; empty otherwise.
    """

    voices: tuple[str, ...]
    sounds: tuple[str, ...]
    model: str
    seconds: float
    seed: int
    first: str = ""


class Shard(NamedTuple):
    """A file of clips.

    Attributes
    ----------
    recipe
        Of the whole set.
    path
        The file, an ``.npy`` of one structured array.
    first, clips
        Number of its first clip, and how many there are.
    """

    recipe: Recipe
    path: Path
    first: int
    clips: int


def plan(recipe: Recipe, folder: Path, clips: int) -> list[Shard]:
    """List the files of a set of clips, whether or not they exist.

    Parameters
    ----------
    recipe
        Of the clips.
    folder
        Where the files lie.
    clips
        How many clips there are to be.

    Returns
    -------
    list of Shard
    """
    return [
        Shard(recipe, folder / f"mixtures-{first // SIZE:03d}.npy", first, min(SIZE, clips - first))
        for first in range(0, clips, SIZE)
    ]


def missing(shards: Sequence[Shard]) -> list[Shard]:
    """Return the shards whose files are absent or hold fewer clips, as those of a shorter run may.

    Writes the recipe into a folder that has none.

    Raises
    ------
    AlphaMFError
        The folder holds mixtures of another recipe, or cannot be written to.
    """
    recipe, folder = shards[0].recipe, shards[0].path.parent
    written = folder / "recipe.json"
    text = json.dumps(recipe._asdict(), indent=1) + "\n"
    if not written.exists() and not any(shard.path.exists() for shard in shards):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise AlphaMFError(
                f"the folder {shown(folder)} cannot be made: {reason(error)}"
            ) from error
        with atomic(written) as part:
            part.write_text(text)
    if not written.is_file() or written.read_text() != text:
        raise AlphaMFError(
            f"{shown(folder)} does not hold the mixtures that are asked for: choose another folder"
        )
    return [
        shard
        for shard in shards
        if not shard.path.exists() or len(np.load(shard.path, mmap_mode="r")) < shard.clips
    ]


def make(shard: Shard) -> None:
    """Make the clips of a file, and write it.

    Raises
    ------
    AlphaMFError
        A recording or the dictionary cannot be read, or the file cannot be written.
    """
    recipe = shard.recipe
    dictionary = load_dictionary(recipe.model)
    voices, sounds = (_recordings(names, dictionary.rate) for names in recipe[:2])
    samples = int(dictionary.rate * recipe.seconds)
    numbers = range(shard.first, shard.first + shard.clips)
    clips: Sequence[TrainingClip]
    if recipe.first:
        refiner = Refiner.load(find(recipe.first))
        clips = [
            second_stage_clip(recipe.seed, number, samples, dictionary, refiner, voices, sounds)
            for number in numbers
        ]
    else:
        clips = [
            first_stage_clip(recipe.seed, number, samples, dictionary, voices, sounds)
            for number in numbers
        ]
    kinds = [(name, array.dtype, array.shape) for name, array in clips[0]._asdict().items()]
    with atomic(shard.path) as part, part.open("wb") as file:
        np.save(file, np.array([tuple(each) for each in clips], kinds))


class Clips(Sequence[TrainingClip]):
    """The clips of all files, read from the disk one at a time.

    Parameters
    ----------
    shards
        Their files must exist.
    """

    def __init__(self, shards: Sequence[Shard]) -> None:
        self._rows = [np.load(shard.path, mmap_mode="r")[: shard.clips] for shard in shards]
        self._ends = np.cumsum([shard.clips for shard in shards])
        second = bool(shards[0].recipe.first)
        self._kind: type[TrainingClip] = SecondStageClip if second else FirstStageClip

    def __len__(self) -> int:
        return int(self._ends[-1])

    @overload
    def __getitem__(self, index: int) -> TrainingClip: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[TrainingClip]: ...
    def __getitem__(self, index: int | slice) -> TrainingClip | Sequence[TrainingClip]:
        if isinstance(index, slice):
            return [self[k] for k in range(len(self))[index]]
        k = range(len(self))[index]
        shard = int(np.searchsorted(self._ends, k, "right"))
        row = self._rows[shard][k - self._ends[shard]]
        return self._kind(*(row[name] for name in self._kind._fields))


@cache
def _recordings(names: tuple[str, ...], rate: int) -> list[Floats]:
    """Read recordings once per process, for all of its shards."""
    return load(names, rate)
