"""The rough form of `pesq` that networks were trained with before it.

PESQ's time alignment, its filters and its gain of each frame are left out. The result is not a MOS,
but it falls as PESQ rises, as a test of the losses shows.

References
----------
ITU-T P.862 (2001), section 10.2; Martin-Donas et al., "A deep learning loss function based on the
perceptual evaluation of the speech quality", IEEE SPL 25 (2018); Zwicker and Fastl,
"Psychoacoustics" (1999), for the loudness.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from alphamf.tools.arrays import Floats
from alphamf.training.refiner import spectra
from alphamf.training.refiner.pesq import (
    LOUDNESS_POWER,
    WINDOW,
    WORST,
    band_powers,
    heard_difference,
    hearing_threshold,
    mean_of_spurts,
    weight_of_added,
)

BARK = 0.5
"""Width of a band in Bark."""

SPEECH_DB = 70.0
"""Level of the clean sound in dB above the threshold's reference (20 microPascal)."""

LOUD = 0.1
"""Minimum power of a frame, relative to the mean, for measuring an estimate's response."""

ASYMMETRIC = 0.309
"""Weight of the asymmetric disturbance beside the symmetric one, that of PESQ over .1."""


def bark(frequencies: Floats) -> Floats:
    """Return frequencies in Hz on the Bark scale (Traunmueller, JASA 88, 1990)."""
    return 26.81 * frequencies / (1960 + frequencies) - 0.53


def bands(bins: int, rate: int) -> tuple[Floats, Floats]:
    """Return which bins belong to each band, and the threshold of hearing per band.

    Returns: shape (bins, bands), 0 or 1, and shape (bands,), powers over that of 20 microPascal.
    """
    frequencies = np.arange(bins) * (rate / 2 / (bins - 1))
    number = np.floor((bark(frequencies) - bark(np.array(100.0))) / BARK).astype(int)
    kept = np.unique(number[number >= 0])
    inside = (number[:, None] == kept).astype(np.float32)
    centre = (inside * frequencies[:, None]).sum(0) / inside.sum(0)
    return inside, hearing_threshold(centre).astype(np.float32)


def disturbance(clean: Tensor, estimate: Tensor, rate: int) -> Tensor:
    """Measure how much worse an estimate sounds than the clean speech.

    `clean`, `estimate`: sounds, shape (clips, samples). Returns `Tensor`: shape (clips,), from 0; 1
    is about what PESQ scores in the middle of its scale.
    """
    length = round(WINDOW * rate)
    inside, threshold = (spectra.constant(each, clean) for each in bands(length // 2 + 1, rate))
    ours, theirs = (band_powers(each, inside, rate) for each in (clean, estimate))
    least = 1e-4 * ours.mean((1, 2), keepdim=True) + 1e-12
    ours, theirs = (_at_speech_level(each, least) for each in (ours, theirs))
    ours = ours * _response(ours, theirs)
    loud, other = (_loudness(each, threshold) for each in (ours, theirs))
    heard, added = heard_difference(loud, other), weight_of_added(ours, theirs)
    # As in PESQ, what is silent in the speech counts more, and soft frames less than their number.
    energy = (ours.sum(2) + 1e5) / 1e7
    symmetric = (torch.sqrt((heard**2).mean(2) + 1e-6) / energy**0.04).clamp(max=WORST)
    asymmetric = ((heard.abs() * added).mean(2) / energy**0.04).clamp(max=WORST)
    return 0.1 * (mean_of_spurts(symmetric) + ASYMMETRIC * mean_of_spurts(asymmetric))


def _at_speech_level(power: Tensor, least: Tensor) -> Tensor:
    """Scale band powers to `SPEECH_DB` on average, ignoring near-silent ones."""
    level = power.sum(2, keepdim=True).mean(1, keepdim=True)
    return power * (10 ** (SPEECH_DB / 10) / (level + least))


def _response(ours: Tensor, theirs: Tensor) -> Tensor:
    """Return the linear frequency response between two sounds, which the loss does not penalise."""
    whole = ours.sum(2, keepdim=True)
    loud = (whole > LOUD * whole.mean(1, keepdim=True)).to(ours.dtype)
    means = [(loud * each).mean(1, keepdim=True) + 1e3 for each in (ours, theirs)]
    return (means[1] / means[0]).clamp(0.01, 100)


def _loudness(power: Tensor, threshold: Tensor) -> Tensor:
    """Return Zwicker's loudness of bands; 0 below the threshold of hearing."""
    ratio = torch.clamp(power / threshold, min=1.0)
    scale = (threshold / 0.5) ** LOUDNESS_POWER
    return scale * ((0.5 + 0.5 * ratio) ** LOUDNESS_POWER - 1)
