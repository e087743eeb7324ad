"""ESTOI as a differentiable loss on sounds."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from alphamf.tools.arrays import Floats
from alphamf.training.refiner import spectra

WINDOW = 0.0256
"""Length of an analysis window in seconds; windows overlap by half."""

SEGMENT, STEP = 30, 3
"""Number of frames per segment, and from one segment's start to the next (1 in ESTOI)."""

LOWEST, BANDS = 150.0, 15
"""Centre of the lowest third-octave band in Hz, and largest number of bands."""

SILENT = 1e-4
"""Energy relative to the loudest frame below which a frame of the clean sound is left out."""

SOFT = 0.05
"""Norm, relative to the clean envelope's, whose square is added to the estimate's squared norm, to
bound the gradient at silence."""


def third_octaves(bins: int, rate: int) -> Floats:
    """Return 1 where a bin belongs to a band, and 0 elsewhere, shape (bins, bands)."""
    frequencies = np.arange(bins) * (rate / 2 / (bins - 1))
    edges = LOWEST * 2 ** ((np.arange(BANDS + 1) - 0.5) / 3)
    edges = edges[: 1 + np.searchsorted(edges, rate / 2)]
    inside = (frequencies[:, None] >= edges[:-1]) & (frequencies[:, None] < edges[1:])
    return inside.astype(np.float32)


def estoi(clean: Tensor, estimate: Tensor, rate: int) -> Tensor:
    """Return ESTOI, the mean correlation of third-octave envelopes over 384 ms, shape (clips,).

    Envelopes are centred and divided by their norm over the frames of a segment and then over the
    bands, and multiplied (Jensen and Taal, IEEE/ACM TASLP 24, 2016, equations 3 to 7). Unlike in
    ESTOI the sound keeps its rate, and silent frames are removed from the spectra, not from the
    sound; the difference is below .02. The result is 0 if the active frames fill no segment.
    """
    power = _analysed(clean, rate)
    bands = spectra.constant(third_octaves(power.shape[-1], rate), power)
    energy = power.sum(2)
    active = energy > SILENT * energy.amax(1, keepdim=True)
    order = torch.argsort((~active).to(torch.uint8), dim=1, stable=True)
    segment = min(SEGMENT, power.shape[1])
    starts = torch.arange(0, power.shape[1] - segment + 1, STEP, device=power.device)
    counts = (starts + segment <= active.sum(1, keepdim=True)).to(power.dtype)

    ours, theirs = power @ bands, _analysed(estimate, rate) @ bands
    least = 1e-7 * ours.mean(1, keepdim=True) + 1e-12
    # Shape (clips, segments, bands, frames).
    ours, theirs = (
        torch.take_along_dim(torch.sqrt(each + least), order[..., None], 1).unfold(1, segment, STEP)
        for each in (ours, theirs)
    )
    for axis in (3, 2):
        ours, theirs = (each - each.mean(axis, keepdim=True) for each in (ours, theirs))
        size = (ours * ours).sum(axis, keepdim=True) + 1e-9
        other = (theirs * theirs).sum(axis, keepdim=True) + SOFT**2 * size
        ours, theirs = ours / torch.sqrt(size), theirs / torch.sqrt(other)
    each = (ours * theirs).sum((2, 3)) / segment
    return (each * counts).sum(1) / counts.sum(1).clamp(min=1)


def _analysed(sounds: Tensor, rate: int) -> Tensor:
    """Return the power spectra of sounds, shape (clips, frames, bins)."""
    length = round(WINDOW * rate)
    window = spectra.constant(np.hanning(length + 2)[1:-1].astype(np.float32), sounds)
    blocks = spectra.blocks(sounds, length, length // 2)
    return spectra.power(torch.fft.rfft(blocks * window, 2 * length))
