"""The second stage at low latency: a causal network corrects the speech in windows of 16 ms.

It corresponds to link 5 of the chain of gains (`gain`), frame by frame. Its windows are as long as
two hops, and end where the sound of one more frame of the first stage is missing: some 5 % of the
second hop (`asymmetric_windows.Frames.speech_pair`), so that nothing is held back for longer.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from alphamf.audio.stft import Complexes, sqrt_hann
from alphamf.denoising.asymmetric_windows import SILENT, windows
from alphamf.denoising.faint_noise import FaintNoise
from alphamf.learnt.causal import CausalSecondStage
from alphamf.tools.arrays import Floats

EDGE = 0.95
"""Part of the dictionary's band from which on the correction is faded out, if there is sound above:
7.6 kHz of 8."""

SIBILANTS = 4000.0
"""Frequency in Hz above which the correction takes less, the more the first stage passes: in 16 ms,
without later frames, a loud sibilant looks like noise (docs/quality.md)."""

MOST_RISE = np.float32(1.4)
"""How many times as loud a cell of the speech may become, if the band goes beyond `SIBILANTS`:
otherwise a knock between two sentences would be twice as loud (docs/quality.md)."""

LOUDEST = np.float32(1e6)
"""Mean power of a frame in units of the level, of sound and speech together, at most: what is
louder is its own unit."""

TINY = np.float32(1e-30)


def power_share(hop: int) -> float:
    """Return the mean power of a cell in the second stage's windows over that in the first's."""
    energy = np.sum(windows(hop).analysis.astype(float) ** 2)
    return float(hop / energy)


class OnlineSecondStage:
    """Corrects speech frame by frame.

    `hop`: in samples.
    """

    def __init__(self, network: CausalSecondStage, rate: int, hop: int, channels: int) -> None:
        self._network, self._hop = network, hop
        self._memories = network.memories(channels)
        self._window = sqrt_hann(2 * hop).astype(np.float32)
        self._power_share = np.float32(power_share(hop))
        self._rest = np.zeros((channels, hop), np.float32)
        self._faint = FaintNoise(channels, hop + 1)
        self._count: int = min(network.frame.bins, hop + 1)
        self._share = np.ones(self._count, np.float32)
        hertz, top = np.arange(self._count) * rate / (2 * hop), network.rate / 2
        if rate > network.rate:
            self._share[:] = np.interp(hertz, [EDGE * top, top], [1, 0])
        self._in_sibilants = (hertz > SIBILANTS).astype(np.float32)
        self._most = MOST_RISE if top > SIBILANTS else np.float32(np.inf)

    def correct(
        self,
        noisy: Floats,
        first: Floats,
        level: Floats,
        together: NDArray[np.bool_],
        least: np.float32,
    ) -> Floats:
        """Return the first of two hops, corrected, shape (hop, channels).

        `noisy`, `first`: sound and first-stage speech of the hop that is due and the next one,
        shape (channels, 2 * hop). `level`: of the online chain, shape (channels, 1). `together`:
        which channels share a voice and get one correction, shape (channels,).
        """
        hop, count = self._hop, self._count
        sound, speech = (
            np.fft.rfft(each * self._window).astype(np.complex64) for each in (noisy, first)
        )
        made = speech.copy()
        power = np.abs(sound) ** 2
        mean = (power + np.abs(speech) ** 2).mean(axis=1, keepdims=True)
        if (mean > SILENT * 2 * hop).any():
            unit = np.sqrt(np.maximum(level * self._power_share, mean / LOUDEST + TINY))
            of_sound, of_speech = self._coefficients(sound, speech, unit, together)
            if least < 1:  # nothing may be attenuated otherwise
                x, y = sound[:, :count], speech[:, :count]
                change = self._share * (of_sound * x + (of_speech - 1) * y)
                made[:, :count] = self._bounded(y + change, x, y)
        made *= self._faint.gain(power, together)
        if least:
            made = np.where(np.abs(made) < least * np.abs(sound), least * sound, made)
        frame = np.fft.irfft(made, 2 * hop).astype(np.float32) * self._window
        done: Floats = (self._rest + frame[:, :hop]).T
        self._rest = frame[:, hop:]
        return done

    def _coefficients(
        self, sound: Complexes, speech: Complexes, unit: Floats, together: NDArray[np.bool_]
    ) -> tuple[Floats, Floats]:
        """Return the coefficients of sound and speech, shape (channels, bins of the network)."""
        bins, count = self._network.frame.bins, self._count
        inputs = (
            np.pad(each[:, :count] / unit, [(0, 0), (0, bins - count)]) for each in (sound, speech)
        )
        found = self._network.coefficients(self._memories, *inputs)
        of_sound, of_speech = (each[:, :count] for each in found)
        if together.sum() > 1:
            weight = np.abs(sound[together, :count]) ** 2 + TINY
            weight /= weight.sum(axis=0)
            for each in (of_sound, of_speech):
                each[together] = (weight * each[together]).sum(axis=0)
        return of_sound, of_speech

    def _bounded(self, made: Complexes, sound: Complexes, speech: Complexes) -> Complexes:
        """Take back what `MOST_RISE` does not allow, and some of the cuts above `SIBILANTS`."""
        loudness, given = np.abs(made), np.abs(speech)
        high = loudness / self._most > given
        made[high] *= self._most * given[high] / loudness[high]
        gain = np.minimum(given / np.sqrt(np.abs(sound) ** 2 + TINY), 1)
        kept = self._in_sibilants * (loudness < given) * gain
        bounded: Complexes = made + kept * (speech - made)
        return bounded
