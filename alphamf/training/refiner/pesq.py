"""PESQ as a differentiable loss.

The steps are those of PESQ for speech that is not delayed, without PESQ's search for bad intervals.
Formulas replace its tables: Zwicker's for the Bark scale, Terhardt's for the threshold of hearing.
In white noise the predicted score is within .15 of PESQ's, as a test checks.

References
----------
ITU-T P.862 (2001), section 10.2; P.862.1 (2003) and P.862.2 (2007) for the mean opinion score and
the filter of wide band; Zwicker and Terhardt, "Analytical expressions for critical-band rate and
critical bandwidth", JASA 68 (1980); Terhardt, "Calculating virtual pitch", Hearing Research 1
(1979), for the threshold. For `rough_disturbance`: Martin-Donas et al., "A deep learning loss
function based on the perceptual evaluation of the speech quality", IEEE SPL 25 (2018); Zwicker and
Fastl, "Psychoacoustics" (1999), for the loudness.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from alphamf.tools.arrays import Floats, Reals
from alphamf.training.refiner import spectra

WINDOW = 0.032
"""Length of a window in seconds; windows overlap by half."""

FIRST, SECOND, WIDER = 0.157, 0.318, 1.0132
"""Lower edge and width of the lowest band in Bark, and ratio of a band's width to the one below."""

LEVEL_BAND, LEVEL = (325.0, 3375.0), 1e7
"""Range of frequencies in Hz in which both sounds get the same mean power, and this power."""

LEAST = 1e-5
"""Power added to that in `LEVEL_BAND`, in units of the sounds, to bound the gradient in silence."""

POWER = 2.16e-4
"""Power of a band 1 Bark wide, relative to the sum of its bins' power in windows of 512 samples."""

SILENT = 1e7
"""Power below which a frame of speech does not count for the frequency response."""

HANDSET = (
    (0, -200), (50, -40), (100, -20), (125, -12), (160, -6), (200, 0), (250, 4), (300, 6), (350, 8),
    (400, 10), (500, 11), (600, 12), (3250, 12), (3500, 4), (4000, -200),
)  # fmt: skip
"""Frequency response of a handset's receiver: frequencies in Hz, and gains in dB."""

WIDE_BAND, WIDE_RATE = (2.740826, 1.9444777, 0.94597794), 16000
"""The high-pass filter of wide band: gain, both coefficients of the denominator, and the sampling
rate in Hz that they are for. Frequencies above half this rate are left out."""

LOUDNESS, LOUDNESS_POWER = 0.187, 0.23
"""Scale factor of the loudness, and Zwicker's exponent."""

MEMORY, GAINS = 0.2, (3e-4, 5.0)
"""Weight of the previous frame's gain in a frame's gain, and the range of these gains, which bring
frames of the estimate to the level of the speech."""

MASKED = 0.25
"""Fraction of the softer of two loudnesses, up to which their difference does not count."""

ASYMMETRY, LEAST_RATIO, LARGEST = 1.2, 3.0, 12.0
"""Exponent of the power ratio of estimate and speech in PESQ's asymmetry factor, the factor below
which it is set to 0, and its largest value."""

WORST = 45.0
"""Maximum disturbance of a frame."""

SYMMETRIC, ASYMMETRIC = 0.1, 0.0309
"""Weights of the symmetric and the asymmetric disturbance in the result."""

NARROW_BAND = 8000
"""Sampling rate in Hz up to which a handset's response and the narrow-band score are used."""

NARROW_OPINION, WIDE_OPINION = (1.4945, 4.6607), (1.3669, 3.8224)
"""Slope and offset of the logistic curve from PESQ to opinion score, in narrow and in wide band."""

BEST_OPINION = 4.64
"""Mean opinion score of the clean speech itself, in wide band."""


class Ear(NamedTuple):
    """Bands of PESQ and their constants, which depend on the sampling rate."""

    inside: Floats  # Factors that convert powers of bins to powers of bands, shape (bins, bands)
    # threshold, exponent, width: power at the threshold of hearing, exponent of the loudness, and
    # width in Bark of each band.
    threshold: Floats
    exponent: Floats
    width: Floats


@cache
def ear(rate: int) -> Ear:
    """Return PESQ's bands, and their constants, at a sampling rate in Hz."""
    length = round(WINDOW * rate)
    hertz = np.arange(length // 2 + 1) * (rate / length)
    edges = FIRST + np.cumsum(np.r_[0, SECOND * WIDER ** np.arange(60)])
    number = np.searchsorted(edges, _bark(hertz), side="right") - 1
    heard = (number >= 0) & (hertz <= WIDE_RATE / 2)
    kept = np.unique(number[heard])
    inside = (number[:, None] == kept) & heard[:, None]
    width, count = np.diff(edges)[kept], inside.sum(axis=0)
    centre, place = ((inside * each[:, None]).sum(axis=0) / count for each in (hertz, _bark(hertz)))
    # A window of half as many samples has a quarter of the power.
    power = POWER * (512 / length) ** 2 / width
    arrays = (
        inside * power,
        hearing_threshold(centre),
        LOUDNESS_POWER * np.clip(6 / (place + 2), 1, 2) ** 0.15,
        width,
    )
    return Ear(*(each.astype(np.float32) for each in arrays))


def hearing_threshold(hertz: Reals) -> Reals:
    """Return the power at the threshold of hearing over that of 20 microPascal (Terhardt)."""
    thousands = hertz / 1000
    level = 3.64 * thousands**-0.8 - 6.5 * np.exp(-0.6 * (thousands - 3.3) ** 2)
    return 10 ** ((level + 1e-3 * thousands**4) / 10)


def _bark(hertz: Reals) -> Reals:
    return 13 * np.arctan(0.00076 * hertz) + 3.5 * np.arctan((hertz / 7500) ** 2)


def opinion(clean: Tensor, estimate: Tensor, rate: int) -> Tensor:
    """Predict the mean opinion score of PESQ, from 1 to 4.64; at most 4.55 in narrow band.

    `clean`, `estimate`: sounds, shape (clips, samples). Returns `Tensor`: shape (clips,).
    """
    slope, place = NARROW_OPINION if rate <= NARROW_BAND else WIDE_OPINION
    score = 4.5 - disturbance(clean, estimate, rate)
    return 0.999 + 4 * torch.sigmoid(slope * score - place)


def disturbance(clean: Tensor, estimate: Tensor, rate: int) -> Tensor:
    """Return 4.5 minus PESQ's raw score, before the mapping to opinion scores, shape (clips,)."""
    inside, threshold, exponent, width = (spectra.constant(each, clean) for each in ear(rate))
    ours, theirs = (_powers(each, inside, rate) for each in (clean, estimate))
    ours = ours * _response(ours, theirs, threshold)
    whole, other = (_audible(each, threshold, 1) + 5e3 for each in (ours, theirs))
    theirs = theirs * _smoothed(whole / other).clamp(*GAINS)[..., None]
    loud, heard = (
        LOUDNESS
        * (2 * threshold) ** exponent
        * ((0.5 + 0.5 * (each / threshold).clamp(min=1)) ** exponent - 1)
        for each in (ours, theirs)
    )
    difference = width * heard_difference(loud, heard)
    symmetric = torch.sqrt(width.sum() * (difference**2).sum(2) + 1e-9)
    asymmetric = (difference.abs() * weight_of_added(ours, theirs)).sum(2)
    # Frames in which the speech is soft count more.
    energy = ((whole + 95e3) / 1e7) ** 0.04
    both = ((each / energy).clamp(max=WORST) for each in (symmetric, asymmetric))
    symmetric, asymmetric = (mean_of_spurts(each) for each in both)
    return SYMMETRIC * symmetric + ASYMMETRIC * asymmetric


def _powers(sounds: Tensor, inside: Tensor, rate: int) -> Tensor:
    """Scale sounds to one level and filter them; return band powers, (clips, frames, bands)."""
    size = 2 * sounds.shape[-1]
    hertz = np.fft.rfftfreq(size, 1 / rate)
    whole = torch.fft.rfft(sounds, size)
    within = ((hertz > LEVEL_BAND[0]) & (hertz < LEVEL_BAND[1])).astype(np.float32)
    power = (spectra.constant(within, whole) * spectra.power(whole)).sum(-1, keepdim=True)
    scale = torch.sqrt(LEVEL / (power / (size / 2) ** 2 + LEAST))
    heard = spectra.constant(_filter(hertz, rate).astype(np.complex64), whole)
    filtered = scale * torch.fft.irfft(whole * heard, size)[..., : sounds.shape[-1]]
    return band_powers(filtered, inside, rate)


def band_powers(sounds: Tensor, inside: Tensor, rate: int) -> Tensor:
    """Return the power of bands in windows of `WINDOW`, shape (clips, frames, bands)."""
    length = round(WINDOW * rate)
    window = torch.hann_window(length, device=sounds.device)
    blocks = spectra.blocks(sounds, length, length // 2)
    return spectra.power(torch.fft.rfft(blocks * window)) @ inside


def heard_difference(loud: Tensor, other: Tensor) -> Tensor:
    """Return how much louder `other` is than `loud` (negative: softer), above the masked part."""
    difference, masked = other - loud, MASKED * torch.minimum(loud, other)
    return difference - torch.clamp(difference, -masked, masked)


def weight_of_added(ours: Tensor, theirs: Tensor) -> Tensor:
    """Return PESQ's asymmetry factor per band: 0 unless the estimate is clearly louder."""
    ratio = ((theirs + 50) / (ours + 50)) ** ASYMMETRY
    return torch.where(ratio < LEAST_RATIO, 0.0, ratio.clamp(max=LARGEST))


def _filter(hertz: Reals, rate: int) -> Reals:
    """Return the frequency response of the handset, or of PESQ's filter for wide-band sound."""
    if rate <= NARROW_BAND:
        places, decibels = np.transpose(HANDSET)
        return 10 ** ((np.interp(hertz, places, decibels) - decibels.max()) / 20)
    before, (gain, once, twice) = np.exp(-2j * np.pi * hertz / WIDE_RATE), WIDE_BAND
    return gain * (1 - before) ** 2 / (1 - once * before + twice * before**2)


def _audible(power: Tensor, threshold: Tensor, times: float) -> Tensor:
    """Return the total power of the bands whose power exceeds `times` times the threshold."""
    return (power * (power > times * threshold)).sum(2)


def _response(ours: Tensor, theirs: Tensor, threshold: Tensor) -> Tensor:
    """Return `theirs` over `ours` per band in speech frames, a ratio PESQ does not penalize."""
    speech = (_audible(ours, threshold, 100) > SILENT)[..., None]
    means = (
        (each * (speech & (each > 100 * threshold))).mean(1, keepdim=True) + 1e3
        for each in (theirs, ours)
    )
    estimate, clean = means
    return (estimate / clean).clamp(0.01, 100)


def _smoothed(gain: Tensor) -> Tensor:
    """Return the mean gain of the five frames up to each one, weighted by powers of `MEMORY`."""
    steps = 5
    padded = functional.pad(gain, (steps - 1, 0), mode="replicate")
    weights = (1 - MEMORY) * MEMORY ** torch.arange(steps - 1, -1, -1.0, device=gain.device)
    return padded.unfold(1, steps, 1) @ weights


def mean_of_spurts(frames: Tensor) -> Tensor:
    """Return the root mean square of sixth-power means over 20 frames: short peaks count more."""
    several = min(20, frames.shape[1])
    spurts = (frames.unfold(1, several, max(1, several // 2)) + 1e-6) ** 6
    return torch.sqrt((spurts.mean(2) ** (1 / 3)).mean(1))


BARK = 0.5
"""Width of a band of `rough_disturbance` in Bark."""

SPEECH_DB = 70.0
"""Level to which both sounds are scaled, in dB above the threshold's reference (20 microPascal)."""

LOUD = 0.1
"""Power, relative to the mean, above which a frame of speech counts for the frequency response."""

ROUGH_ASYMMETRIC = 0.309
"""Weight of the asymmetric disturbance relative to the symmetric one, as in PESQ."""


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


def rough_disturbance(clean: Tensor, estimate: Tensor, rate: int) -> Tensor:
    """Measure how much worse an estimate sounds than the clean speech.

    `clean`, `estimate`: sounds, shape (clips, samples). Returns `Tensor`: shape (clips,), at least
    0, and about 1 in the middle of PESQ's scale.
    """
    length = round(WINDOW * rate)
    inside, threshold = (spectra.constant(each, clean) for each in bands(length // 2 + 1, rate))
    ours, theirs = (band_powers(each, inside, rate) for each in (clean, estimate))
    least = 1e-4 * ours.mean((1, 2), keepdim=True) + 1e-12
    ours, theirs = (_at_speech_level(each, least) for each in (ours, theirs))
    ours = ours * _linear_response(ours, theirs)
    loud, other = (_loudness(each, threshold) for each in (ours, theirs))
    heard, added = heard_difference(loud, other), weight_of_added(ours, theirs)
    # As in PESQ, frames in which the speech is soft count more.
    energy = (ours.sum(2) + 1e5) / 1e7
    symmetric = (torch.sqrt((heard**2).mean(2) + 1e-6) / energy**0.04).clamp(max=WORST)
    asymmetric = ((heard.abs() * added).mean(2) / energy**0.04).clamp(max=WORST)
    return 0.1 * (mean_of_spurts(symmetric) + ROUGH_ASYMMETRIC * mean_of_spurts(asymmetric))


def _at_speech_level(power: Tensor, least: Tensor) -> Tensor:
    """Scale band powers to a mean level of `SPEECH_DB`; a nearly silent sound stays below it."""
    level = power.sum(2, keepdim=True).mean(1, keepdim=True)
    return power * (10 ** (SPEECH_DB / 10) / (level + least))


def _linear_response(ours: Tensor, theirs: Tensor) -> Tensor:
    """Return `theirs` over `ours` per band in loud frames, a ratio that the loss ignores."""
    whole = ours.sum(2, keepdim=True)
    loud = (whole > LOUD * whole.mean(1, keepdim=True)).to(ours.dtype)
    means = [(loud * each).mean(1, keepdim=True) + 1e3 for each in (ours, theirs)]
    return (means[1] / means[0]).clamp(0.01, 100)


def _loudness(power: Tensor, threshold: Tensor) -> Tensor:
    """Return Zwicker's loudness of bands; 0 below the threshold of hearing."""
    ratio = torch.clamp(power / threshold, min=1.0)
    scale = (threshold / 0.5) ** LOUDNESS_POWER
    return scale * ((0.5 + 0.5 * ratio) ** LOUDNESS_POWER - 1)
