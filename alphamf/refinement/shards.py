"""Clips to learn the refiner from on disk: a hundred in a file, so that a stopped run goes on."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from alphamf.dictionary import load as load_dictionary
from alphamf.errors import AlphaMFError
from alphamf.files import atomic, reason, shown
from alphamf.refinement.mixtures import Clip, clip, load
from alphamf.stft import Floats

SIZE = 100
"""Clips in a file: 80 MB of 3.2 s each at 8 kHz."""


class Recipe(NamedTuple):
    """What mixtures are made of; they differ where any of these does.

    Attributes
    ----------
    voices, sounds
        Files, folders or patterns of speech and of other sounds.
    model
        Name or file of the dictionary, which also says the sampling rate.
    seconds
        Length of a clip.
    seed
        The same seed gives the same clips.
    """

    voices: tuple[str, ...]
    sounds: tuple[str, ...]
    model: str
    seconds: float
    seed: int


class Shard(NamedTuple):
    """A file of `clips` clips, the first of which has the number `first`."""

    recipe: Recipe
    path: Path
    first: int
    clips: int


def plan(recipe: Recipe, folder: Path, clips: int) -> list[Shard]:
    """List the files of the first `clips` clips, whether or not they are there."""
    return [
        Shard(recipe, folder / f"mixtures-{first // SIZE:03d}.npz", first, min(SIZE, clips - first))
        for first in range(0, clips, SIZE)
    ]


def missing(shards: list[Shard]) -> list[Shard]:
    """Return those whose files are not there.

    Raises
    ------
    AlphaMFError
        A file holds something else.
    """
    left = []
    for shard in shards:
        if not shard.path.exists():
            left.append(shard)
            continue
        try:
            with np.load(shard.path) as arrays:
                found = str(arrays["recipe"])
        except Exception:  # zipfile and numpy each have their own
            found = ""
        if found != _text(shard):
            raise AlphaMFError(
                f"{shown(shard.path)} does not hold the mixtures that are asked for: remove it or "
                "choose another folder"
            )
    return left


def make(shard: Shard) -> None:
    """Make the clips of a file, and write it.

    Raises
    ------
    AlphaMFError
        A recording or the dictionary cannot be read, or the file cannot be written.
    """
    try:
        shard.path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AlphaMFError(
            f"the folder {shown(shard.path.parent)} cannot be made: {reason(error)}"
        ) from error
    recipe = shard.recipe
    dictionary = load_dictionary(recipe.model)
    voices, sounds = (_recordings(names, dictionary.rate) for names in recipe[:2])
    samples = int(dictionary.rate * recipe.seconds)
    clips = [
        clip(recipe.seed, number, samples, dictionary, voices, sounds)
        for number in range(shard.first, shard.first + shard.clips)
    ]
    arrays = Clip(*(np.stack(each) for each in zip(*clips, strict=True)))
    with atomic(shard.path) as part, part.open("wb") as file:
        np.savez(file, recipe=np.array(_text(shard)), **arrays._asdict())


def read(shards: list[Shard]) -> Clip:
    """Return the clips of all files, which each array has as its first axis."""
    columns: list[Floats] = []
    for name in Clip._fields:
        parts = []
        for shard in shards:
            with np.load(shard.path) as arrays:
                parts.append(arrays[name])
        columns.append(np.concatenate(parts))
    return Clip(*columns)


@cache
def _recordings(names: tuple[str, ...], rate: int) -> list[Floats]:
    """Read recordings once in a process, for all of its shards."""
    return load(names, rate)


def _text(shard: Shard) -> str:
    return json.dumps({**shard.recipe._asdict(), "first": shard.first, "clips": shard.clips})
