"""Sound to frames and back: ``engine.c`` explains it."""

from __future__ import annotations

import numpy as np

from alphamf.denoising.asymmetric_windows import FRAME_HOPS, SYNTHESIS_HOPS, windows


class Frames:
    """Splits sound into frames of eight hops and joins frames by overlap-add.

    `noisy_pair`, `speech_pair`: sound and speech of the hop that was synthesised last and of the
    next one, shape (channels, 2 * hop).
    """

    def __init__(self, hop, channels):
        self.windows = windows(hop)
        self.latency = SYNTHESIS_HOPS * hop
        length = len(self.windows.analysis)
        self._past, self._sum = (np.zeros((channels, length), np.float32) for _ in range(2))
        energy = np.cumsum(self.windows.analysis[::-1] ** 2)[hop - 1 :: hop]
        self._filled = energy / energy[-1]
        self._count = 0
        self.noisy_pair = self.speech_pair = None
        place = length - self.latency
        missing = self.windows.analysis * self.windows.synthesis
        self._unit = np.ones(2 * hop, np.float32)
        self._unit[hop:] /= 1 - missing[place : place + hop]

    def analyse(self, block):
        """Analyse one hop, shape (hop, channels); return the spectrum, shape (channels, bins)."""
        hop = self.windows.hop
        self._past[:, :-hop] = self._past[:, hop:]
        self._past[:, -hop:] = block.T
        self._count += 1
        return np.fft.rfft(self._past * self.windows.analysis, axis=1).astype(np.complex64)

    @property
    def filled_fraction(self):
        """Fraction of the last window's energy that lies within the recording."""
        return float(self._filled[min(self._count, FRAME_HOPS) - 1])

    def synthesise(self, spectrum):
        """Add the newest frame; return the oldest hop, (hop, channels), or nothing at first."""
        hop, length = self.windows.hop, len(self.windows.analysis)
        frame = np.fft.irfft(spectrum, n=length, axis=1).astype(np.float32)
        self._sum += frame * self.windows.synthesis
        place = length - self.latency
        done = self._sum[:, place : place + hop].T.copy()
        self.noisy_pair = self._past[:, place : place + 2 * hop]
        self.speech_pair = self._sum[:, place : place + 2 * hop] * self._unit
        self._sum[:, :-hop] = self._sum[:, hop:]
        self._sum[:, -hop:] = 0
        return done if self._count >= SYNTHESIS_HOPS else done[:0]

    def forget_speech(self):
        """Forget the frames that were added."""
        self._sum[:] = 0

    @property
    def reaches_sound(self):
        """Whether the pair of hops reaches into the recording."""
        return self._count >= SYNTHESIS_HOPS - 1
