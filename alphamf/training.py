"""Learn a dictionary of speech spectra from clean recordings."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from importlib.metadata import version
from itertools import dropwhile, islice

import numpy as np

from alphamf import stft
from alphamf.arrays import generator
from alphamf.audio import open_reader, resample
from alphamf.chain import Mean, run
from alphamf.context import stack
from alphamf.dictionary import Dictionary
from alphamf.errors import AlphaMFError
from alphamf.estimate import warm_up
from alphamf.files import shown
from alphamf.presets import KERNELS
from alphamf.stft import Floats, Frame
from alphamf.targets.alpha_mf import AlphaMF, Source

HOP_SECONDS = 0.016
OVERLAP = 4
"""Windows of 64 ms every 16 ms."""

WARM_UP_STEPS = 50
"""Steps of EM before those of a sampler."""

RATES = (4000, 48000)
"""Lowest and highest sampling rate of a dictionary, in Hz."""

QUIET_DB = 40.0
"""What lies this far below a recording's loudest part, at its ends, is silence."""


def train(
    paths: Sequence[str | os.PathLike[str]],
    *,
    rate: int = 8000,
    rank: int = 60,
    alpha: float = 1.0,
    context: int = 3,
    sampler: str = "em",
    steps: int = 200,
    keep: int | None = None,
    seconds: float = 5.0,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Dictionary:
    """Learn a dictionary: the W of an alpha-MF of clean speech with a single source.

    W is the mean, over the last steps, of W with columns that sum to one. Every file has the same
    power, and at most `seconds` of each count, so that no voice outweighs the others.

    The spectrogram has ``context * (0.032 rate + 1)`` rows and 62.5 columns per second of speech;
    the model takes about 40 bytes for each cell (float32): 2 MB per second of speech at 8 kHz with
    the default context, 4 MB at 16 kHz.

    Parameters
    ----------
    paths
        Audio files of clean speech, of any number of channels, which are averaged. Silence at
        their ends is cut off; files that are silent throughout are passed over.
    rate
        Sampling rate of the dictionary in Hz; no file may have a lower one.
    rank
        Number of columns.
    alpha
        Index of the stable law.
    context
        Frames stacked in a column.
    sampler
        Kernel for W and H, a name in `alphamf.presets.KERNELS`.
    steps, keep
        Steps of the chain, and how many of the last ones are averaged: by default a third. A
        sampler other than EM starts after 50 steps of EM.
    seconds
        The most that is taken of a file.
    seed
        The same seed gives the same bits.
    progress
        Called with the number of steps made.

    Raises
    ------
    AlphaMFError
        There are no files, one cannot be read or has too low a rate, all are silent, an argument
        is out of range, or the chain diverged.
    """
    keep = max(1, steps // 3) if keep is None else keep
    _check(rate, context, sampler, steps, keep, seconds)
    hop = round(HOP_SECONDS * rate)
    frame = Frame(OVERLAP * hop, hop)
    spectra, heard = [], 0.0
    for path in paths:
        sound = _speech(path, rate, frame, seconds)
        # Scaled first, so that squares neither overflow nor vanish.
        peak = np.abs(sound).max(initial=0)
        if peak > 0:
            power = np.abs(stft.forward(sound / peak, frame)) ** 2
            spectra.append(stack(power / power.mean(), context))
            heard += len(sound) / rate
    if not spectra:
        given = "all the files are silent" if len(paths) else "no files were given"
        raise AlphaMFError(f"there is no speech to learn from: {given}")
    about = {
        "software": f"alphamf {version('alphamf')}",
        "files": len(spectra),
        "seconds": round(heard, 1),
        "most": f"{seconds:g} s of a file",
        "sampler": sampler,
        "steps": steps,
        "keep": keep,
        "seed": seed,
    }
    target = AlphaMF(np.concatenate(spectra, axis=1), [Source(alpha, rank)])
    del spectra
    basis = _learn(target, sampler, steps, keep, seed, progress)
    return Dictionary(basis, alpha, rate, frame, context, about)


def _check(
    rate: int,
    context: int,
    sampler: str,
    steps: int,
    keep: int,
    seconds: float,
) -> None:
    """Refuse what the model, the dictionary and the reader of files do not."""
    if not RATES[0] <= rate <= RATES[1]:
        raise AlphaMFError(f"rate must be from {RATES[0]} to {RATES[1]} Hz, not {rate}")
    if context < 1:
        raise AlphaMFError(f"context must be at least 1, not {context}")
    if sampler not in KERNELS:
        raise AlphaMFError(
            f"there is no sampler {sampler!r}: it must be one of {', '.join(KERNELS)}"
        )
    if not 1 <= keep <= steps:
        raise AlphaMFError(f"keep must be from 1 to steps = {steps}, not {keep}")
    if not OVERLAP * HOP_SECONDS <= seconds < math.inf:
        raise AlphaMFError(
            f"seconds must be finite and at least {OVERLAP * HOP_SECONDS}, not {seconds}"
        )


def _speech(
    path: str | os.PathLike[str],
    rate: int,
    frame: Frame,
    seconds: float,
) -> Floats:
    """Return the first speech in a file, one channel at `rate`; empty where it is silent."""
    from librosa.effects import trim

    with open_reader(path) as reader:
        if reader.rate < rate:
            raise AlphaMFError(
                f"{shown(path)} has a rate of {reader.rate} Hz, and a dictionary at {rate} Hz "
                "needs at least that"
            )
        # Blocks of a second, so that memory does not grow with the length of the file.
        blocks = (block.mean(axis=1) for block in reader.blocks(reader.rate))
        floor = reader.peak * 10 ** (-QUIET_DB / 20)
        spoken = dropwhile(lambda block: np.abs(block).max() <= floor, blocks)
        held = list(islice(spoken, math.ceil(seconds) + 1))
        if not held:
            return np.zeros(0, np.float32)
        sound = resample(np.concatenate(held), reader.rate, rate)
    sound, _ = trim(sound, top_db=QUIET_DB, frame_length=frame.n_fft, hop_length=frame.hop_length)
    return sound[: int(seconds * rate)]


def _learn(
    target: AlphaMF,
    sampler: str,
    steps: int,
    keep: int,
    seed: int,
    progress: Callable[[int], None] | None,
) -> Floats:
    """Run the chain, and return the mean W."""
    record = Mean(_scaled_basis, burn_in=steps - keep)
    # A chain that diverges is told of in one sentence; numpy need not warn as well.
    with np.errstate(all="ignore"):
        start = target.start(generator(seed, 0, 0))
        if sampler != "em":
            start = warm_up(target, start, WARM_UP_STEPS, seed, 0)
        for state in run(
            target, KERNELS[sampler], steps=steps, seed=seed, start=start, record=record
        ):
            if progress is not None:
                progress(state.step)
    basis: Floats = record.mean
    return basis


def _scaled_basis(theta: Floats, target: AlphaMF) -> Floats:
    """Return W with columns that sum to one; the scale of a column is H's to carry."""
    basis = target.unpack(theta)[0][0]
    scaled: Floats = basis / basis.sum(axis=-2, keepdims=True)
    return scaled
