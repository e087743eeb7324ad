"""Clips of rooms: dry voices, taken into rooms, alone and with noise."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.evaluation.mixing import mixture
from alphamf.tools.arrays import Floats, Reals
from alphamf.training.refiner.recordings import sources
from alphamf.training.refiner.rooms import EARLY_SECONDS
from alphamf.training.refiner.shaping import convolved
from benchmarks.clips import KINDS, Clip, manifest, mono
from benchmarks.room_responses import Room, image_room, recorded_rooms

RATE = 16000

VOICES = ("speech-crowd", "speech-16k-more")
"""Corpora of the voices; nothing was trained on their splits dev and test."""

DEPTH = 45.0
"""Least distance in dB of a voice's pauses from its speech: it has neither hiss nor much echo."""

SHORTEST, LONGEST = 3.0, 10.0
"""Length of the voices in seconds; longer ones are cut."""

CONDITIONS = {"alone": None, "with noise at 15 dB": 15.0, "with noise at 5 dB": 5.0}
"""Ratios of the reverberant voice to the noise in the same room."""

RANGES = ((0.1, 0.3), (0.3, 0.5), (0.5, 0.9), (0.9, 1.2))
"""Ranges of the reverberation time that rooms are drawn from in turn, in seconds."""

GROUPS = ("RT60 < .3 s", "RT60 .3 to .5 s", "RT60 .5 to .9 s", "RT60 > .9 s")
"""Names of the groups of rooms, by the time that is measured on the response."""

SEEDS = {"dev": 101, "test": 102}
"""First numbers of the seeds of rooms by the image method."""


class RoomClip(NamedTuple):
    """A clip, its condition, the name of its group of rooms, and its room.

    The clean sound of the clip is the target: the voice with its direct sound and the early
    reflections.
    """

    clip: Clip
    condition: str
    group: str
    room: Room


def group_of(rt60: float) -> str:
    """Return the name of the group of a reverberation time in seconds."""
    borders = [high for _, high in RANGES[:-1]]
    return GROUPS[int(np.searchsorted(borders, rt60, side="right"))]


@cache
def voices(split: str) -> list[Path]:
    """Return the files of voices, in an order by chance that stays the same."""
    files = [Path(each.path) for name in VOICES for each in sources(name, split, quiet=DEPTH)]
    long = [path for path in files if len(mono(path, RATE)) >= SHORTEST * RATE]
    if not long:
        raise AlphaMFError(f"the split {split!r} of {' and '.join(VOICES)} has no quiet voices")
    return [long[k] for k in np.random.default_rng(4).permutation(len(long))]


@cache
def recorded(split: str) -> list[Room]:
    """Return the recorded rooms of a split."""
    return recorded_rooms(split, RATE)


def made(case: str, split: str, number: int) -> Iterator[RoomClip]:
    """Yield the clips of a voice in a room, "image" or "recorded": one for each condition."""
    files = voices(split)
    path = files[number % len(files)]
    voice = mono(path, RATE)[: int(LONGEST * RATE)]
    if case == "image":
        room = image_room((SEEDS[split], number), RATE, RANGES[number % len(RANGES)])
    else:
        room = recorded(split)[number % len(recorded(split))]
    target, reverberant = in_room(voice, room)
    rng = np.random.default_rng((6, number))
    sound = _noise(split, number, rng)
    # The same piece of noise at every ratio, taken into the room before it is weighed.
    piece, _ = mixture.mix(np.zeros_like(voice), 1.0, sound, 0.0, rng)
    there = convolved(piece.astype(float), room.noise)[: len(piece)]
    power = float(np.mean(reverberant**2))
    for condition, snr in CONDITIONS.items():
        noisy = reverberant
        if snr is not None:
            noisy = noisy + there * np.sqrt(power / np.mean(there**2)) * 10 ** (-snr / 20)
        name = f"{path.stem} in {room.name}, {condition}"
        sounds = (each.astype(np.float32) for each in (target, noisy))
        yield RoomClip(Clip(name, RATE, *sounds), condition, group_of(room.middle), room)


def in_room(voice: Floats, room: Room) -> tuple[Reals, Reals]:
    """Return the target and all that arrives, at the level of the dry voice."""
    early = room.voice[: round(EARLY_SECONDS * room.rate)]
    target, whole = (
        convolved(voice.astype(float), response)[: len(voice)] for response in (early, room.voice)
    )
    scale = np.sqrt(np.mean(voice.astype(float) ** 2) / np.mean(whole**2))
    return scale * target, scale * whole


def _noise(split: str, number: int, rng: np.random.Generator) -> mixture.Noise:
    """Return a recorded noise; kinds go round with the number of the clip."""
    kinds = [kind for kind in KINDS if kind != "babble"]
    kind = kinds[number // len(RANGES) % len(kinds)]
    files = [path for path, each, _ in manifest("noise-48k", split) if each == kind]
    return mixture.noise(mono(files[rng.integers(len(files))], RATE), RATE)
