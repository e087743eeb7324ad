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


class Frames:
    """Splits sound into frames and joins frames by overlap-add.

    `hop`: in samples. `noisy_pair`, `speech_pair`: sound and speech of the hop that was synthesised
    last and of the next one, shape (channels, 2 * hop).
    """

    def __init__(self, hop: int, channels: int) -> None:
        self.windows: Windows = windows(hop)
        self.latency: int = SYNTHESIS_HOPS * hop
        length = len(self.windows.analysis)
        self._past = np.zeros((channels, length), np.float32)
        self._sum = np.zeros((channels, length), np.float32)
        energy = np.cumsum(self.windows.analysis[::-1] ** 2)[hop - 1 :: hop]
        self._filled = energy / energy[-1]
        self._count = 0
        self.noisy_pair: Floats = np.zeros((channels, 2 * hop), np.float32)
        self.speech_pair: Floats = np.zeros((channels, 2 * hop), np.float32)
        place = length - self.latency
        missing = self.windows.analysis * self.windows.synthesis
        self._unit: Floats = np.ones(2 * hop, np.float32)
        self._unit[hop:] /= 1 - missing[place : place + hop]

    def analyse(self, block: Floats) -> Complexes:
        """Analyse one hop, shape (hop, channels); return the spectrum, shape (channels, bins)."""
        hop = self.windows.hop
        self._past[:, :-hop] = self._past[:, hop:]
        self._past[:, -hop:] = block.T
        self._count += 1
        spectrum: Complexes = np.fft.rfft(self._past * self.windows.analysis, axis=1)
        return spectrum.astype(np.complex64, copy=False)

    @property
    def filled_fraction(self) -> float:
        """Fraction of the last window's energy that lies within the recording."""
        return float(self._filled[min(self._count, FRAME_HOPS) - 1])

    def synthesise(self, spectrum: Complexes) -> Floats:
        """Add the frame that was analysed last; return the completed hop, or nothing at first.

        Returns: shape (hop, channels): the oldest sound that was not returned yet.
        """
        hop, length = self.windows.hop, len(self.windows.analysis)
        frame = np.fft.irfft(spectrum, n=length, axis=1)
        self._sum += frame.astype(np.float32, copy=False) * self.windows.synthesis
        place = length - self.latency
        done = self._sum[:, place : place + hop].T.copy()
        self.noisy_pair = self._past[:, place : place + 2 * hop]
        self.speech_pair = self._sum[:, place : place + 2 * hop] * self._unit
        self._sum[:, :-hop] = self._sum[:, hop:]
        self._sum[:, -hop:] = 0
        return done if self._count >= SYNTHESIS_HOPS else done[:0]

    def forget_speech(self) -> None:
        """Forget the frames that were added: beside enormous samples they have errors of 1e5."""
        self._sum[:] = 0

    @property
    def reaches_sound(self) -> bool:
        """Whether the pair of hops reaches into the recording."""
        return self._count >= SYNTHESIS_HOPS - 1
