"""Scores of an estimate against the clean reference: SI-SDR, SDR, STOI, PESQ.

Every function takes two signals of equal length, shape ``(samples,)``, and returns one number.
All raise AlphaMFError where the signals differ in length, are empty, hold values that are not
finite, or are silent (constant).
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphamf.errors import AlphaMFError

Floats = NDArray[np.floating[Any]]
Doubles = NDArray[np.float64]

STOI_SECONDS = 0.39
"""30 frames of 12.8 ms after a first of 25.6 ms: no shorter clip has one STOI segment."""

PESQ_SECONDS = 18.0
"""Longest clip for PESQ, whose C code keeps 50 utterances in arrays that it does not check.

An utterance and the pause after it last .39 s or more, so that no clip of this length holds 50.
"""


def si_sdr(reference: Floats, estimate: Floats) -> float:
    r"""Scale-invariant signal-to-distortion ratio in dB; means are removed first.

    .. math:: 10 \log_{10} \frac{\|a s\|^2}{\|\hat s - a s\|^2}, \qquad
       a = \frac{\langle \hat s, s \rangle}{\langle s, s \rangle}.

    Returns
    -------
    float
        Infinite where the estimate is a multiple of the reference.

    References
    ----------
    Le Roux et al., "SDR - half-baked or well done?", ICASSP 2019, eq. 5.
    """
    s, e = _pair(reference, estimate)
    s -= s.mean()
    e -= e.mean()
    target = (e @ s) / (s @ s) * s
    return _decibels(target, e - target)


def sdr(reference: Floats, estimate: Floats, taps: int = 512) -> float:
    r"""Signal-to-distortion ratio in dB of BSS Eval version 3, for one source.

    The estimate is projected on the span of the reference delayed by 0 to taps - 1 samples: any
    filter of that length is forgiven, and nothing else.

    Parameters
    ----------
    reference, estimate
        Clean signal and estimate.
    taps
        Length of the allowed filter.

    Returns
    -------
    float
        Infinite, or limited by rounding (above 200), where the estimate is a filtered reference.

    References
    ----------
    Vincent, Gribonval, Fevotte, IEEE TASLP 14 (2006); Scheibler, "SDR - medium rare with fast
    computations", ICASSP 2022, for the solution by autocorrelations.
    """
    from scipy.fft import irfft, next_fast_len, rfft

    if taps < 1:
        raise AlphaMFError(f"taps must be at least 1, not {taps}")
    s, e = _pair(reference, estimate)
    length = len(s) + taps - 1
    n = next_fast_len(length, real=True)
    spectrum = rfft(s, n)
    autocorrelation = irfft(np.abs(spectrum) ** 2, n)[:taps]
    correlation = irfft(spectrum.conj() * rfft(e, n), n)[:taps]
    response = _solve(autocorrelation, correlation)
    # Filtering, rather than energies from the correlations alone, keeps high ratios accurate.
    target = irfft(spectrum * rfft(response, n), n)[:length]
    return _decibels(target, np.pad(e, (0, taps - 1)) - target)


def stoi(reference: Floats, estimate: Floats, rate: int, extended: bool = False) -> float:
    """Short-time objective intelligibility, about 0 to 1, or its extended form ESTOI.

    Parameters
    ----------
    reference, estimate
        Clean signal and estimate.
    rate
        Sampling rate in Hz.
    extended
        Return ESTOI, which also follows noise that comes and goes.

    Raises
    ------
    AlphaMFError
        The clip holds less than .4 s of speech.

    References
    ----------
    Taal et al., IEEE TASLP 19 (2011); Jensen and Taal, IEEE TASLP 24 (2016); package pystoi.
    """
    import pystoi

    s, e = _pair(reference, estimate)
    short = AlphaMFError(
        f"STOI needs 0.4 s of speech that is not silent, and the clip lasts {len(s) / rate:.2f} s"
    )
    if len(s) < STOI_SECONDS * rate:
        raise short
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Not enough STFT frames", RuntimeWarning)
        try:
            return float(pystoi.stoi(s, e, rate, extended))
        except RuntimeWarning:
            raise short from None


def pesq(reference: Floats, estimate: Floats, rate: int) -> float:
    """PESQ on its listening-quality scale, 1 to 4.6: narrow band at 8 kHz, wide band at 16 kHz.

    Parameters
    ----------
    reference, estimate
        Clean signal and estimate, from .25 s to 18 s.
    rate
        Sampling rate in Hz, 8000 or 16000.

    Raises
    ------
    AlphaMFError
        The rate or the length does not fit, no speech is found, or the package pesq is absent.

    References
    ----------
    ITU-T P.862 (2001), P.862.1 (2003), P.862.2 (2005); package pesq.
    """
    if rate not in (8000, 16000):
        raise AlphaMFError(f"PESQ needs a rate of 8000 or 16000 Hz, not {rate}")
    s, e = _pair(reference, estimate)
    if len(s) > PESQ_SECONDS * rate:
        raise AlphaMFError(
            f"PESQ takes clips of at most {PESQ_SECONDS:.0f} s, not {len(s) / rate:.1f} s"
        )
    try:
        from pesq import PesqError
        from pesq import pesq as measure
    except ImportError as error:
        raise AlphaMFError("PESQ needs the package pesq: pip install 'alphamf[eval]'") from error
    try:
        return float(measure(rate, s, e, "nb" if rate == 8000 else "wb"))
    except PesqError as error:
        reason = error.args[0]
        reason = reason.decode() if isinstance(reason, bytes) else reason
        raise AlphaMFError(f"PESQ cannot score this clip: {reason}") from error


def _pair(reference: Floats, estimate: Floats) -> tuple[Doubles, Doubles]:
    """Check two signals and return float64 copies."""
    shapes = np.shape(reference), np.shape(estimate)
    if len(shapes[0]) != 1 or shapes[0] != shapes[1]:
        raise AlphaMFError(
            "reference and estimate must be of one shape (samples,), "
            f"not {shapes[0]} and {shapes[1]}"
        )
    return _signal(reference, "reference"), _signal(estimate, "estimate")


def _signal(audio: Floats, name: str) -> Doubles:
    signal = np.array(audio, np.float64)
    if not np.isfinite(signal).all():
        raise AlphaMFError(f"the {name} holds values that are not finite")
    if not len(signal) or np.ptp(signal) == 0:
        raise AlphaMFError(f"the {name} is silent")
    return signal


def _solve(autocorrelation: Doubles, correlation: Doubles) -> Doubles:
    """Solve the symmetric Toeplitz system of the best filter."""
    from scipy.linalg import lstsq, toeplitz

    # Levinson's recursion (solve_toeplitz) is faster and returns nonsense, without a word, for a
    # reference in a narrow band without noise; elimination keeps the residual small there too.
    matrix = toeplitz(autocorrelation)
    try:
        return np.linalg.solve(matrix, correlation)
    except np.linalg.LinAlgError:
        response: Doubles = lstsq(matrix, correlation)[0]
        return response


def _decibels(signal: Doubles, error: Doubles) -> float:
    """Ratio of two energies in dB."""
    signal_energy, error_energy = float(signal @ signal), float(error @ error)
    if error_energy == 0:
        return math.inf
    if signal_energy == 0:
        return -math.inf
    return 10 * math.log10(signal_energy / error_energy)
