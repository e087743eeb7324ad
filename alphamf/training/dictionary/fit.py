"""Train a dictionary on voices, in memory or streamed, depending on the amount of speech."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from alphamf.audio.survey import open_sound
from alphamf.errors import AlphaMFError
from alphamf.learnt.dictionary import Dictionary
from alphamf.training.dictionary.progress import ProgressCallback, SkipCallback
from alphamf.training.dictionary.runs import train_in_memory, train_streamed
from alphamf.training.dictionary.settings import TrainingSettings
from alphamf.training.dictionary.voices import Voice

MAX_IN_MEMORY = 1800.0
"""Maximum seconds of speech for training in memory: 4 GB at 8 kHz, 8 GB at 16 kHz."""


def fit(
    voices: Sequence[Voice],
    settings: TrainingSettings,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: ProgressCallback | None = None,
    skipped: SkipCallback | None = None,
) -> Dictionary:
    """Train a dictionary on voices; see `alphamf.training.dictionary.api.train`."""
    if not voices:
        raise AlphaMFError("no files were given, so there is no speech to train on")
    if sum(len(voice.files) for voice in voices) == 1:
        skipped = None  # no other file is left
    # A chain that diverges raises an error; numpy need not warn as well.
    with np.errstate(all="ignore"):
        if is_streamed(voices, settings):
            return train_streamed(voices, settings, checkpoint, progress, skipped)
        return train_in_memory(voices, settings, progress, skipped)


def is_streamed(voices: Sequence[Voice], settings: TrainingSettings) -> bool:
    """Return whether speech is streamed; unless set, the lengths in the files' headers decide."""
    if settings.stream is not None or settings.sampler != "em":
        return bool(settings.stream)
    # Read only where there are enough voices for it to matter.
    if len(voices) * settings.seconds <= MAX_IN_MEMORY:
        return False
    total = 0.0
    for voice in voices:
        of_voice = 0.0
        for file in voice.files:
            of_voice += _length(file)
            if of_voice >= settings.seconds:
                break
        total += min(of_voice, settings.seconds)
        if total > MAX_IN_MEMORY:
            return True
    return False


def _length(file: str) -> float:
    """Return a file's length in seconds from its header; zero if it is unknown."""
    try:
        if not stat.S_ISREG(os.stat(file).st_mode):
            return 0.0
        with open_sound(Path(file), file) as sound:
            return float(sound.frames / sound.samplerate)
    except (OSError, AlphaMFError):
        return 0.0
