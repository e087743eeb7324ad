"""Score of how well a dictionary predicts held-out speech; it selects rank and alpha.

A dictionary with more columns fits every voice better, held out or not, since H is fitted to it.
So some cells of the spectrogram are held out as well: H is fitted to the others, and the score is
the mean log density of the hidden ones (`alphamf.factorization.likelihood`), which is
comparable between ranks and between indices alpha. Where frames are stacked, a cell is hidden in
all columns that it is part of, and its density is the mean over them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.factorization.likelihood import log_density
from alphamf.factorization.stacking import stack
from alphamf.inference.random import Key, generator
from alphamf.learnt.dictionary import Dictionary
from alphamf.tools.arrays import Floats
from alphamf.training.dictionary.activations import activate
from alphamf.training.dictionary.progress import SkipCallback
from alphamf.training.dictionary.speech import read_beginning, spectrum
from alphamf.training.dictionary.voices import Voice

HIDDEN = 0.2
"""Fraction of the cells that are hidden from the fit of H."""

STEPS, KEPT = 60, 20
"""Steps of EM that fit H, and the last of them, over which v is averaged."""


def score(
    model: Dictionary,
    voices: Sequence[Voice],
    seconds: float,
    seed: int,
    skipped: SkipCallback | None = None,
) -> Floats:
    """Return the mean log density of a hidden cell in nats, for each voice.

    The hidden cells depend only on the seed and the voice, so that dictionaries can be compared in
    pairs.

    Returns: shape (voices that have speech,).
    """
    values = []
    for number, voice in enumerate(voices):
        power = _first(voice, model, seconds, skipped)
        if power is not None:
            values.append(_density(model, power, generator(seed, Key.HELD_OUT_CELLS, number)))
    if not values:
        raise AlphaMFError("the held-out voices contain no speech")
    return np.array(values)


def _first(
    voice: Voice, model: Dictionary, seconds: float, skipped: SkipCallback | None
) -> Floats | None:
    """Return the spectrum of the first speech of a voice; None if it has none."""
    for file in voice.files:
        try:
            power = spectrum(read_beginning(file, model.rate, model.frame, seconds), model.frame)
        except AlphaMFError as error:
            if skipped is None:
                raise
            skipped(str(error))
            continue
        if power is not None:
            return power
    return None


def _density(model: Dictionary, power: Floats, rng: np.random.Generator) -> float:
    hidden = stack(rng.random(power.shape, dtype=np.float32) < HIDDEN, model.context)
    power = stack(power, model.context)
    weights = 1 - hidden.astype(np.float32)
    mean = np.zeros_like(power)
    for number, step in enumerate(activate(power, model.basis, model.alpha, STEPS, rng, weights)):
        if number >= STEPS - KEPT:
            mean += step.dispersion / KEPT
    return float(log_density(power[hidden], mean[hidden], model.alpha).mean(dtype=np.float64))
