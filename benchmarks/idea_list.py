"""Ideas for better denoising: functions of a clip and of the output of the preset ``plain``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from alphamf.audio import stft
from alphamf.denoising.api import denoise
from alphamf.denoising.sampling import sample
from alphamf.denoising.settings import PRESETS, Settings
from alphamf.evaluation.baselines.base import Clip
from alphamf.evaluation.baselines.registry import METHODS
from alphamf.evaluation.score import pesq, si_sdr, stoi
from alphamf.factorization.alpha_mf import AlphaMF
from alphamf.factorization.stacking import unstack
from alphamf.inference.records import Mean
from alphamf.learnt.dictionary import Dictionary, choose, load
from alphamf.tools.arrays import Array, Floats

BASE = PRESETS["plain"]
RATE = 8000
SEED = 0
LEAST = 1e-4
"""Least gain whose logarithm is averaged: -80 dB."""

Sounds = dict[str, Floats]
"""By setting."""


def statistics(theta: Array, target: AlphaMF, context: int) -> Floats:
    """Return the Wiener gain, its root and its logarithm, shape (3, bins, frames).

    Parameters
    ----------
    theta
        Position of the chain.
    target
        Its posterior.
    context
        Frames stacked in a column.
    """
    noted = target.notes.gain
    gain = target.gain(theta) if noted is None else noted
    values = gain, np.sqrt(gain), np.log(np.maximum(gain, LEAST))
    return np.stack([unstack(value, context) for value in values])


def posterior(power: Floats, dictionary: Dictionary) -> Mean:
    """Run the chain of ``plain`` for `statistics`."""
    record = Mean(
        partial(statistics, context=dictionary.context),
        burn_in=BASE.steps - BASE.keep,
        thin=BASE.thin,
    )

    def observe(state: Any, target: AlphaMF) -> None:
        record.add(state, target)
        target.notes.wants_gain = True

    sample(power, dictionary, BASE, (SEED, 0), observe)
    return record


class Case:
    """A noisy clip, and the posterior of ``plain``.

    Parameters
    ----------
    clean, noisy
        Shape (samples,).
    models
        Files of dictionaries for other windows.

    Attributes
    ----------
    gain, std, root, log
        Posterior mean and standard deviation of the gain, and posterior means of its root and its
        logarithm, shape (bins, frames).
    """

    def __init__(self, clean: Floats, noisy: Floats, models: list[Path]) -> None:
        self.clean, self.noisy, self.models = clean, noisy, models
        dictionary = choose("auto", RATE)
        self.frame = dictionary.frame
        self.spectrum = stft.forward(noisy, self.frame)
        record = posterior(np.abs(self.spectrum) ** 2, dictionary)
        self.gain, self.root, self.log = record.mean
        self.std = record.std[0]

    @cached_property
    def base(self) -> Floats:
        """Output of ``plain``."""
        return self.sound(self.gain)

    def sound(self, gain: Floats) -> Floats:
        """Apply a gain to the clip."""
        return stft.inverse(self.spectrum * gain, self.frame, len(self.noisy))

    def denoised(self, settings: Settings) -> Floats:
        """Denoise the clip with other settings."""
        return denoise(self.noisy, RATE, settings, seed=SEED).audio

    def scores(self, sound: Floats) -> list[float]:
        """Return the three scores of a sound."""
        return [
            si_sdr(self.clean, sound),
            pesq(self.clean, sound, RATE),
            stoi(self.clean, sound, RATE, extended=True),
        ]


def power(case: Case) -> Sounds:
    """Return the sounds of the gain to some powers."""
    return {f"g^{p}": case.sound(case.gain**p) for p in (0.8, 1.2, 1.5)}


def mean(case: Case) -> Sounds:
    """Return the sounds of other means of the gain."""
    return {
        "E √g": case.sound(case.root),
        "(E √g)²": case.sound(case.root**2),
        "exp E log g": case.sound(np.exp(case.log)),
    }


def logmmse(case: Case) -> Sounds:
    """Return the log-spectral amplitude estimator's sound, and its means with the base.

    Its gain is computed from its output, since its windows differ.
    """
    other = METHODS["logmmse"].run(Clip(case.noisy, RATE, case.clean))
    noisy = np.maximum(np.abs(case.spectrum), np.finfo(np.float32).tiny)
    gain = np.minimum(np.abs(stft.forward(other, case.frame)) / noisy, 1)
    return {
        "logmmse alone": other,
        "mean of the signals": (case.base + other) / 2,
        "geometric mean of the gains": case.sound(np.sqrt(case.gain * gain)),
    }


def settings(case: Case) -> Sounds:
    """Return the sounds of other settings."""
    others = {
        "alpha_noise 1.6": replace(BASE, alpha_noise=1.6),
        "alpha_noise 2": replace(BASE, alpha_noise=2.0),
        "alpha_speech 0.8": replace(BASE, alpha_speech=0.8),
        "alpha_speech 1.3": replace(BASE, alpha_speech=1.3),
        "noise_rank 2": replace(BASE, noise_rank=2),
        "noise_rank 8": replace(BASE, noise_rank=8),
        "no channel": replace(BASE, learn_channel=False),
        "EM": replace(BASE, sampler="em", warm_up=0, steps=60, keep=20),
        "preset balanced": replace(PRESETS["balanced"], refine=False),
    }
    return {name: case.denoised(other) for name, other in others.items()}


def windows(case: Case) -> Sounds:
    """Return the sounds of other windows, and their mean with the base."""
    alone = {}
    for path in case.models:
        model = load(path)
        name = f"{1000 * model.frame.n_fft / model.rate:.0f} ms alone"
        alone[name] = denoise(case.noisy, RATE, BASE, model=model, seed=SEED).audio
    return alone | {"mean of the signals": np.mean([case.base, *alone.values()], axis=0)}


def uncertainty(case: Case) -> Sounds:
    """Return the sounds of the gain moved by its standard deviation, down or towards one."""
    sounds = {}
    for k in (0.5, 1):
        sounds[f"g (1 - {k} std)"] = case.sound(case.gain * (1 - k * case.std))
        sounds[f"g + {k} std (1 - g)"] = case.sound(case.gain + k * case.std * (1 - case.gain))
    return sounds


def floor(case: Case) -> Sounds:
    """Return the sounds of a gain that is never below a floor."""
    return {
        f"{db} dB": case.sound(np.maximum(case.gain, np.float32(10 ** (db / 20))))
        for db in (-20, -15)
    }


def again(case: Case) -> Sounds:
    """Return the sound of a second run on the first one's output."""
    return {"plain twice": denoise(case.base, RATE, BASE, seed=SEED + 1).audio}


def network(case: Case) -> Sounds:
    """Return the sounds of the presets with the refiner."""
    names = ("fast", "balanced")
    return {f"preset {name}, refined": case.denoised(PRESETS[name]) for name in names}


IDEAS: dict[str, Callable[[Case], Sounds]] = {
    idea.__name__: idea
    for idea in (power, mean, logmmse, settings, windows, uncertainty, floor, again, network)
}
