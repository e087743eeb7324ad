"""Train a dictionary of speech spectra on clean recordings."""

import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import NamedTuple

import numpy as np

from alphamf.audio.stft import Frame
from alphamf.batch.inputs import find
from alphamf.denoising.api import denoise
from alphamf.denoising.sampling import warm_up
from alphamf.denoising.settings import PRESETS, kernel
from alphamf.errors import AlphaMFError
from alphamf.factorization.alpha_mf import AlphaMFTarget, Source, stack
from alphamf.factorization.likelihood import log_density
from alphamf.factorization.stable import ALPHAS
from alphamf.inference.chain import run
from alphamf.inference.random import START, Key, generator
from alphamf.inference.records import Mean
from alphamf.learnt.dictionary import Dictionary
from alphamf.scores.score import si_sdr
from alphamf.tools.arguments import (
    check_callback,
    file_name,
    real_number,
    replace_numbers,
    sampling_rate,
    shown_value,
    whole_number,
)
from alphamf.tools.arrays import Floats
from alphamf.training.dictionary.speech import (
    Voice,
    VoiceRule,
    check_rule,
    common_rate,
    group,
    read_beginning,
    spectrum,
)
from alphamf.training.refiner.noises import coloured_noise
from alphamf.training.refiner.shaping import decibels_to_amplitude, rms

HOP_SECONDS = 0.016
OVERLAP = 4
"""Ratio of window and hop: windows of 64 ms every 16 ms."""

RATES = (4000, 48000)
"""Lowest and highest sampling rate of a dictionary, in Hz."""

MOST_RANK = 10_000
"""Maximum number of spectra of a dictionary; the default is 60."""

MOST_CONTEXT = 1000
"""Maximum number of frames stacked in a column, which then spans 16 s; the default is 3."""

MOST_SECONDS = 24 * 3600
"""Maximum length of speech that is used per voice, in seconds: a day."""

MOST_CELLS = 125_000_000
"""Maximum number of cells of the speech's stacked spectrogram: 5 GB, at 40 bytes per cell."""


@dataclass(frozen=True)
class TrainingSettings:
    """The arguments of `train` with these names; an invalid one raises an AlphaMFError."""

    rate: int
    rank: int
    alpha: float
    context: int
    sampler: str
    steps: int
    seconds: float
    voices: VoiceRule
    seed: int

    @property
    def frame(self) -> Frame:
        """Window and hop in samples."""
        hop = round(HOP_SECONDS * self.rate)
        return Frame(OVERLAP * hop, hop)

    @property
    def averaged(self) -> int:
        """Number of last steps over which W is averaged."""
        return max(1, self.steps // 3)

    @property
    def most_seconds(self) -> float:
        """Maximum length of all speech together, in seconds."""
        return MOST_CELLS / (self.context * self.frame.bins) * HOP_SECONDS

    def __post_init__(self) -> None:
        numbers: dict[str, float] = {
            "rate": whole_number("rate", self.rate, *RATES, unit=" Hz"),
            "rank": whole_number("rank", self.rank, 1, MOST_RANK),
            "alpha": real_number("alpha", self.alpha, *ALPHAS),
            "context": whole_number("context", self.context, 1, MOST_CONTEXT),
            "steps": whole_number("steps", self.steps, 1),
            "seconds": check_seconds(self.seconds),
            "seed": whole_number("seed", self.seed, 0),
        }
        kernel(self.sampler)
        check_rule(self.voices)
        replace_numbers(self, numbers)


def check_seconds(seconds: float) -> float:
    """Return the seconds per voice; raise an AlphaMFError unless they are from 0.064 to 86400."""
    return real_number("seconds", seconds, OVERLAP * HOP_SECONDS, MOST_SECONDS)


__all__ = ["Progress", "train"]

WARM_UP_STEPS = 50
"""Number of steps of EM before the steps of a sampler other than EM."""

OBJECTIVE_COLUMNS = 1000
"""Maximum number of columns over which the objective is computed."""


TRIED, TRIED_SNR = 4, 5.0
"""Maximum number of voices that are held back to try a model on; their SNR in noise, in dB."""


class Progress(NamedTuple):
    """State of a training run."""

    # step, steps: numbers of steps made so far, and of all steps.
    step: int
    steps: int
    objective: float  # Mean log density of a cell, in nats


ProgressCallback = Callable[[Progress], None]
"""A function that receives the `Progress` after every step, except in the warm-up."""

SkipCallback = Callable[[str], None]
"""A function that receives one sentence for each file that raised an error and is skipped."""


class Speech(NamedTuple):
    """The speech to train on."""

    power: Floats  # |X|^2 of stacked frames, scaled per file, shape (rows, columns)
    files: int  # Number of files that were used
    seconds: float  # Length of the speech in seconds
    unusable: int  # Number of files that could not be used


def train(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    rate: float | None = None,
    rank: int = 60,
    alpha: float = 1.0,
    context: int = 3,
    sampler: str = "em",
    steps: int = 200,
    seconds: float = 5.0,
    voices: VoiceRule = "file",
    seed: int = 0,
    progress: ProgressCallback | None = None,
    skipped: SkipCallback | None = None,
) -> Dictionary:
    """Train a dictionary: the W of an alpha-MF of clean speech with a single source.

    The result is the mean over the last steps of W with columns that sum to one. Every file is
    scaled to the same power, and the first `seconds` of each voice are used.

    All speech is held in memory: its spectrogram has ``context * (0.032 rate + 1)`` rows and 62.5
    columns per second, and takes 40 bytes per cell. At most 5 GB are used: by default 43 minutes of
    speech at 8 kHz, and 21 at 16 kHz. If there may be more, voices are drawn at random.

    Parameters
    ----------
    paths
        Files of clean speech, folders and patterns, such as ``["clean/"]``. The channels of a file
        are averaged. Silence at its ends is cut off; files that are silent throughout are skipped.
    rate
        Sampling rate of the dictionary in Hz; no file may have a lower one. None: 16000, or 8000
        if a file has a rate below 16000.
    rank
        Number of columns of W.
    alpha
        Index of the stable law.
    context
        Frames stacked in a column.
    sampler
        Kernel for W and H, a name that `alphamf.denoising.settings.kernel` takes.
    steps
        Steps of the chain, of which the last third is averaged. A sampler other than EM starts
        after 50 steps of EM.
    seconds
        Maximum length of speech per voice, in seconds.
    voices
        Rule by which files belong to one voice; see `alphamf.training.dictionary.speech`.
    seed
        Seed of the random numbers. The same seed gives the same dictionary.
    progress
        Called with the `Progress` after every step of the chain.
    skipped
        Called with one sentence for each file that cannot be read or has too low a rate; the file
        is skipped. None, or if only one file is given: such a file raises an error.

    Returns
    -------
    Dictionary

    Raises
    ------
    AlphaMFError
        No file has sound, one cannot be read or has too low a rate, ``folder`` or ``prefix`` finds
        only one voice in several files, an argument is invalid, or the chain diverged.

    Examples
    --------
    >>> voice = train(["data/sample-clean.wav"], rate=8000, rank=4, steps=10)
    >>> voice.basis.shape, voice.rate
    ((771, 4), 8000)
    """
    check_callback("progress", progress)
    check_callback("skipped", skipped)
    settings = TrainingSettings(
        RATES[0] if rate is None else sampling_rate("rate", rate, *RATES),
        rank,
        alpha,
        context,
        sampler,
        steps,
        seconds,
        voices,
        seed,
    )
    files = _files(paths)
    groups = group(files, voices)
    if not files:
        raise AlphaMFError("no files were given, so there is no speech to train on")
    if rate is None:
        settings = replace(settings, rate=common_rate(files))
    # A chain that diverges raises an error; numpy need not warn as well.
    with np.errstate(all="ignore"):
        return _train(groups, settings, progress, None if len(files) == 1 else skipped)


def hold_back(voices: Sequence[Voice]) -> tuple[list[str], list[str]]:
    """Return files to train on, and a file per voice of the last fifth, at most `TRIED` voices."""
    count = min(TRIED, len(voices) // 5)
    others, tried = voices[: len(voices) - count], voices[len(voices) - count :]
    return [file for voice in others for file in voice.files], [voice.files[0] for voice in tried]


def gains_over_shipped(
    model: Dictionary, files: Sequence[str], skipped: SkipCallback
) -> dict[str, list[float]]:
    """Return the differences in SI-SDR from the shipped model in dB, by preset.

    Each list has a value per readable file with at least 1 s of speech, used up to 5 s.
    """
    changes: dict[str, list[float]] = {"plain": [], "fast": []}
    for k, file in enumerate(files):
        try:
            clean = read_beginning(file, model.rate, model.frame, 5.0)
        except AlphaMFError as error:
            skipped(str(error))
            continue
        if len(clean) < model.rate:
            continue
        noise = coloured_noise(np.random.default_rng(k), len(clean), model.rate)
        noise *= rms(clean) / rms(noise) * decibels_to_amplitude(-TRIED_SNR)
        noisy = (clean + noise).astype(np.float32)
        for preset, found in changes.items():
            own, shipped = (
                si_sdr(clean, denoise(noisy, model.rate, PRESETS[preset], model=name).audio)
                for name in (model, "auto")
            )
            found.append(own - shipped)
    return changes


def _files(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    """Return the files that names of files, folders and patterns stand for."""
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    if isinstance(paths, bytes) or not isinstance(paths, Iterable):
        raise AlphaMFError(
            f"paths must be files and folders, such as ['clean/'], not {shown_value(paths)}"
        )
    return find(file_name("each of paths", path) for path in paths)


def _train(
    voices: Sequence[Voice],
    settings: TrainingSettings,
    progress: ProgressCallback | None,
    skipped: SkipCallback | None,
) -> Dictionary:
    steps, seed = settings.steps, settings.seed
    power, files, seconds, unusable = _speech(voices, settings, skipped)
    target = AlphaMFTarget(power, [Source(settings.alpha, settings.rank)])
    del power
    record = Mean(_scaled_basis, burn_in=steps - settings.averaged)
    start = target.start(generator(seed, Key.CHAIN, START))
    if settings.sampler != "em":
        start = warm_up(target, start, WARM_UP_STEPS, seed, Key.WARM_UP)
    sampler = kernel(settings.sampler)
    for state in run(target, sampler, steps=steps, seed=seed, start=start, record=record):
        if progress is not None:
            progress(Progress(state.step, steps, _objective(target, state.theta, settings.alpha)))
    by_file = settings.voices == "file"
    about = {
        "software": f"alphamf {version('alphamf')}",
        "files": files,
        **({} if by_file else {"voices": len(voices)}),
        **({"unusable": unusable} if unusable else {}),
        "seconds": round(seconds, 1),
        "voices_by": settings.voices,
        "most": f"{settings.seconds:g} s of a {'file' if by_file else 'voice'}",
        "sampler": settings.sampler,
        "steps": steps,
        "keep": settings.averaged,
        "seed": seed,
    }
    return Dictionary(
        record.mean, settings.alpha, settings.rate, settings.frame, settings.context, about
    )


def _speech(
    voices: Sequence[Voice], settings: TrainingSettings, skipped: SkipCallback | None
) -> Speech:
    """Read the first seconds of voices up to `MOST_CELLS`, in random order if all may exceed it."""
    spectra, seconds, unusable = [], 0.0, 0
    if len(voices) * settings.seconds > settings.most_seconds:
        order = generator(settings.seed, Key.VOICE_ORDER).permutation(len(voices))
        voices = [voices[k] for k in order]
    for voice in voices:
        left = min(settings.seconds, settings.most_seconds - seconds)
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
    return Speech(np.concatenate(spectra, axis=1), len(spectra), seconds, unusable)


def _scaled_basis(theta: Floats, target: AlphaMFTarget) -> Floats:
    """Return a copy of W whose columns are scaled to sum to one."""
    basis = target.unpack(theta)[0][0]
    return basis / basis.sum(axis=-2, keepdims=True)


def _objective(target: AlphaMFTarget, theta: Floats, alpha: float) -> float:
    """Return the mean log density of a cell, over at most `OBJECTIVE_COLUMNS` columns."""
    every = slice(None, None, math.ceil(target.power.shape[1] / OBJECTIVE_COLUMNS))
    basis, gains = target.unpack(theta)[0]
    cells = log_density(target.power[:, every], basis @ gains[:, every], alpha)
    return float(cells.mean(dtype=np.float64))
