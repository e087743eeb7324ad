"""Clips of `benchmarks.quality`: mixtures, recordings that are nearly clean, and rumble."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from typing import NamedTuple

import numpy as np

from alphamf.audio.speech_level import QUIET_PAUSES_DB, pause_depth
from alphamf.evaluation.mixing import mixture
from alphamf.tools.arrays import Floats
from benchmarks.front_clips import KINDS, SNRS, Clip, clips, manifest, mono, shuffled

RATE = 16000

LEVELS = {"30 dB": 30, "40 dB": 40, "clean": None}
"""SNRs in dB of recordings that hardly need denoising; None: the recording itself."""

QUIET = "quiet pauses"
"""Name of the group of clips whose references have pauses `QUIET_PAUSES_DB` below the speech."""

HISS = (60, 50, 45, 40, 35, 30)
"""Depths in dB of pauses of clean files with hiss; the voices' own pauses are at least as deep."""

TOP = 60.0
"""Frequency in Hz below which there is rumble."""

LEAST = -13.0
"""Level of the rumble in dB of the recording, from which on one is used."""

RUMBLES = {
    "none": None,
    "of the voice": (-13.0, -7.0),
    "of the noise": (-13.0, -7.0),
    "of the noise, loud": (0.0, 10.0),
}
"""What rumbles, and range of its level in dB of the voice."""


Made = Iterator[tuple[tuple[str, ...], Clip]]


def unheard(number: int, clip: Clip, split: str) -> Made:
    """Yield a clip with its kind of noise, its level, its language and what its pauses are."""
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
            noise = mixture.noise(mono(noises[rng.integers(len(noises))], RATE), RATE)
            noisy, _ = mixture.mix(
                clip.clean, mixture.power(clip.clean, RATE, "plain"), noise, snr, rng
            )
        groups = (name, f"{name}, {QUIET}") if quiet(clip) else (name,)
        yield groups, clip._replace(noisy=noisy)


def quiet(clip: Clip) -> bool:
    """Return whether the pauses of a clip's reference are quiet.

    What is removed of the hiss of other references counts as an error.
    """
    return pause_depth(clip.clean, clip.rate) >= QUIET_PAUSES_DB


def hiss(number: int, clip: Clip, split: str) -> Made:
    """Yield a voice as the input, and the voice with white hiss as its clean file."""
    noise = np.random.default_rng((13, number)).standard_normal(len(clip.clean))
    noise *= 0.01 * clip.clean.std()
    depth = pause_depth(clip.clean + noise, RATE)
    for wanted in HISS:
        clean = clip.clean + noise * 10 ** ((depth - wanted) / 20)
        yield (f"{wanted} dB",), clip._replace(clean=clean.astype(np.float32), noisy=clip.clean)


def rumble(number: int, clip: Clip, split: str) -> Made:
    """Yield a clip in each of `RUMBLES`; the voice's own rumble is in both of its sounds."""
    for name, levels in RUMBLES.items():
        if levels is None:
            yield (name,), clip
            continue
        rng = np.random.default_rng((11, number))
        sounds = rumbles()
        added = np.resize(sounds[rng.integers(len(sounds))], len(clip.clean))
        wanted = clip.clean.std() * 10 ** (rng.uniform(*levels) / 20)
        added = (added * (wanted / added.std())).astype(np.float32)
        clean = clip.clean + added if name == "of the voice" else clip.clean
        yield (name,), clip._replace(clean=clean, noisy=clip.noisy + added)


@cache
def rumbles() -> list[Floats]:
    """Return what the recordings that rumble have below `TOP`, each shape (samples,)."""
    found = []
    for path, _, _ in manifest("librispeech-train", "train"):
        sound = mono(path, RATE)
        low = below(sound, RATE)
        if low.std() > sound.std() * 10 ** (LEAST / 20):
            found.append(low)
    return found


def below(sound: Floats, rate: int) -> Floats:
    """Return what lies below `TOP`, without a constant offset; shape (samples,), as before."""
    spectrum = np.fft.rfft(sound)
    frequencies = np.fft.rfftfreq(len(sound), 1 / rate)
    spectrum[(frequencies < 4) | (frequencies >= TOP)] = 0
    return np.fft.irfft(spectrum, len(sound)).astype(np.float32)


class Case(NamedTuple):
    """What is made of a clip, how many clips there are, and the methods by default."""

    make: Callable[[int, Clip, str], Made]
    clips: int
    methods: str


CASES = {
    "unheard": Case(unheard, 100, "noisy,logmmse,rnnoise,gtcrn,dtln,deepfilternet,low,fast"),
    "nearly-clean": Case(nearly_clean, 40, "noisy,logmmse,rnnoise,deepfilternet,plain,low,fast"),
    "hiss": Case(hiss, 23, "noisy"),
    "rumble": Case(rumble, 40, "noisy,plain,dtln,low,fast"),
}


def sounds(case: str, count: int, split: str) -> list[Clip]:
    """Return the clips of a case; those of ``nearly-clean`` and ``hiss`` are voices alone."""
    if case not in ("nearly-clean", "hiss"):
        return clips(RATE, count, split)
    sounds = ((path.stem, mono(path, RATE)) for path, _, _ in shuffled("speech-16k", split))
    voices = (Clip(name, RATE, sound, sound) for name, sound in sounds)
    least = HISS[0] if case == "hiss" else 0
    return list(islice((clip for clip in voices if pause_depth(clip.clean, RATE) >= least), count))
