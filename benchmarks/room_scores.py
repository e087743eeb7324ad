"""Scores of rooms: those of other benchmarks, SRMR, and the cepstral distance."""

from __future__ import annotations

from functools import cache

import numpy as np

from alphamf.tools.arrays import Reals
from benchmarks import scored

SCORES = {**scored.SCORES, "SRMR": 2, "cepstral distance dB": 2}
"""Headings, and decimals; less is better for the last one only."""

CHANNELS, LOWEST = 23, 125.0
"""Channels of the gammatone filterbank, and centre of the lowest in Hz."""

MODULATIONS = np.geomspace(4.0, 128.0, 8)
"""Centres of the modulation filters, in Hz."""

QUALITY = 2.0
"""Q of the modulation filters."""

ENVELOPE_RATE = 2000
"""Rate that the envelopes are taken down to, in Hz."""

WINDOW, HOP = 0.256, 0.064
"""Frames over which the energy of the modulations is taken, in seconds."""

LPC_WINDOW, LPC_HOP, LPC_ORDER = 0.03, 0.0075, 16
"""Frames of the cepstral distance in seconds, and order of linear prediction at 16 kHz."""

CEPSTRAL_LIMIT, CEPSTRAL_SHARE = 10.0, 0.95
"""Largest distance of a frame in dB, and share of the frames, the nearest ones, that are averaged.
"""

SILENT = 60.0
"""Frames of the target so many dB below its loudest are left out of the cepstral distance."""


def scores(target: Reals, found: Reals, rate: int) -> list[float]:
    """Return `SCORES` of a processed sound, shape (samples,)."""
    return [
        *scored.scores(target, found, rate),
        srmr(found, rate),
        cepstral_distance(target, found, rate),
    ]


def srmr(sound: Reals, rate: int) -> float:
    r"""Speech-to-reverberation modulation energy ratio, without a reference; more is drier.

    The envelopes of 23 gammatone channels, by the Hilbert transform, go through eight modulation
    filters. With the mean energy :math:`E_k` of modulation band :math:`k`,

    .. math:: \frac{\sum_{k=1}^{4} E_k}{\sum_{k=5}^{K} E_k},

    where :math:`K`, from 5 to 8, is the last band that begins below the bandwidth of the channel
    that, summed from the lowest channel on, reaches 90 % of the energy. This is the form of 2010,
    without the normalisation of later ones. Falk, Zheng and Chan, IEEE TASLP 18 (2010).
    """
    from scipy.fft import next_fast_len
    from scipy.signal import gammatone, hilbert, lfilter, resample_poly

    step = rate // ENVELOPE_RATE
    size, hop = round(WINDOW * rate / step), round(HOP * rate / step)
    samples = max(len(sound), size * step)
    sound = np.pad(np.asarray(sound, float), (0, next_fast_len(samples) - len(sound)))
    centres = _centres(rate)
    energy = np.empty((len(centres), len(MODULATIONS)))
    weights = np.hamming(size) ** 2
    for k, centre in enumerate(centres):
        channel = lfilter(*gammatone(centre, "iir", fs=rate), sound)
        envelope = resample_poly(np.abs(hilbert(channel))[:samples], 1, step)
        for j, filter_ in enumerate(_modulation_filters(rate / step)):
            power = lfilter(*filter_, envelope) ** 2
            frames = np.lib.stride_tricks.sliding_window_view(power, size)[::hop]
            energy[k, j] = np.mean(frames @ weights)
    share = np.cumsum(energy.sum(1)) / energy.sum()
    bandwidth = _erb(centres[np.argmax(share > 0.9)])
    starts = MODULATIONS * (np.sqrt(1 + 1 / (4 * QUALITY**2)) - 1 / (2 * QUALITY))
    last = max(5, int(np.sum(starts < bandwidth)))
    return float(energy[:, :4].sum() / energy[:, 4:last].sum())


def _erb(frequency: Reals) -> Reals:
    """Return the equivalent rectangular bandwidth by Glasberg and Moore, in Hz."""
    return 24.7 + frequency / 9.26449


@cache
def _centres(rate: int) -> Reals:
    """Return centres of channels that are evenly apart in bandwidths, from the lowest on, in Hz."""
    corner = 24.7 * 9.26449
    steps = np.arange(1, CHANNELS + 1)[::-1]
    ratio = np.log((LOWEST + corner) / (rate / 2 + corner)) / CHANNELS
    found: Reals = -corner + np.exp(steps * ratio) * (rate / 2 + corner)
    return found


@cache
def _modulation_filters(rate: float) -> list[tuple[Reals, Reals]]:
    """Return numerator and denominator of second-order band-passes."""
    found = []
    for centre in MODULATIONS:
        warped = np.tan(np.pi * centre / rate)
        width = warped / QUALITY
        numerator = np.array([width, 0.0, -width])
        denominator = np.array([1 + width + warped**2, 2 * warped**2 - 2, 1 - width + warped**2])
        found.append((numerator / denominator[0], denominator / denominator[0]))
    return found


def cepstral_distance(target: Reals, found: Reals, rate: int) -> float:
    r"""Distance of the cepstra of linear prediction, in dB.

    .. math:: \frac{10}{\ln 10} \sqrt{2 \sum_{k=1}^{16} (c_k - \hat c_k)^2},

    at most 10 in a frame, averaged over the 95 % of the frames that are nearest. Hu and
    Loizou, IEEE TASLP 16 (2008), eq. 4.
    """
    frames = [_frames(each, rate) for each in (target, found)]
    level = 10 * np.log10(np.sum(frames[0] ** 2, axis=1) + 1e-30)
    kept = level > level.max() - SILENT
    cepstra = [_cepstra(each[kept]) for each in frames]
    apart = np.sqrt(2 * np.sum((cepstra[0] - cepstra[1]) ** 2, axis=1)) * 10 / np.log(10)
    apart = np.sort(np.minimum(apart, CEPSTRAL_LIMIT))
    return float(np.mean(apart[: max(1, round(CEPSTRAL_SHARE * len(apart)))]))


def _frames(sound: Reals, rate: int) -> Reals:
    size, hop = round(LPC_WINDOW * rate), round(LPC_HOP * rate)
    padded = np.pad(np.asarray(sound, float), (0, max(0, size - len(sound))))
    found: Reals = np.lib.stride_tricks.sliding_window_view(padded, size)[::hop] * np.hanning(size)
    return found


def _cepstra(frames: Reals) -> Reals:
    """Return the cepstra of linear prediction of frames, shape (frames, `LPC_ORDER`)."""
    lags = LPC_ORDER + 1
    size = 2 * frames.shape[1]
    power = np.abs(np.fft.rfft(frames, size, axis=1)) ** 2
    correlation = np.fft.irfft(power, size, axis=1)[:, :lags]
    correlation[:, 0] = correlation[:, 0] * (1 + 1e-9) + 1e-20
    polynomial, error = np.zeros((len(frames), lags)), correlation[:, 0].copy()
    polynomial[:, 0] = 1
    for k in range(1, lags):  # Levinson and Durbin
        residue = np.sum(polynomial[:, :k] * correlation[:, k:0:-1], axis=1)
        reflection = -residue / error
        polynomial[:, : k + 1] += reflection[:, None] * polynomial[:, k::-1]
        error *= 1 - reflection**2
    found = np.zeros((len(frames), lags))
    for k in range(1, lags):
        earlier = sum(j / k * found[:, j] * polynomial[:, k - j] for j in range(1, k))
        found[:, k] = -polynomial[:, k] - earlier
    return found[:, 1:]
