"""Short-time Fourier transform with exact reconstruction, in float32 on the CPU."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
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
    """Return the periodic sqrt-Hann window; the overlapping squares sum to a constant.

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
        Shape ``(n_fft // 2 + 1, frames)``, complex64 for float32 audio.

    Raises
    ------
    AlphaMFError
        The windows overlap by less than half, or `window` has another length.

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
    """Invert `forward`; for an unchanged spectrum, the only error is rounding.

    Overlap-add with the analysis window, divided by the sum of the squared windows: the
    least-squares inverse (Griffin and Lim, 1984), exact for any window that leaves no gap.

    Parameters
    ----------
    spectrum
        Shape ``(n_fft // 2 + 1, frames)``.
    frame, window
        As given to `forward`.
    samples
        Length of the signal.

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
