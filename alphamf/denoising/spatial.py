r"""Channels that share a voice: one estimate of the speech, so that the voice keeps its position.

Gains of each channel alone make a voice move: if the noise of one channel is louder, the voice is
attenuated more there. Here a cell's channels :math:`x` are one vector, a
Gaussian of the covariance :math:`v R + N`. The voice has one variance v in each cell, and in each
bin a matrix R for some seconds, of any rank, which holds levels, delays and reverberation; the
noise N has a variance for each channel and cell, and one coherence in each bin. The speech is
:math:`v R (v R + N)^{-1} x`, Wiener's estimate, with the variances that the gains of the channels
stand for.

References
----------
Duong, Vincent and Gribonval, "Under-determined reverberant audio source separation using a
full-rank spatial covariance model", IEEE TASLP 18 (2010); Nugraha, Liutkus and Vincent,
"Multichannel audio source separation with deep neural networks", IEEE/ACM TASLP 24 (2016), for
matrices estimated with variances from a network.
"""

from collections.abc import Sequence

import numpy as np

from alphamf.audio.stft import Complexes
from alphamf.tools.arrays import Floats, parts

SHARED = 0.7
"""Minimum coherence of the speech of two channels that share a voice: one voice in both has above
.83 at 0 dB, two voices 15 dB softer in the other's channel have .60 at most (docs/quality.md)."""

BLOCK = 32
"""Number of frames over which coherence is measured, half a second."""

TURN = 64
"""Number of frames, one second, in which the voice has one place: voices move, and take turns."""

WHOLE = np.float32(0.04)
"""Weight of all frames in the voice's covariance R, for bins without speech for a long time."""

ROUNDS = 2
"""Number of estimates of the covariances: first from the channels' gains, then from the speech."""

APART = 0.02
"""Fraction of the noise taken as incoherent between channels, so that its matrix has an inverse."""

LOADING = np.float32(1e-4)
"""Added to the diagonal of the covariance, in units of the diagonal's mean."""

BINS = 64
"""Number of bins that are processed at a time, which limits the memory."""

TINY = np.float32(1e-30)


def sharing_groups(spectra: Sequence[Complexes], gains: Sequence[Floats]) -> list[list[int]]:
    """Return the groups of channels that share a voice, in order; a single channel is a group, too.

    `spectra`, `gains`: spectrum and gain of each channel, shape (bins, frames).
    """
    groups: list[list[int]] = []
    for channel in range(len(spectra)):
        for group in groups:
            first = group[0]
            pair = (spectra[first], spectra[channel]), (gains[first], gains[channel])
            if coherence(*pair) >= SHARED:
                group.append(channel)
                break
        else:
            groups.append([channel])
    return groups


def coherence(spectra: Sequence[Complexes], gains: Sequence[Floats]) -> float:
    """Return the coherence of the speech of two channels, from 0 to 1.

    `spectra`, `gains`: spectra and gains of both channels, shape (bins, frames).
    """
    sums = [
        _sums(np.stack([each[part] for each in spectra]), np.stack([each[part] for each in gains]))
        for part in parts(len(spectra[0]), BINS)
    ]
    cross, most = (np.concatenate(each).sum() for each in zip(*sums, strict=True))
    return float(cross / most) if most > 0 else 0.0


def _sums(spectra: Complexes, gains: Floats) -> tuple[Floats, Floats]:
    """Return the magnitude of the cross spectrum and its upper bound, shape (bins, blocks)."""
    power = _power(spectra)
    weight = _common(power, gains)
    starts = np.arange(0, spectra.shape[2], BLOCK)

    def summed(values: Floats) -> Floats:
        return np.add.reduceat(weight * values, starts, axis=-1)

    cross: Floats = np.abs(summed(spectra[0] * spectra[1].conj()))
    return cross, np.sqrt(summed(power[0]) * summed(power[1]))


def speech(spectra: Complexes, gains: Floats) -> Complexes:
    """Estimate the spectra of the speech in channels that share a voice.

    `spectra`, `gains`: shape (channels, bins, frames).
    """
    found: Complexes = np.empty_like(spectra)
    for bins in parts(spectra.shape[1], BINS):
        found[:, bins] = _speech(spectra[:, bins], gains[:, bins])
    return found


def power_shares(spectra: Sequence[Complexes]) -> list[Floats]:
    """Return each channel's fraction of the power in every cell.

    `spectra`: spectrum of each channel, shape (bins, frames).
    """
    powers = [_power(each) for each in spectra]
    total = sum(powers) + TINY
    return [power / total for power in powers]


def _speech(spectra: Complexes, gains: Floats) -> Complexes:
    power = _power(spectra)
    gains = gains.astype(power.dtype)
    voice = (gains * power).sum(axis=0)
    noise = np.maximum(1 - gains, 0) * power
    common = _common(power, gains)
    estimate = spectra * common
    rest = spectra * np.sqrt(np.maximum(1 - common, 0))
    for _ in range(ROUNDS):
        covariance = voice * _place(estimate)
        total = covariance + _noise(rest, noise)
        loading = LOADING / np.float32(len(total)) * _trace(total) + TINY
        for c in range(len(total)):
            total[c, c] += loading
        solution = _solved(total, spectra)
        found: Complexes = np.stack([(row * solution).sum(axis=0) for row in covariance])
        estimate = found * np.sqrt(common)
        rest = spectra - found
    return found


def _place(estimate: Complexes) -> Complexes:
    """Return the spatial covariance R with trace one: (channels, channels, bins, frames).

    It is estimated from three blocks of `TURN` frames, the middle one with twice the weight, and
    with a small weight from all frames.

    `estimate`: spectra of the speech, shape (channels, bins, frames).
    """
    starts = range(0, estimate.shape[-1], TURN)
    parts = [_covariance(estimate[..., start : start + TURN]) for start in starts]
    sums = np.stack(parts, axis=-1)
    near = 2 * sums
    near[..., 1:] += sums[..., :-1]
    near[..., :-1] += sums[..., 1:]
    near += WHOLE * sums.sum(axis=-1, keepdims=True)
    near /= _trace(near) + TINY
    return np.repeat(near, TURN, axis=-1)[..., : estimate.shape[-1]]


def _noise(rest: Complexes, variance: Floats) -> Complexes:
    """Return the noise's covariance, shape (channels, channels, bins, frames).

    `rest`: spectra whose coherence is that of the noise, shape (channels, bins, frames).
    `variance`: variance of the noise in each channel, of the same shape.
    """
    matrix = _covariance(rest)
    scale = np.sqrt(np.stack([matrix[c, c].real for c in range(len(matrix))]) + TINY)
    matrix *= (1 - APART) / (scale[:, None] * scale)
    for c in range(len(matrix)):
        matrix[c, c] += APART
    deviation = np.sqrt(variance)
    return matrix[..., None] * (deviation[:, None] * deviation)


def _power(spectra: Complexes) -> Floats:
    return np.square(spectra.real) + np.square(spectra.imag)


def _common(power: Floats, values: Floats) -> Floats:
    total, weighted = power.sum(axis=0) + TINY, (values * power).sum(axis=0) + TINY
    return np.minimum(weighted / total, values.max(axis=0))


def _covariance(spectra: Complexes) -> Complexes:
    """Return the covariance summed over frames, shape (channels, channels, bins)."""
    rows = [[(a * b.conj()).sum(axis=-1) for b in spectra] for a in spectra]
    return np.array(rows)


def _trace(matrix: Complexes) -> Floats:
    return np.trace(matrix).real


def _solved(matrix: Complexes, values: Complexes) -> Complexes:
    """Solve a positive definite system in every cell by elimination; overwrite `matrix`.

    `matrix`: shape (channels, channels, bins, frames). `values`: shape (channels, bins, frames).
    """
    size = len(matrix)
    solution = list(values)
    for k in range(size):
        for row in range(k + 1, size):
            factor = matrix[row, k] / matrix[k, k]
            matrix[row, k:] -= factor * matrix[k, k:]
            solution[row] = solution[row] - factor * solution[k]
    for k in reversed(range(size)):
        for other in range(k + 1, size):
            solution[k] = solution[k] - matrix[k, other] * solution[other]
        solution[k] = solution[k] / matrix[k, k]
    return np.stack(solution)
