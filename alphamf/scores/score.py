"""Scores of an estimate against the clean reference: SI-SDR, SDR, SIR, SAR, STOI, PESQ.

Every function takes signals of equal length, shape ``(samples,)``, and returns one number;
`bss_eval` returns three. All raise AlphaMFError where the signals differ in length, are empty, hold
values that are not finite, or are silent (constant).
"""

import warnings

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.scores.bss_eval import BSSEval, bss_eval, energy_ratio_db, sdr, signals
from alphamf.tools.arrays import Reals
from alphamf.tools.extras import install_extra

__all__ = ["BSSEval", "bss_eval", "pesq", "sdr", "si_sdr", "stoi"]

STOI_SECONDS = 0.39
"""Length of a STOI segment in s, rounded down: 30 frames of 25.6 ms, one every 12.8 ms."""

PESQ_SECONDS = 18.0
"""Longest clip for PESQ in s; its C code has room for 50 utterances and does not check this.

An utterance and the pause after it last at least .39 s, so that a clip of this length has fewer.
"""


def si_sdr(reference: Reals, estimate: Reals) -> float:
    r"""Return the scale-invariant signal-to-distortion ratio in dB; means are removed first.

    .. math:: 10 \log_{10} \frac{\|a s\|^2}{\|\hat s - a s\|^2}, \qquad
       a = \frac{\langle \hat s, s \rangle}{\langle s, s \rangle}.

    Returns
    -------
    float
        The ratio for reference s and estimate :math:`\hat s`; infinite if this is a multiple of s.

    References
    ----------
    Le Roux et al., "SDR - half-baked or well done?", ICASSP 2019, eq. 5.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> clean, noise = rng.standard_normal((2, 16000))
    >>> round(si_sdr(clean, clean + 0.1 * noise))
    20
    """
    s, e = signals(reference=reference, estimate=estimate)
    for signal in (s, e):
        signal /= np.abs(signal).max()  # squares of faint samples would vanish
        signal -= signal.mean()
    target = (e @ s) / (s @ s) * s
    return energy_ratio_db(target, e - target)


def stoi(reference: Reals, estimate: Reals, rate: int, extended: bool = False) -> float:
    """Return the short-time objective intelligibility, about 0 to 1, or its extended form ESTOI.

    Parameters
    ----------
    reference, estimate
        Clean signal and estimate.
    rate
        Sampling rate in Hz.
    extended
        Whether to return ESTOI, which also suits noise whose level fluctuates.

    Raises
    ------
    AlphaMFError
        The signals hold less than .4 s of speech, differ in length, are silent or not finite.

    References
    ----------
    Taal et al., IEEE TASLP 19 (2011); Jensen and Taal, IEEE TASLP 24 (2016); package pystoi.

    Examples
    --------
    >>> import soundfile
    >>> clean, rate = soundfile.read("data/sample-clean.wav")
    >>> noisy, rate = soundfile.read("data/sample-noisy.wav")
    >>> round(stoi(clean, clean, rate), 2), 0.5 < stoi(clean, noisy, rate) < 1
    (1.0, True)
    """
    import pystoi

    s, e = signals(reference=reference, estimate=estimate)
    short = AlphaMFError(
        f"STOI needs 0.4 s of speech that is not silent, but the clip lasts {len(s) / rate:.2f} s"
    )
    if len(s) < STOI_SECONDS * rate:
        raise short
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Not enough STFT frames", RuntimeWarning)
        try:
            return float(pystoi.stoi(s, e, rate, extended))
        except RuntimeWarning:
            raise short from None


def pesq(reference: Reals, estimate: Reals, rate: int) -> float:
    """Return PESQ as listening quality, 1 to 4.6: narrow band at 8 kHz, wide band at 16 kHz.

    Parameters
    ----------
    reference, estimate
        Clean signal and estimate, from .25 s to 18 s.
    rate
        Sampling rate in Hz, 8000 or 16000.

    Raises
    ------
    AlphaMFError
        The rate or a signal does not fit, no speech is found, or the package pesq is absent.

    References
    ----------
    ITU-T P.862 (2001), P.862.1 (2003), P.862.2 (2005); package pesq.

    Examples
    --------
    >>> import numpy as np
    >>> pesq(np.ones(44100), np.ones(44100), 44100)
    Traceback (most recent call last):
    alphamf.errors.AlphaMFError: PESQ needs a rate of 8000 or 16000 Hz, not 44100
    """
    if rate not in (8000, 16000):
        raise AlphaMFError(f"PESQ needs a rate of 8000 or 16000 Hz, not {rate}")
    s, e = signals(reference=reference, estimate=estimate)
    if len(s) > PESQ_SECONDS * rate:
        raise AlphaMFError(
            f"PESQ supports clips of at most {PESQ_SECONDS:.0f} s, not {len(s) / rate:.1f} s"
        )
    try:
        from pesq import PesqError
        from pesq import pesq as measure
    except ImportError as error:
        raise AlphaMFError(
            f"PESQ needs the package pesq; install it with {install_extra('eval')}"
        ) from error
    try:
        return float(measure(rate, s, e, "nb" if rate == 8000 else "wb"))
    except PesqError as error:
        reason = error.args[0]
        reason = reason.decode() if isinstance(reason, bytes) else reason
        raise AlphaMFError(f"PESQ cannot score this clip: {reason}") from error
