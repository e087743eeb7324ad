"""Train a dictionary of speech spectra on clean recordings."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from alphamf.batch.inputs import find
from alphamf.errors import AlphaMFError
from alphamf.inference.samplers.registry import SamplerName
from alphamf.learnt.dictionary import Dictionary
from alphamf.tools.arguments import check_callback, file_name, sampling_rate, shown_value
from alphamf.training.dictionary.fit import fit
from alphamf.training.dictionary.progress import Progress, ProgressCallback, SkipCallback
from alphamf.training.dictionary.settings import RATES, TrainingSettings
from alphamf.training.dictionary.voices import VoiceRule, group

__all__ = ["Progress", "train"]


def train(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    rate: float = 8000,
    rank: int = 60,
    alpha: float = 1.0,
    context: int = 3,
    sampler: SamplerName = "em",
    steps: int | None = None,
    keep: int | None = None,
    seconds: float = 5.0,
    voices: VoiceRule = "file",
    stream: bool | None = None,
    seed: int = 0,
    progress: ProgressCallback | None = None,
    skipped: SkipCallback | None = None,
) -> Dictionary:
    """Train a dictionary: the W of an alpha-MF of clean speech with a single source.

    The result is the mean over the last steps of W with columns that sum to one. Every file is
    scaled to the same power, and at most `seconds` of each voice are used.

    Up to half an hour of speech is held in memory: the first `seconds` of every voice. The
    spectrogram has ``context * (0.032 rate + 1)`` rows and 62.5 columns per second of speech; the
    model takes about 40 bytes for each cell (float32): 2 MB per second of speech at 8 kHz with the
    default context, 4 MB at 16 kHz.

    If there is more, speech is streamed (`alphamf.training.dictionary.stream`,
    `alphamf.training.dictionary.online`). Every step takes `seconds` from a random place in the
    files of one voice, and all voices weigh the same. Memory grows neither with the number of files
    nor with their length; the time is proportional to the number of steps.
    `alphamf.training.dictionary.selection.select` also resumes such a run, and chooses `rank` and
    `alpha`.

    Parameters
    ----------
    paths
        Files of clean speech, folders and patterns, such as ``["clean/"]``. The channels of a file
        are averaged. Silence at its ends is cut off; files that are silent throughout are skipped.
    rate
        Sampling rate of the dictionary in Hz; no file may have a lower one.
    rank
        Number of columns.
    alpha
        Index of the stable law.
    context
        Frames stacked in a column.
    sampler
        Kernel for W and H, a name that `alphamf.denoising.settings.kernel` takes. Others than EM
        hold all speech in memory.
    steps, keep
        Steps of the chain, and how many of the last ones are averaged: by default a third of 200,
        or with streamed speech, of 800 and at least a step for every voice. A sampler other
        than EM starts after 50 steps of EM.
    seconds
        The most that is taken of a voice.
    voices
        Rule by which files belong to one voice; see `alphamf.training.dictionary.voices`.
    stream
        Whether speech is streamed. None: where there is more than half an hour.
    seed
        The same seed gives the same bits.
    progress
        Called after every step.
    skipped
        Called with one sentence for each file that cannot be used and is skipped. None: the first
        one raises.

    Returns
    -------
    Dictionary

    Raises
    ------
    AlphaMFError
        There are no files, one cannot be read or has too low a rate, all are silent, an argument
        is out of range, or the chain diverged.

    Examples
    --------
    >>> voice = train(["data/sample-clean.wav"], rate=8000, rank=4, steps=10)
    >>> voice.basis.shape, voice.rate
    ((771, 4), 8000)
    """
    check_callback("progress", progress)
    check_callback("skipped", skipped)
    settings = TrainingSettings(
        sampling_rate("rate", rate, *RATES),
        rank,
        alpha,
        context,
        sampler,
        steps,
        keep,
        seconds,
        voices,
        stream,
        seed,
    )
    return fit(group(_files(paths), voices), settings, progress=progress, skipped=skipped)


def _files(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    """Return the files that names of files, folders and patterns stand for."""
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    if isinstance(paths, bytes) or not isinstance(paths, Iterable):
        raise AlphaMFError(
            f"paths must be files and folders, such as ['clean/'], not {shown_value(paths)}"
        )
    return find(file_name("each of paths", path) for path in paths)
