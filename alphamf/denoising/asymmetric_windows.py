"""Asymmetric windows: the frequency resolution of long windows at a short latency.

A frame is analysed by a window as long as the dictionary's, which rises slowly and falls within
20 ms; only its last 40 ms are used for synthesis. A sample is therefore held back for 40 ms.

References
----------
Mauler and Martin, "A low delay, variable resolution, perfect reconstruction spectral
analysis-synthesis system for speech enhancement", EUSIPCO 2007.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from alphamf.audio.stft import Complexes, Frame
from alphamf.tools.arrays import Floats

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
    """Return the mean power of a cell in the second stage's windows over that in these."""
    return float(hop / np.sum(windows(hop).analysis.astype(float) ** 2))


def spectra(sound: Floats, hop: int) -> Complexes:
    """Return the spectra of the whole hops of a sound, shape (frames, bins).

    Each is as loud as if all of its window lay within the sound.
    """
    window = windows(hop).analysis
    padded = np.pad(sound[: len(sound) // hop * hop], (len(window) - hop, 0))
    blocks = sliding_window_view(padded, len(window))[::hop]
    energy = np.cumsum(window[::-1] ** 2)[hop - 1 :: hop]
    filled = np.sqrt(energy / energy[-1])[np.arange(len(blocks)).clip(max=FRAME_HOPS - 1), None]
    found: Complexes = (np.fft.rfft(blocks * window) / filled).astype(np.complex64)
    return found
