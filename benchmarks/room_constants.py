"""Fit the constants of `alphamf.audio.room`, on voices and rooms for training alone.

Voices of the split train with quiet pauses, 3 to 20 s of one voice or more, are taken into rooms:
by the image method, and a few recorded ones of the split train; some stay dry. Most have noise,
from 0 to 45 dB below. Linear functions of the features are fitted by ridge regression to the
logarithm of RT60 and to the direct-to-reverberant ratio; another one, on rooms that were left out,
to the logarithm of the error. The width of the intervals is the quantile of the errors that covers
`COVERED` of the clips in rooms that were left out.
"""

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from alphamf.audio import room
from alphamf.audio.room import Fit
from alphamf.tools import pool
from alphamf.tools.arrays import Floats, Reals
from alphamf.training.refiner.recordings import sources
from benchmarks.clips import manifest, mono, with_noise
from benchmarks.report import ROOT, run_main
from benchmarks.rooms import Room, image_room, middle, recorded_rooms

CONSTANTS = ROOT / "alphamf" / "audio" / "room.json"
RATE = 16000
VOICES = ("speech-16k", "speech-crowd")
DEPTH = 50.0  # Least distance in dB of a voice's pauses from its speech

SEED = 1
# Range of the clips' lengths in seconds, and of the signal-to-noise ratios in dB
LENGTHS, LEVELS = (3.0, 20.0), (0.0, 45.0)

DRY, RECORDED, NOISY = 0.08, 0.12, 0.7  # Proportions of clips: dry, in recorded rooms, noisy
DRY_RATIO = 18.0  # Direct-to-reverberant ratio that stands for dry clips, in dB
TIMES = (0.08, 4.0)  # Reverberation times are limited to these, in seconds

FOLDS = 5
COVERED = {"BAND": 0.96, "MIDDLE": 0.96, "RATIO": 0.9}
"""Proportion of the clips in left-out rooms whose truth is in the interval; chosen so that
intervals cover about nine in ten clips of `benchmarks.rooms`, split dev."""

RIDGE, RIDGE_OF_SIZE = 10.0, 100.0


class Example(NamedTuple):
    """Features of a clip, room, RT60 by band (NaN if dry), direct-to-reverberant ratio in dB."""

    features: Reals
    room: str
    rt60: Reals
    drr: float


@cache
def files() -> list[Path]:
    """Return the files of the voices, which have quiet pauses."""
    return [Path(each.path) for name in VOICES for each in sources(name, "train", quiet=DEPTH)]


def voice(rng: np.random.Generator) -> Floats:
    """Return successive files of voices, each of RMS one, joined and cut to a random length."""
    samples = int(RATE * np.exp(rng.uniform(*np.log(LENGTHS))))
    parts: list[Floats] = []
    first = int(rng.integers(len(files())))
    while sum(map(len, parts)) < samples:
        sound = mono(files()[(first + len(parts)) % len(files())], RATE)
        parts.append(sound / max(float(np.sqrt(np.mean(sound**2))), 1e-6))
    return np.concatenate(parts)[:samples]


def noise(rng: np.random.Generator, samples: int) -> Reals:
    """Return a recorded noise or, as often, a synthetic one whose spectrum falls."""
    if rng.random() < 0.5:
        sounds = manifest("noise-48k", "train")
        return np.resize(mono(sounds[rng.integers(len(sounds))][0], RATE), samples).astype(float)
    spectrum = np.fft.rfft(rng.standard_normal(samples))
    spectrum /= np.maximum(np.arange(len(spectrum)), 50) ** rng.uniform(0, 1.2)
    return np.fft.irfft(spectrum, samples)


def example(number: int) -> Example:
    """Make the clip of a number, and return its features, with room, RT60 and ratio."""
    from scipy.signal import fftconvolve

    rng = np.random.default_rng((SEED, 0, number))
    sound = voice(rng)
    place, times, ratio, name = rng.random(), np.full(len(room.BANDS), np.nan), DRY_RATIO, "dry"
    there: Room | None = None
    if place >= DRY:
        if place < DRY + RECORDED:
            every = recorded_rooms("train", RATE)[::4]  # most are one room's directions
            there = every[rng.integers(len(every))]
        else:
            there = image_room((SEED, number), RATE)
        times, ratio, name = there.rt60, there.drr, there.name
        sound = fftconvolve(sound, there.voice)[: len(sound)]
    level = rng.uniform(*LEVELS) if rng.random() < NOISY else rng.uniform(50, 90)
    added = noise(rng, len(sound))
    if there is not None:
        added = fftconvolve(added, there.noise)[: len(sound)]
    sound = with_noise(sound, added, level)
    powers = room.band_powers(sound.astype(np.float32), RATE, room.BANDS)
    return Example(room.features(powers), name, times, ratio)


def ridge(x: Reals, y: Reals, weight: float) -> Reals:
    """Return the constant and the weights of a ridge regression on columns of unit deviation."""
    mean, deviation = x.mean(0), x.std(0) + 1e-9
    with_one = np.column_stack([np.ones(len(x)), (x - mean) / deviation])
    penalty = weight * np.eye(with_one.shape[1])
    penalty[0, 0] = 0
    found = np.linalg.solve(with_one.T @ with_one + penalty, with_one.T @ y)
    weights = found[1:] / deviation
    return np.concatenate([[found[0] - weights @ mean], weights])


def fitted(x: Reals, y: Reals, rooms: list[str], covered: float) -> Fit:
    """Return the fit of a value and of its error, for which whole rooms are left out."""
    names = sorted(set(rooms))
    turn = dict(zip(names, np.random.default_rng(0).integers(0, FOLDS, len(names)), strict=True))
    fold = np.array([turn[name] for name in rooms])
    with_one = np.column_stack([np.ones(len(x)), x])
    error, size = np.empty(len(y)), np.empty(len(y))
    for k in range(FOLDS):
        out = fold == k
        error[out] = np.abs(with_one[out] @ ridge(x[~out], y[~out], RIDGE) - y[out])
    logarithm = np.log(error + 0.05 * error.mean())
    for k in range(FOLDS):
        out = fold == k
        size[out] = with_one[out] @ ridge(x[~out], logarithm[~out], RIDGE_OF_SIZE)
    width = float(f"{np.quantile(error / np.exp(size), covered):.4g}")
    print(f"{len(y)} examples: median error {np.median(error):.3f}")
    return Fit(ridge(x, y, RIDGE), ridge(x, logarithm, RIDGE_OF_SIZE), width)


def fit_all(examples: list[Example]) -> tuple[dict[str, Fit], Reals]:
    """Return the fits by name, and the offsets of the bands."""
    found = np.array([each.features for each in examples])
    times = np.log(np.clip([each.rt60 for each in examples], *TIMES))
    wet = np.array([each.room != "dry" for each in examples])
    names = np.array([each.room for each in examples])

    def chosen(name: str, x: Reals, y: Reals, rows: Reals, rooms: Reals) -> Fit:
        rows = rows & np.isfinite(x).all(1)
        return fitted(x[rows], y[rows], list(rooms[rows]), COVERED[name])

    count = len(room.BANDS)
    of_band = np.tile(np.eye(count), (len(found), 1))
    x = np.column_stack([found.reshape(-1, room.FEATURES), of_band])
    band = chosen("BAND", x, times.ravel(), np.repeat(wet, count), np.repeat(names, count))
    offsets = band.value[room.FEATURES + 1 :]
    # Which band it is counts for the value only.
    size = band.size[: room.FEATURES + 1].copy()
    size[0] += band.size[room.FEATURES + 1 :].mean()
    places = [room.BANDS.index(each) for each in room.MIDDLE]
    middles = np.log([np.nan if each.room == "dry" else middle(each.rt60) for each in examples])
    ratios = np.array([each.drr for each in examples])
    ratio = found[:, : len(room.RATIO_BANDS)].mean(1)
    return {
        "BAND": Fit(band.value[: room.FEATURES + 1], size, band.width),
        "MIDDLE": chosen("MIDDLE", found[:, places].mean(1), middles, wet, names),
        "RATIO": chosen("RATIO", ratio, ratios, np.full(len(found), True), names),
    }, offsets


def text_of(fits: dict[str, Fit], offsets: Reals) -> str:
    """Return the constants as JSON, with four significant digits."""

    def rounded(values: Reals) -> list[float]:
        return [float(f"{value:.4g}") for value in values]

    named = {
        name: {**fit._asdict(), "value": rounded(fit.value), "size": rounded(fit.size)}
        for name, fit in fits.items()
    }
    return json.dumps({"fits": named, "offsets": rounded(offsets)}, indent=1) + "\n"


def main(*, clips: int = 400, jobs: int = 1) -> None:
    """Fit the constants, and write them."""
    examples = list(pool.results(example, range(clips), workers=jobs))
    CONSTANTS.write_text(text_of(*fit_all(examples)), encoding="utf-8")


if __name__ == "__main__":
    run_main(main)
