"""The two forms of a training run: all speech in memory, or speech that streams by."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np

from alphamf.denoising.estimate import warm_up
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
from alphamf.tools.files import system_name
from alphamf.training.dictionary.online import StreamEM
from alphamf.training.dictionary.settings import HOP_SECONDS, OVERLAP, STEPS, Course
from alphamf.training.dictionary.speech import beginning, spectrum
from alphamf.training.dictionary.stream import Stream
from alphamf.training.dictionary.voices import Voice

WARM_UP_STEPS = 50
"""Steps of EM before those of a sampler."""

WHOLE = 1800.0
"""Seconds of speech up to which all of it is held in memory: 4 GB at 8 kHz, 8 GB at 16 kHz."""

TURNS = 800
"""Least steps where speech streams by, one voice each."""

SEGMENT = 20
"""Of these, the steps between checkpoints."""

SHOWN = 1000
"""Columns of speech of which the objective is computed while all speech is in memory."""


class Progress(NamedTuple):
    """How far a run is: steps made, steps in all, and the mean log density of a cell in nats."""

    rank: int
    alpha: float
    step: int
    steps: int
    objective: float


Tell = Callable[[Progress], None]
"""Called after every step."""

Skip = Callable[[str], None]
"""Called with one sentence for each file that cannot be used."""


def learn(
    voices: Sequence[Voice],
    course: Course,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Tell | None = None,
    skipped: Skip | None = None,
) -> Dictionary:
    """Learn a dictionary from voices; see `alphamf.training.train`.

    Raises
    ------
    AlphaMFError
        As there.
    """
    if not voices:
        raise AlphaMFError("there is no speech to learn from: no files were given")
    if sum(len(voice.files) for voice in voices) == 1:
        skipped = None  # there is nothing to go on with
    # A chain that diverges is told of in one sentence; numpy need not warn as well.
    with np.errstate(all="ignore"):
        if streams(voices, course):
            return _from_stream(voices, course, checkpoint, progress, skipped)
        return _from_whole(voices, course, progress, skipped)


def streams(voices: Sequence[Voice], course: Course) -> bool:
    """Return whether speech streams by; where nobody says, by the lengths that headers tell."""
    if course.stream is not None or course.sampler != "em":
        return bool(course.stream)
    # Read only where there are enough voices for it to matter.
    if len(voices) * course.seconds <= WHOLE:
        return False
    total = 0.0
    for voice in voices:
        of_voice = 0.0
        for file in voice.files:
            of_voice += _length(file)
            if of_voice >= course.seconds:
                break
        total += min(of_voice, course.seconds)
        if total > WHOLE:
            return True
    return False


def _length(file: str) -> float:
    """Return what a file's header says of its length; none where it cannot be read."""
    import soundfile

    try:
        if not stat.S_ISREG(os.stat(file).st_mode):
            return 0.0
        return float(soundfile.info(system_name(file)).duration)
    except (OSError, soundfile.LibsndfileError):
        return 0.0


def _from_whole(
    voices: Sequence[Voice], course: Course, progress: Tell | None, skipped: Skip | None
) -> Dictionary:
    steps = STEPS if course.steps is None else course.steps
    keep = course.kept(steps)
    spectra, heard, unusable = [], 0.0, 0
    for voice in voices:
        left = course.seconds
        for file in voice.files:
            if left < OVERLAP * HOP_SECONDS:
                break
            try:
                sound = beginning(file, course.rate, course.frame, left)
            except AlphaMFError as error:
                if skipped is None:
                    raise
                skipped(str(error))
                unusable += 1
                continue
            power = spectrum(sound, course.frame)
            if power is not None:
                spectra.append(stack(power, course.context))
                heard += len(sound) / course.rate
                left -= len(sound) / course.rate
    if not spectra:
        given = "none of the files can be used" if unusable else "all the files are silent"
        raise AlphaMFError(f"there is no speech to learn from: {given}")
    about = _about(voices, course, len(spectra), heard, unusable, steps, keep)
    target = AlphaMF(np.concatenate(spectra, axis=1), [Source(course.alpha, course.rank)])
    del spectra
    record = Mean(_scaled_basis, burn_in=steps - keep)
    start = target.start(generator(course.seed, Key.CHAIN, START))
    if course.sampler != "em":
        start = warm_up(target, start, WARM_UP_STEPS, course.seed, 0)
    sampler = kernel(course.sampler)
    for state in run(target, sampler, steps=steps, seed=course.seed, start=start, record=record):
        if progress is not None:
            objective = _objective(target, state.theta, course.alpha)
            progress(Progress(course.rank, course.alpha, state.step, steps, objective))
    return Dictionary(record.mean, course.alpha, course.rate, course.frame, course.context, about)


def _from_stream(
    voices: Sequence[Voice],
    course: Course,
    checkpoint: str | os.PathLike[str] | None,
    progress: Tell | None,
    skipped: Skip | None,
) -> Dictionary:
    steps = max(TURNS, len(voices)) if course.steps is None else course.steps
    keep = course.kept(steps)
    target = Stream(voices, course, skipped)
    record = Mean(_basis, burn_in=steps - keep)
    for state in run(
        target,
        StreamEM(course.rank),
        steps=steps,
        seed=course.seed,
        record=record,
        checkpoint=checkpoint,
        segment=SEGMENT,
    ):
        if progress is not None:
            progress(Progress(course.rank, course.alpha, state.step, steps, target.objective))
    about = _about(voices, course, target.heard, target.seconds, target.unusable, steps, keep)
    about["passes"] = round(steps / len(voices), 2)
    return Dictionary(record.mean, course.alpha, course.rate, course.frame, course.context, about)


def _about(
    voices: Sequence[Voice],
    course: Course,
    files: int,
    seconds: float,
    unusable: int,
    steps: int,
    keep: int,
) -> dict[str, Any]:
    """Return what the dictionary says of itself."""
    by_file = course.voices == "file"
    return {
        "software": f"alphamf {version('alphamf')}",
        "files": files,
        **({} if by_file else {"voices": len(voices)}),
        **({"unusable": unusable} if unusable else {}),
        "seconds": round(seconds, 1),
        "voices_by": course.voices,
        "most": f"{course.seconds:g} s of a {'file' if by_file else 'voice'}",
        "sampler": course.sampler,
        "steps": steps,
        "keep": keep,
        "seed": course.seed,
    }


def _scaled_basis(theta: Floats, target: AlphaMF) -> Floats:
    """Return W with columns that sum to one; the scale of a column is H's to carry."""
    basis = target.unpack(theta)[0][0]
    scaled: Floats = basis / basis.sum(axis=-2, keepdims=True)
    return scaled


def _basis(theta: Floats, target: Stream) -> Floats:
    return theta.reshape(target.rows, -1)


def _objective(target: AlphaMF, theta: Floats, alpha: float) -> float:
    """Return the mean log density of a cell, of columns spread over all speech."""
    every = slice(None, None, math.ceil(target.power.shape[1] / SHOWN))
    basis, gains = target.unpack(theta)[0]
    cells = log_density(target.power[:, every], basis @ gains[:, every], alpha)
    return float(cells.mean(dtype=np.float64))
