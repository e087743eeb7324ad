"""The two ways to train: all speech in memory, or one excerpt at a time."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from alphamf.denoising.sampling import warm_up
from alphamf.denoising.settings import kernel
from alphamf.errors import AlphaMFError
from alphamf.factorization.alpha_mf import AlphaMF, Source
from alphamf.factorization.likelihood import log_density
from alphamf.factorization.stacking import stack
from alphamf.inference.chain import run
from alphamf.inference.random import START, Key, generator
from alphamf.inference.records import Mean
from alphamf.learnt.dictionary import Dictionary
from alphamf.tools.arrays import Floats
from alphamf.training.dictionary.online import StreamEM
from alphamf.training.dictionary.progress import Progress, ProgressCallback, SkipCallback
from alphamf.training.dictionary.settings import HOP_SECONDS, OVERLAP, STEPS, TrainingSettings
from alphamf.training.dictionary.speech import read_beginning, spectrum
from alphamf.training.dictionary.stream import VoiceStream
from alphamf.training.dictionary.voices import Voice

WARM_UP_STEPS = 50
"""Steps of EM before those of a sampler."""

MIN_STEPS = 800
"""Default number of steps with streamed speech, or one for each voice if these are more."""

SEGMENT = 20
"""Steps of streamed training between checkpoints."""

OBJECTIVE_COLUMNS = 1000
"""Columns of which the objective is computed while all speech is in memory."""


def train_in_memory(
    voices: Sequence[Voice],
    settings: TrainingSettings,
    progress: ProgressCallback | None = None,
    skipped: SkipCallback | None = None,
) -> Dictionary:
    """Train a dictionary on the first speech of each voice, as one matrix."""
    steps = STEPS if settings.steps is None else settings.steps
    keep = settings.count_averaged(steps)
    power, files, seconds, unusable = _speech(voices, settings, skipped)
    about = _about(voices, settings, files, seconds, unusable, steps, keep)
    target = AlphaMF(power, [Source(settings.alpha, settings.rank)])
    del power
    record = Mean(_scaled_basis, burn_in=steps - keep)
    start = target.start(generator(settings.seed, Key.CHAIN, START))
    if settings.sampler != "em":
        start = warm_up(target, start, WARM_UP_STEPS, settings.seed, Key.WARM_UP)
    sampler = kernel(settings.sampler)
    for state in run(target, sampler, steps=steps, seed=settings.seed, start=start, record=record):
        if progress is not None:
            objective = _objective(target, state.theta, settings.alpha)
            progress(Progress(settings.rank, settings.alpha, state.step, steps, objective))
    return Dictionary(
        record.mean, settings.alpha, settings.rate, settings.frame, settings.context, about
    )


def _speech(
    voices: Sequence[Voice], settings: TrainingSettings, skipped: SkipCallback | None
) -> tuple[Floats, int, float, int]:
    """Return |X|^2 of all speech, the number of files, its length in s, and skipped files."""
    spectra, seconds, unusable = [], 0.0, 0
    for voice in voices:
        left = settings.seconds
        for file in voice.files:
            if left < OVERLAP * HOP_SECONDS:
                break
            try:
                sound = read_beginning(file, settings.rate, settings.frame, left)
            except AlphaMFError as error:
                if skipped is None:
                    raise
                skipped(str(error))
                unusable += 1
                continue
            power = spectrum(sound, settings.frame)
            if power is not None:
                spectra.append(stack(power, settings.context))
                seconds += len(sound) / settings.rate
                left -= len(sound) / settings.rate
    if not spectra:
        given = "none of the files can be used" if unusable else "all the files are silent"
        raise AlphaMFError(f"there is no speech to train on; {given}")
    return np.concatenate(spectra, axis=1), len(spectra), seconds, unusable


def train_streamed(
    voices: Sequence[Voice],
    settings: TrainingSettings,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: ProgressCallback | None = None,
    skipped: SkipCallback | None = None,
) -> Dictionary:
    """Train a dictionary by stochastic EM; each step uses an excerpt of one voice."""
    steps = max(MIN_STEPS, len(voices)) if settings.steps is None else settings.steps
    keep = settings.count_averaged(steps)
    target = VoiceStream(voices, settings, skipped)
    record = Mean(_basis, burn_in=steps - keep)
    for state in run(
        target,
        StreamEM(settings.rank),
        steps=steps,
        seed=settings.seed,
        record=record,
        checkpoint=checkpoint,
        segment=SEGMENT,
    ):
        if progress is not None:
            progress(Progress(settings.rank, settings.alpha, state.step, steps, target.objective))
    about = _about(
        voices, settings, target.used_files, target.seconds, target.unusable_files, steps, keep
    )
    about["passes"] = round(steps / len(voices), 2)
    return Dictionary(
        record.mean, settings.alpha, settings.rate, settings.frame, settings.context, about
    )


def _about(
    voices: Sequence[Voice],
    settings: TrainingSettings,
    files: int,
    seconds: float,
    unusable: int,
    steps: int,
    keep: int,
) -> dict[str, Any]:
    """Return the metadata for the model file."""
    by_file = settings.voices == "file"
    return {
        "software": f"alphamf {version('alphamf')}",
        "files": files,
        **({} if by_file else {"voices": len(voices)}),
        **({"unusable": unusable} if unusable else {}),
        "seconds": round(seconds, 1),
        "voices_by": settings.voices,
        "most": f"{settings.seconds:g} s of a {'file' if by_file else 'voice'}",
        "sampler": settings.sampler,
        "steps": steps,
        "keep": keep,
        "seed": settings.seed,
    }


def _scaled_basis(theta: Floats, target: AlphaMF) -> Floats:
    """Return W with columns that sum to one; the scale is moved to H."""
    basis = target.unpack(theta)[0][0]
    scaled: Floats = basis / basis.sum(axis=-2, keepdims=True)
    return scaled


def _basis(theta: Floats, target: VoiceStream) -> Floats:
    return theta.reshape(target.rows, -1)


def _objective(target: AlphaMF, theta: Floats, alpha: float) -> float:
    """Return the mean log density of a cell, over a subset of the columns."""
    every = slice(None, None, math.ceil(target.power.shape[1] / OBJECTIVE_COLUMNS))
    basis, gains = target.unpack(theta)[0]
    cells = log_density(target.power[:, every], basis @ gains[:, every], alpha)
    return float(cells.mean(dtype=np.float64))
