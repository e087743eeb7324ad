"""Gains around the networks: bands above, linked channels, activity, faint noise, second stage."""

import numpy as np

from alphamf.audio.stft import SILENT, power_share, sqrt_hann
from alphamf.denoising import gain
from alphamf.denoising.gain import floor_gain, mean_around
from alphamf.denoising.grids import BAND_TOP
from alphamf.denoising.high_bands import high_pooling, low_pooling, spread_band_gains
from alphamf.denoising.spatial import SHARED
from alphamf.denoising.uncertainty import BAND, LEVEL, RATIO, SPAN, WEIGHTS
from alphamf.learnt import bands
from tests.support.twin.chain import NoiseVariance, forgetting_factor
from tests.support.twin.constants import C
from tests.support.twin.networks import FrameNetwork

TINY = np.float32(1e-20)


class Bins:
    """Interpolates frames of several channels from one grid to another, as `grids.regrid`."""

    def __init__(self, source, target):
        self._same = source == target
        self._low, self._high = (int(part * (source.frame.bins - 1)) for part in BAND_TOP)
        seconds = source.frame.n_fft / source.rate
        at = np.arange(target.frame.bins) * (target.rate / target.frame.n_fft * seconds)
        at = np.minimum(at, self._high + 1)
        self._first = np.minimum(at.astype(int), self._high)
        self._weight = (at - self._first).astype(np.float32)

    def __call__(self, values):
        """Interpolate frames of shape (channels, bins)."""
        if self._same:
            return values
        top = values[:, self._low : self._high + 1].mean(axis=1, keepdims=True)
        values = np.concatenate([values[:, : self._high + 1], top], axis=1)
        first, second = values[:, self._first], values[:, self._first + 1]
        return first + self._weight * (second - first)


class OnlineBands:
    """Predicts the gains above the dictionary's band: ``_bands.c``."""

    def __init__(self, network, grid, channels):
        self._network, self._grid = FrameNetwork(network, channels), grid
        self._low, self._high = low_pooling(grid), high_pooling(grid)
        self._count = self._high.inside
        hop = grid.frame.hop_length / grid.rate
        self._noise = NoiseVariance(channels, self._count, hop)

    def read(self, power, gain, level):
        """Return power, gain, and powers of speech and noise, shape (channels, bands)."""
        left, removed = gain**2 * power, (1 - gain) ** 2 * power
        below = [self._low(each.T).T for each in (power, left, removed)]
        above = [np.zeros((len(power), bands.ABOVE), np.float32) for _ in range(3)]
        heard = self._high(power.T).T[:, : self._count]
        self._noise.learn(heard)
        noise = self._noise.power
        for each, found in zip(above, (heard, heard - noise, noise), strict=True):
            each[:, : self._count] = np.maximum(found, 0)
        kept = np.sqrt(below[1] / (below[0] + TINY))
        wiener = above[1] / (above[0] + TINY)
        gains = np.minimum(np.concatenate([kept, wiener], axis=1), 1)
        whole, speech, rest = (
            np.concatenate(pair, axis=1) / level for pair in zip(below, above, strict=True)
        )
        return whole, gains, speech, rest

    def extend_gains(self, power, gain, level):
        """Return the gains of a frame's bins, with those of the bands above."""
        whole, wiener, speech, noise = self.read(power, gain, level)
        still = np.zeros_like(whole)
        given = {"gain": wiener, "gain_std": still, "speech": speech, "noise": noise}
        found = self._network.refine(whole, **given)
        own = found[:, bands.BELOW : bands.BELOW + self._count]
        return spread_band_gains(own.T, gain.T, self._grid).T


class Presence:
    """Computes the probability of speech frame by frame, as `denoising.uncertainty`."""

    def __init__(self, grid, hop):
        spacing = grid.rate / grid.frame.n_fft
        self._bins = slice(int(BAND[0] / spacing), int(BAND[1] / spacing) + 1)
        self._share = forgetting_factor(hop, SPAN / 2)
        self._decay = 1 - forgetting_factor(hop, C.LOUD_SPEECH_SECONDS)
        self._loud, self._ratio, self._level = 0.0, RATIO[0], LEVEL[0]

    def probability(self, power, gain):
        """Return the probability of speech in a frame, in the channel where it is highest."""
        power, gain = power[:, self._bins], gain[:, self._bins]
        parts = (gain * power).sum(axis=-1), ((1 - gain) * power).sum(axis=-1)
        best = int(np.argmax(parts[0]))
        speech, noise = (float(max(part[best], 0)) for part in parts)
        if not speech + noise:
            return 0.0
        tiny = 1e-9 * (speech + noise)
        self._loud = max(self._loud * self._decay, speech)
        ratio = float(np.clip(np.log((speech + tiny) / (noise + tiny)), *RATIO))
        level = float(np.clip(np.log((speech + tiny) / (self._loud + tiny)), *LEVEL))
        self._ratio += self._share * (ratio - self._ratio)
        self._level += self._share * (level - self._level)
        logit = WEIGHTS[0] * self._ratio + WEIGHTS[1] * self._level + WEIGHTS[2]
        return float(1 / (1 + np.exp(-logit)))


class Sharing:
    """Gives channels whose speech is coherent with the first channel's a common gain."""

    def __init__(self, channels, hop):
        self.together = np.zeros(channels, bool)
        self._share = np.float32(forgetting_factor(hop, C.COHERENCE_SECONDS))
        self._cross = self._power = np.float32(0)

    def link_gains(self, spectrum, gain):
        """Return the gains, common to all channels that share a voice, shape (channels, bins)."""
        power = np.abs(spectrum) ** 2
        weight = gain.min(axis=0)
        cross = weight * spectrum * spectrum[0].conj()
        self._cross = self._cross + self._share * (cross - self._cross)
        self._power = self._power + self._share * (weight * power - self._power)
        most = (np.sqrt(self._power) * np.sqrt(self._power[0])).sum(axis=-1)
        self.together = np.abs(self._cross).sum(axis=-1) >= np.float32(SHARED) * most
        self.together[0] = True
        together = self.together
        total = power[together].sum(axis=0) + np.finfo(np.float32).tiny
        common = (power[together] * gain[together]).sum(axis=0) / total
        return np.where(together[:, None], common, gain).astype(np.float32)


class FaintNoise:
    """Computes the gain for faint, steady noise frame by frame: ``_faint.c``."""

    def __init__(self, channels, bins):
        self._mean = self._least = self._before = self._last = None
        self._loud = np.zeros((channels, 1), np.float32)
        self._count = 0

    def gain(self, power, together):
        """Return the gain of a frame, shape (channels, bins); `together` have the largest one."""
        around = mean_around(power, 2 * C.FAINT_AROUND + 1, axis=1)
        if not self._count:
            self._mean = self._least = self._before = self._last = around
        kept = np.float32(C.FAINT_KEPT)
        self._mean = kept * self._mean + (1 - kept) * around
        if self._count % C.FAINT_SPAN == 0:
            self._before, self._least = self._least, self._mean
        self._count += 1
        self._least = np.minimum(self._least, self._mean)
        floor = np.minimum(self._least, self._before)
        loud = self._mean.sum(axis=1, keepdims=True)
        self._loud = np.maximum(loud, np.float32(C.FAINT_DECAY) * self._loud)
        pauses = floor.sum(axis=1, keepdims=True)
        lowest = gain.lowest_gain(self._loud, pauses, C.FAINT_DEPTH_DB)
        cell = (self._last + around) / np.float32(2)
        self._last = around
        found = np.maximum(floor_gain(cell, floor, C.FAINT_ABOVE), lowest)
        if together.any():
            found[together] = found[together].max(axis=0)
        return found


SMALL = np.float32(1e-30)


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
                np.maximum(level * self._power_share, mean / np.float32(C.LOUDEST_FRAME) + SMALL)
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
            weight = np.abs(sound[together, :count]) ** 2 + SMALL
            weight /= weight.sum(axis=0)
            for each in (of_sound, of_speech):
                each[together] = (weight * each[together]).sum(axis=0)
        return of_sound, of_speech

    def _bounded(self, made, sound, speech):
        """Take back what `MOST_RISE` does not allow, and some of the cuts above `SIBILANTS`."""
        loudness, given = np.abs(made), np.abs(speech)
        high = loudness / self._most > given
        made[high] *= self._most * given[high] / loudness[high]
        gain = np.minimum(given / np.sqrt(np.abs(sound) ** 2 + SMALL), 1)
        kept = self._in_sibilants * (loudness < given) * gain
        return made + kept * (speech - made)
