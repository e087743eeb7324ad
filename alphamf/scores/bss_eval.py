r"""SDR, SIR and SAR of BSS Eval version 3, and checks of signals for all scores.

An estimate e of a source s in the noise n is projected (P) on the span S of s delayed by
0 to taps - 1 samples, and on the span SN of s and n delayed alike. That splits it into

.. math:: e = \underbrace{P_S e}_{\text{target}}
   + \underbrace{P_{SN} e - P_S e}_{\text{interference}}
   + \underbrace{e - P_{SN} e}_{\text{artefacts}},

whose energies, in dB, make the ratios: SDR is the target against the rest, SIR the target against
the interference, SAR the first two against the artefacts.

References
----------
Vincent, Gribonval, Fevotte, IEEE TASLP 14 (2006), section III, whose version 3 of the toolbox
allows filters; Scheibler, "SDR - medium rare with fast computations", ICASSP 2022, for the solution
by correlations.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphamf.errors import AlphaMFError
from alphamf.tools.arrays import Reals

Doubles = NDArray[np.float64]


class BSSEval(NamedTuple):
    """The three ratios of BSS Eval in dB.

    Examples
    --------
    >>> BSSEval(sdr=10.2, sir=15.0, sar=12.1).sir
    15.0
    """

    # sdr, sir, sar: signal to distortion, to interference, and to artefacts.
    sdr: float
    sir: float
    sar: float


def bss_eval(reference: Reals, noise: Reals, estimate: Reals, taps: int = 512) -> BSSEval:
    """Score an estimate of one source, given the source and the noise in the mixture.

    `reference`, `noise`, `estimate`: clean signal, true noise (noisy minus clean) and estimate,
    shape (samples,). `taps`: length in samples (1 or more) of filters that do not count as errors.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> clean, noise = rng.standard_normal((2, 16000))
    >>> found = bss_eval(clean, noise, clean + 0.1 * noise)
    >>> round(found.sir), found.sar > 100  # what is left is noise, not artefacts
    (20, True)
    """
    s, n, e = signals(reference=reference, noise=noise, estimate=estimate)
    target, both = _projections(np.stack([s, n]), e, taps)
    padded = np.pad(e, (0, taps - 1))
    return BSSEval(
        sdr=energy_ratio_db(target, padded - target),
        sir=energy_ratio_db(target, both - target),
        sar=energy_ratio_db(both, padded - both),
    )


def sdr(reference: Reals, estimate: Reals, taps: int = 512) -> float:
    """Return the signal-to-distortion ratio in dB, as in `bss_eval`; the noise is not needed.

    Only the effect of a filter of `taps` samples does not count as an error.

    `reference`, `estimate`: clean signal and estimate, shape (samples,).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> clean, noise = rng.standard_normal((2, 16000))
    >>> filtered = np.convolve(clean, [1.0, 0.5])[:16000]  # is forgiven
    >>> round(sdr(clean, filtered + 0.1 * noise))
    21
    """
    s, e = signals(reference=reference, estimate=estimate)
    (target,) = _projections(s[None], e, taps)
    return energy_ratio_db(target, np.pad(e, (0, taps - 1)) - target)


def signals(**audio: Reals) -> list[Doubles]:
    """Return float64 copies of signals; raise an AlphaMFError if shapes differ or one is unfit."""
    shapes = [np.shape(signal) for signal in audio.values()]
    if len(shapes[0]) != 1 or len(set(shapes)) > 1:
        raise AlphaMFError(
            f"{_listed(audio)} must have the same shape (samples,), not {_listed(map(str, shapes))}"
        )
    return [_signal(signal, name) for name, signal in audio.items()]


def _listed(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}"


def _signal(audio: Reals, name: str) -> Doubles:
    signal = np.array(audio, np.float64)
    if not np.isfinite(signal).all():
        raise AlphaMFError(f"the {name} contains values that are not finite")
    if not len(signal) or np.ptp(signal) == 0:
        raise AlphaMFError(f"the {name} is silent")
    return signal


def energy_ratio_db(signal: Doubles, error: Doubles) -> float:
    """Return the ratio of two energies in dB: inf if `error` is zero, -inf if only `signal` is."""
    signal_energy, error_energy = float(signal @ signal), float(error @ error)
    if error_energy == 0:
        return math.inf
    if signal_energy == 0:
        return -math.inf
    return 10 * math.log10(signal_energy / error_energy)


def _projections(sources: Doubles, estimate: Doubles, taps: int) -> list[Doubles]:
    """Return the projections of `estimate` on the delays of the first source, first two, and so on.

    `sources`: shape (sources, samples). `estimate`: (samples,). Projections: (samples + taps - 1,).
    """
    from scipy.fft import irfft, next_fast_len, rfft

    if taps < 1:
        raise AlphaMFError(f"taps must be at least 1, not {taps}")
    length = sources.shape[1] + taps - 1
    n = next_fast_len(length, real=True)
    # Normalised, so that the equations of a faint source do not suffer from rounding.
    spectra = rfft(sources / np.linalg.norm(sources, axis=1, keepdims=True), n)
    correlations = irfft(spectra.conj() * rfft(estimate, n), n)[:, :taps].ravel()
    gram = np.block(
        [[_delays(irfft(row.conj() * column, n), taps) for column in spectra] for row in spectra]
    )
    projections = []
    for count in range(1, len(sources) + 1):
        size = count * taps
        response = _solve(gram[:size, :size], correlations[:size]).reshape(count, taps)
        # Filtering, rather than energies from the correlations alone, keeps high ratios accurate.
        filtered = (spectra[:count] * rfft(response, n)).sum(axis=0)
        projections.append(irfft(filtered, n)[:length])
    return projections


def _delays(correlation: Doubles, taps: int) -> Doubles:
    """Return inner products of a signal's delays (rows) and another's, from their correlation."""
    from scipy.linalg import toeplitz

    return toeplitz(correlation[:taps], np.append(correlation[0], correlation[:-taps:-1]))


def _solve(gram: Doubles, correlations: Doubles) -> Doubles:
    """Return the solution of the normal equations of the best filters."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve, lstsq

    # Levinson's recursion (solve_toeplitz) silently fails for a narrow-band reference.
    try:
        response: Doubles = cho_solve(cho_factor(gram), correlations)
    except LinAlgError:
        # Numerically singular: least squares is closer to the true projection than elimination.
        response = lstsq(gram, correlations, lapack_driver="gelsy")[0]
    return response
