"""The second stage at low latency: ``_second.c`` of the engine explains it."""

from __future__ import annotations

import numpy as np

from alphamf.audio.stft import sqrt_hann
from alphamf.denoising.asymmetric_windows import SILENT, power_share
from tests.support.twin.constants import C
from tests.support.twin.gains import FaintNoise
from tests.support.twin.networks import FrameNetwork

TINY = np.float32(1e-30)


class OnlineSecondStage:
    """Corrects speech frame by frame; `hop` is in samples."""

    def __init__(self, network, rate, hop, channels):
        self._network, self._hop = FrameNetwork(network, channels), hop
        self._bins = network.frame.bins
        self._window = sqrt_hann(2 * hop).astype(np.float32)
        self._power_share = np.float32(power_share(hop))
        self._rest = np.zeros((channels, hop), np.float32)
        self._faint = FaintNoise(channels, hop + 1)
        self._count = min(self._bins, hop + 1)
        self._share = np.ones(self._count, np.float32)
        hertz, top = np.arange(self._count) * rate / (2 * hop), network.rate / 2
        if rate > network.rate:
            self._share[:] = np.interp(hertz, [C.CORRECTION_EDGE * top, top], [1, 0])
        self._in_sibilants = (hertz > C.SIBILANTS).astype(np.float32)
        self._most = np.float32(C.MOST_RISE if top > C.SIBILANTS else np.inf)

    def correct(self, noisy, first, level, together, least):
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
            unit = np.sqrt(
                np.maximum(level * self._power_share, mean / np.float32(C.LOUDEST_FRAME) + TINY)
            )
            of_sound, of_speech = self._coefficients(sound, speech, unit, together)
            if least < 1:  # nothing may be attenuated otherwise
                x, y = sound[:, :count], speech[:, :count]
                change = self._share * (of_sound * x + (of_speech - 1) * y)
                made[:, :count] = self._bounded(y + change, x, y)
        made *= self._faint.gain(power, together)
        if least:
            made = np.where(np.abs(made) < least * np.abs(sound), least * sound, made)
        frame = np.fft.irfft(made, 2 * hop).astype(np.float32) * self._window
        done = (self._rest + frame[:, :hop]).T
        self._rest = frame[:, hop:]
        return done

    def _coefficients(self, sound, speech, unit, together):
        """Return the coefficients of sound and speech, shape (channels, bins of the network)."""
        bins, count = self._bins, self._count
        inputs = (
            np.pad(each[:, :count] / unit, [(0, 0), (0, bins - count)]) for each in (sound, speech)
        )
        found = self._network.coefficients(*inputs)
        of_sound, of_speech = (each[:, :count] for each in found)
        if together.sum() > 1:
            weight = np.abs(sound[together, :count]) ** 2 + TINY
            weight /= weight.sum(axis=0)
            for each in (of_sound, of_speech):
                each[together] = (weight * each[together]).sum(axis=0)
        return of_sound, of_speech

    def _bounded(self, made, sound, speech):
        """Take back what `MOST_RISE` does not allow, and some of the cuts above `SIBILANTS`."""
        loudness, given = np.abs(made), np.abs(speech)
        high = loudness / self._most > given
        made[high] *= self._most * given[high] / loudness[high]
        gain = np.minimum(given / np.sqrt(np.abs(sound) ** 2 + TINY), 1)
        kept = self._in_sibilants * (loudness < given) * gain
        return made + kept * (speech - made)
