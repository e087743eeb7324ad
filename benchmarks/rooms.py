"""Rooms, recorded or simulated by the image method, and clips of dry voices in these rooms.

``python -m benchmarks.rooms --split test`` compares what `alphamf info` estimates from
these clips with the truth, and writes docs/benchmarks/rooms-estimates-SPLIT.csv.

Sizes, times and distances are those of training (`alphamf.training.refiner.mixtures`); walls whose
absorption depends on frequency, and the places, are not: networks have not seen such rooms.
"""

import math
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np

from alphamf.audio.room import BANDS, estimate_room
from alphamf.errors import AlphaMFError
from alphamf.evaluation.mixing import mixture
from alphamf.tools import pool
from alphamf.tools.arrays import Floats, Reals
from alphamf.training.refiner.mixtures import (
    DISTANCE,
    EARLY_SECONDS,
    LARGEST,
    RT60,
    SMALLEST,
    image_method,
)
from alphamf.training.refiner.recordings import sources
from alphamf.training.refiner.shaping import convolved
from benchmarks.clips import KINDS, Clip, manifest, mono, with_noise
from benchmarks.report import run_main
from benchmarks.scored import publish

Rng = np.random.Generator

TILT = (-0.25, 0.35)  # Range of the exponent of frequency that a room's absorption follows

TRIES = 10_000
COMPLETE, MOST_IMAGES = 0.6, 100
"""Part of the reverberation time in which no image is missing (36 dB of decay), and the highest
order of the images: a long reverberation needs a large room."""

NEAR = 0.0025  # How long after its peak a response still counts as direct sound, in seconds


class Room(NamedTuple):
    """A room with a voice and a noise in it."""

    name: str
    rate: int
    # Responses from the places of the voice and of the noise, shape (n,); that of the voice begins
    # with its direct sound.
    voice: Reals
    noise: Reals
    # Reverberation time in seconds in each of `BANDS`, and direct-to-reverberant ratio in dB, both
    # measured on the response of the voice.
    rt60: Reals
    drr: float

    @property
    def middle(self) -> float:
        """The mean reverberation time at 500 and 1000 Hz, by which rooms are compared, in s."""
        return middle(self.rt60)


def middle(rt60: Reals) -> float:
    """Return the geometric mean of the reverberation times at 500 and 1000 Hz, in seconds."""
    chosen = [time for band, time in zip(BANDS, rt60, strict=False) if band in (500, 1000)]
    return float(np.exp(np.mean(np.log(chosen))))


def image_room(seed: tuple[int, ...], rate: int, rt60: tuple[float, float] = RT60) -> Room:
    """Return a random box-shaped room by the image method, with a voice and a noise in it.

    `rt60` is the range of the reverberation time by Sabine's formula, in seconds. Allen and
    Berkley, JASA 65 (1979); Scheibler, Bezzam and Dokmanic, ICASSP 2018 (pyroomacoustics).
    """
    pyroomacoustics = image_method()
    rng = np.random.default_rng(seed)
    size, absorbed, order, places = _box(rng, float(rng.uniform(*rt60)), pyroomacoustics)
    centres = 125.0 * 2.0 ** np.arange(7 if rate > 8000 else 6)
    shape = (centres / 700) ** rng.uniform(*TILT)
    walls = {"coeffs": list(np.clip(absorbed * shape, 0.01, 0.99)), "center_freqs": centres}
    room = pyroomacoustics.ShoeBox(
        size,
        fs=rate,
        materials=pyroomacoustics.Material({"description": "walls", **walls}),
        max_order=order,
        air_absorption=True,
        use_rand_ism=True,
        max_rand_disp=0.05,
    )
    microphone, voice, noise = places
    room.add_microphone(list(microphone))
    room.add_source(list(voice))
    room.add_source(list(noise))
    pyroomacoustics.random.seed(int(rng.integers(2**32)))  # moves the images a little
    room.compute_rir()
    distance = np.linalg.norm(voice - microphone)
    start = int(distance / pyroomacoustics.constants.get("c") * rate)
    response = np.asarray(room.rir[0][0], float)[start:]
    direct = int(np.abs(response[:120]).argmax())
    name = f"image {'-'.join(map(str, seed))}, {distance:.1f} m"
    return _room(name, rate, response[direct:], np.asarray(room.rir[0][1], float))


def _box(rng: Rng, rt60: float, package: Any) -> tuple[Reals, float, int, tuple[Reals, ...]]:
    """Draw the sides in m, absorption, order of images and places of a room with that RT60."""
    for _ in range(TRIES):
        size = rng.uniform(SMALLEST, LARGEST)
        try:
            absorbed, order = package.inverse_sabine(rt60, size)
        except ValueError:  # so large a room cannot be so dry
            continue
        order = math.ceil(COMPLETE * order)
        if order <= MOST_IMAGES and (places := _places(rng, size)) is not None:
            return size, absorbed, order, places
    raise AlphaMFError(f"no room with an RT60 of {rt60:.2f} s was found")


@cache
def recorded_rooms(split: str, rate: int) -> list[Room]:
    """Return the recorded rooms of a split, one for each file.

    The noise has the response of the other ear or channel of the same recording; if there is none,
    the response of the voice.
    """
    files = {path.stem: path for path, _, _ in manifest("rir", split)}
    found = []
    for stem, path in files.items():
        response = mono(path, rate).astype(float)
        other = {"l": "r", "r": "l"}.get(stem[-1], "")
        beside = files.get(stem[:-1] + other, path)
        direct = int(np.abs(response).argmax())
        found.append(_room(stem, rate, response[direct:], mono(beside, rate).astype(float)))
    return found


def _room(name: str, rate: int, voice: Reals, noise: Reals) -> Room:
    rt60 = np.array([decay_time(voice, rate, band) for band in BANDS if 1.42 * band < rate / 2])
    return Room(name, rate, voice, noise, rt60, direct_to_reverberant(voice, rate))


def _places(rng: Rng, size: Reals) -> tuple[Reals, Reals, Reals] | None:
    """Return places of microphone, voice (within `DISTANCE`) and noise in m; None if none fit."""
    microphone, noise = rng.uniform(0.15, 0.85, 3) * size, rng.uniform(0.1, 0.9, 3) * size
    wanted = np.exp(rng.uniform(*np.log(DISTANCE)))
    for _ in range(50):
        way = rng.standard_normal(3) * (1, 1, 0.3)
        voice = microphone + wanted * way / np.linalg.norm(way)
        inside = (voice > 0.05 * size).all() and (voice < 0.95 * size).all()
        if inside and np.linalg.norm(noise - microphone) > DISTANCE[0]:
            return microphone, voice, noise
    return None


def decay_time(response: Reals, rate: int, band: float) -> float:
    """Return the reverberation time of a response in an octave band, in seconds.

    Schroeder's backward integration is applied to the sound after the direct sound; the decay from
    5 to 25 dB below its start gives the time (T20; Schroeder, JASA 37, 1965; ISO 3382-2).
    """
    from scipy.signal import butter, sosfilt

    sos = butter(3, (band / 2**0.5, band * 2**0.5), "bandpass", fs=rate, output="sos")
    late = response[round(NEAR * rate) + 1 :]
    power = sosfilt(sos, np.pad(late, (0, rate // 10))) ** 2
    left = 10 * np.log10(np.cumsum(power[::-1])[::-1] / power.sum() + 1e-12)
    first, last = np.argmax(left < -5), np.argmax(left < -25)
    slope = np.polyfit(np.arange(first, last) / rate, left[first:last], 1)[0]
    return float(-60 / slope)


def direct_to_reverberant(response: Reals, rate: int) -> float:
    """Return the ratio of the direct sound to all that follows it, in dB."""
    near = round(NEAR * rate) + 1
    return float(10 * np.log10(np.sum(response[:near] ** 2) / np.sum(response[near:] ** 2)))


RATE = 16000

# Corpora of the voices; nothing was trained on their splits dev and test
VOICES = ("speech-crowd", "speech-16k-more")

# Least distance in dB of a voice's pauses from its speech, so that it has little hiss and echo
DEPTH = 45.0

SHORTEST, LONGEST = 3.0, 10.0  # Length of the voices in seconds; longer ones are cut

# Ratios in dB of the reverberant voice to the noise in the same room; None: no noise
CONDITIONS = {"alone": None, "with noise at 15 dB": 15.0, "with noise at 5 dB": 5.0}

# Ranges of the reverberation time that rooms are drawn from in turn, in seconds
RANGES = ((0.1, 0.3), (0.3, 0.5), (0.5, 0.9), (0.9, 1.2))

# Names of the groups of rooms, by the time that is measured on the response
GROUPS = ("RT60 < .3 s", "RT60 .3 to .5 s", "RT60 .5 to .9 s", "RT60 > .9 s")

SEEDS = {"dev": 101, "test": 102}  # First numbers of the seeds of rooms by the image method


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
    """Return the files of voices in a random order that is always the same."""
    files = [Path(each.path) for name in VOICES for each in sources(name, split, quiet=DEPTH)]
    long = [path for path in files if len(mono(path, RATE)) >= SHORTEST * RATE]
    if not long:
        raise AlphaMFError(f"the split {split!r} of {' and '.join(VOICES)} has no quiet voices")
    return [long[k] for k in np.random.default_rng(4).permutation(len(long))]


def made(case: str, split: str, number: int) -> Iterator[RoomClip]:
    """Yield a voice in a room (`case` "image" or "recorded") as one clip for each condition."""
    files = voices(split)
    path = files[number % len(files)]
    voice = mono(path, RATE)[: int(LONGEST * RATE)]
    if case == "image":
        room = image_room((SEEDS[split], number), RATE, RANGES[number % len(RANGES)])
    else:
        recorded = recorded_rooms(split, RATE)
        room = recorded[number % len(recorded)]
    target, reverberant = in_room(voice, room)
    rng = np.random.default_rng((6, number))
    sound = _noise(split, number, rng)
    # The same piece of noise at every ratio, convolved with the room before it is scaled.
    piece, _ = mixture.mix(np.zeros_like(voice), 1.0, sound, 0.0, rng)
    there = convolved(piece.astype(float), room.noise)[: len(piece)]
    for condition, snr in CONDITIONS.items():
        noisy = reverberant if snr is None else with_noise(reverberant, there, snr)
        name = f"{path.stem} in {room.name}, {condition}"
        sounds = (each.astype(np.float32) for each in (target, noisy))
        yield RoomClip(Clip(name, RATE, *sounds), condition, group_of(room.middle), room)


def in_room(voice: Floats, room: Room) -> tuple[Reals, Reals]:
    """Return the target and the reverberant voice; the latter has the level of the dry voice."""
    early = room.voice[: round(EARLY_SECONDS * room.rate)]
    target, whole = (
        convolved(voice.astype(float), response)[: len(voice)] for response in (early, room.voice)
    )
    scale = np.sqrt(np.mean(voice.astype(float) ** 2) / np.mean(whole**2))
    return scale * target, scale * whole


def _noise(split: str, number: int, rng: np.random.Generator) -> mixture.Noise:
    """Return a random recorded noise, whose kind (not babble) depends on the clip's number."""
    kinds = [kind for kind in KINDS if kind != "babble"]
    kind = kinds[number // len(RANGES) % len(kinds)]
    files = [path for path, each, _ in manifest("noise-48k", split) if each == kind]
    return mixture.noise(mono(files[rng.integers(len(files))], RATE), RATE)


HEADINGS = ["rooms", "what", "speech", "estimated", "rank correlation", "median error", "covered"]
CASES = {"image": "image method", "recorded": "recorded"}


class Estimated(NamedTuple):
    """Truth and estimate of a quantity of a clip's room, with the ends of its interval."""

    clip: str
    condition: str
    what: str
    truth: float
    low: float
    value: float
    high: float


def estimated(number: int, case: str, split: str) -> list[Estimated]:
    """Return truth and estimates for the clips made from a voice; NaN without an estimate."""
    found = []
    for clip, condition, _, room in made(case, split, number):
        estimate = estimate_room(clip.noisy, clip.rate)
        truths = {f"RT60 at {band} Hz": t for band, t in zip(BANDS, room.rt60, strict=True)}
        truths |= {"RT60": room.middle, "direct-to-reverberant ratio": room.drr}
        estimates = {f"RT60 at {band} Hz": each for band, each in estimate.bands.items()}
        estimates |= {"RT60": estimate.rt60, "direct-to-reverberant ratio": estimate.drr}
        for what, truth in truths.items():
            each = estimates.get(what)
            values = (np.nan,) * 3 if each is None else (each.low, each.value, each.high)
            found.append(Estimated(clip.name, condition, what, float(truth), *values))
    return found


def lines_of(kind: str, rows: list[Estimated]) -> list[list[str]]:
    """Return the lines of the table, one for each quantity in each condition."""
    from scipy.stats import spearmanr

    lines = []
    for condition in dict.fromkeys(row.condition for row in rows):
        for what in dict.fromkeys(row.what for row in rows):
            every = [row for row in rows if (row.condition, row.what) == (condition, what)]
            some = [row for row in every if not np.isnan(row.value)]
            line = [kind, what, condition, f"{len(some)} of {len(every)}"]
            if len(some) > 2:
                truth, value = (np.array([getattr(r, n) for r in some]) for n in ("truth", "value"))
                rank = spearmanr(truth, value).statistic
                error = np.abs(value - truth)
                ratio = not what.startswith("RT60")
                size = f"{np.median(error):.1f} dB" if ratio else f"{np.median(error / truth):.0%}"
                within = np.mean([row.low <= row.truth <= row.high for row in some])
                # All recordings in one room have one truth, and no rank.
                line += ["-" if np.isnan(rank) else f"{rank:.2f}", size, f"{within:.0%}"]
            lines.append([*line, *["-"] * (7 - len(line))])
    return lines


def main(*, split: Annotated[str, ("dev", "test")] = "dev", clips: int = 24, jobs: int = 1) -> None:
    """Estimate the rooms of all clips, and write the table."""
    lines = [HEADINGS]
    for case, kind in CASES.items():
        work = partial(estimated, case=case, split=split)
        found = pool.results(work, range(clips), workers=jobs)
        lines += lines_of(kind, [row for rows in found for row in rows])
    publish(f"rooms-estimates-{split}.csv", lines)


if __name__ == "__main__":
    run_main(main)
