"""Short-time Fourier transform with exact reconstruction, in float32 on the CPU.

Asymmetric windows (`windows`) have the frequency resolution of long ones at a short latency:
a frame is analysed by a window as long as the dictionary's, which rises slowly and falls within 20
ms, and only its last 40 ms are used for synthesis.

References
----------
Mauler and Martin, "A low delay, variable resolution, perfect reconstruction spectral
analysis-synthesis system for speech enhancement", EUSIPCO 2007.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from alphamf.errors import AlphaMFError
from alphamf.tools.arrays import Floats, parts

Complexes = NDArray[np.complexfloating[Any, Any]]

TOGETHER = 64
"""Number of frames that are transformed at once."""


class Frame(NamedTuple):
    """Length of a window and distance between windows, in samples.

    Examples
    --------
    >>> Frame(n_fft=512, hop_length=128).bins
    257
    """

    n_fft: int
    hop_length: int

    @property
    def bins(self) -> int:
        """Number of frequency bins of a frame."""
        return self.n_fft // 2 + 1


def sqrt_hann(n_fft: int) -> Floats:
    """Return the periodic sqrt-Hann window; squares at a distance of `n_fft` / 2 sum to one.

    Examples
    --------
    >>> sqrt_hann(4).round(3)
    array([0.   , 0.707, 1.   , 0.707], dtype=float32)
    """
    return np.sin(np.pi * np.arange(n_fft) / n_fft).astype(np.float32)


def frame_count(samples: int, frame: Frame) -> int:
    """Return the number of frames that `forward` computes for a signal.

    Examples
    --------
    >>> frame_count(16000, Frame(512, 128))
    126
    """
    return 1 + -(-samples // frame.hop_length)


def _check(frame: Frame, window: Floats | None) -> Floats:
    if frame.n_fft < 2 or not 1 <= frame.hop_length <= frame.n_fft // 2:
        raise AlphaMFError(
            f"n_fft must be at least 2 and hop_length from 1 to n_fft / 2, not {tuple(frame)}"
        )
    if window is None:
        return sqrt_hann(frame.n_fft)
    if window.shape != (frame.n_fft,):
        raise AlphaMFError(f"the window must have n_fft = {frame.n_fft} samples")
    return window


def forward(audio: Floats, frame: Frame, window: Floats | None = None) -> Complexes:
    """Transform a signal; frame j is centred on sample ``j * hop_length``.

    Parameters
    ----------
    audio
        Signal, shape ``(samples,)``; any length, zero included.
    frame
        Window length and hop; the windows overlap by half or more.
    window
        Analysis window, shape ``(n_fft,)``; sqrt-Hann by default.

    Returns
    -------
    ndarray
        Spectrum, shape ``(n_fft // 2 + 1, frames)``, complex64 for float32 audio.

    Raises
    ------
    AlphaMFError
        ``n_fft`` is below 2, the hop is outside 1 to ``n_fft // 2``, or `window` has another shape.

    Examples
    --------
    >>> import numpy as np
    >>> tone = np.sin(2 * np.pi * 1000 * np.arange(16000) / 16000).astype(np.float32)
    >>> spectrum = forward(tone, Frame(512, 128))
    >>> spectrum.shape, int(abs(spectrum[:, 60]).argmax())  # bins of 31.25 Hz
    ((257, 126), 32)
    """
    window = _check(frame, window)
    frames = frame_count(len(audio), frame)
    left = frame.n_fft // 2
    padded = np.zeros((frames - 1) * frame.hop_length + frame.n_fft, audio.dtype)
    padded[left : left + len(audio)] = audio
    blocks = np.lib.stride_tricks.sliding_window_view(padded, frame.n_fft)[:: frame.hop_length]
    window = window.astype(audio.dtype)
    spectrum = np.empty((frame.bins, frames), np.result_type(audio.dtype, np.complex64))
    for part in parts(frames, TOGETHER):
        spectrum[:, part] = np.fft.rfft(blocks[part] * window, axis=1).T
    return spectrum


def inverse(
    spectrum: Complexes, frame: Frame, samples: int, window: Floats | None = None
) -> Floats:
    """Return the signal of a spectrum; after `forward`, the only error is rounding.

    This is overlap-add with the analysis window, divided by the sum of the squared windows: the
    least-squares inverse (Griffin and Lim, 1984), exact for any window that leaves no gap.

    Parameters
    ----------
    spectrum
        Spectrum, shape ``(n_fft // 2 + 1, frames)``.
    frame, window
        As given to `forward`, with the same AlphaMFErrors.
    samples
        Length of the signal that is returned.

    Examples
    --------
    >>> import numpy as np
    >>> audio = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    >>> frame = Frame(512, 128)
    >>> bool(np.allclose(inverse(forward(audio, frame), frame, 1000), audio, atol=1e-5))
    True
    """
    window = _check(frame, window).astype(spectrum.real.dtype)
    frames = spectrum.shape[1]
    total = (frames - 1) * frame.hop_length + frame.n_fft
    audio: Floats = np.zeros(total, window.dtype)
    weight: Floats = np.zeros(total, window.dtype)
    square = window**2
    for part in parts(frames, TOGETHER):
        blocks = np.fft.irfft(spectrum[:, part].T, n=frame.n_fft, axis=1)
        for j, block in enumerate(blocks.astype(window.dtype, copy=False), part.start):
            place = slice(j * frame.hop_length, j * frame.hop_length + frame.n_fft)
            audio[place] += block * window
            weight[place] += square
    left = frame.n_fft // 2
    return audio[left : left + samples] / weight[left : left + samples]


SYNTHESIS_HOPS = 5
"""Length of the synthesis window, in hops of an eighth of the analysis window: 40 ms of 64."""

FRAME_HOPS = 8

SILENT = 1e-14
"""Mean power of a sample, 140 dB below full scale, below which a hop is digital silence: it is
passed through, and nothing is learned from it."""


def frame_of(frame: Frame) -> Frame:
    """Return the low-latency window and hop in samples for a dictionary's frame."""
    return Frame(frame.n_fft, max(1, round(frame.n_fft / FRAME_HOPS)))


class Windows(NamedTuple):
    """Analysis and synthesis window, shape (n_fft,), and hop; synthesis starts with zeros."""

    analysis: Floats
    synthesis: Floats
    hop: int


def windows(hop: int) -> Windows:
    """Return windows of eight hops whose overlapping products sum to one."""
    length, used = FRAME_HOPS * hop, SYNTHESIS_HOPS * hop
    fall = used // 2
    rise = length - fall
    analysis = np.concatenate(
        [
            np.sin(np.pi / 2 * (np.arange(rise) + 0.5) / rise),
            np.cos(np.pi / 2 * (np.arange(fall) + 0.5) / fall),
        ]
    )
    product = np.zeros(length)
    product[-used:] = np.sin(np.pi * (np.arange(used) + 0.5) / used) ** 2
    product /= np.tile(product.reshape(-1, hop).sum(axis=0), FRAME_HOPS)
    synthesis = product / analysis
    return Windows(analysis.astype(np.float32), synthesis.astype(np.float32), hop)


def power_share(hop: int) -> float:
    """Return a cell's mean power in the second stage's windows divided by that in `windows`."""
    return float(hop / np.sum(windows(hop).analysis.astype(float) ** 2))


def spectra(sound: Floats, hop: int) -> Complexes:
    """Return the spectra of a sound, one at the end of each whole hop, shape (hops, bins).

    The first ones are scaled as if all of their window lay within the sound.
    """
    window = windows(hop).analysis
    padded = np.pad(sound[: len(sound) // hop * hop], (len(window) - hop, 0))
    blocks = sliding_window_view(padded, len(window))[::hop]
    energy = np.cumsum(window[::-1] ** 2)[hop - 1 :: hop]
    filled = np.sqrt(energy / energy[-1])[np.arange(len(blocks)).clip(max=FRAME_HOPS - 1), None]
    return (np.fft.rfft(blocks * window) / filled).astype(np.complex64)
