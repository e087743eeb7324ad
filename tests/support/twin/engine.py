"""The low-latency engine in NumPy: a readable oracle of the one in C.

The steps for a hop: spectrum of its channels at their own rate, power on the dictionary's bins,
gain of the online chain, interpolation to the rate's bins, bands above the dictionary's, one
gain for channels that share a voice, limit, sound, the second stage. These are links 1 to 5 of the
chain of gains (`alphamf.denoising.gain`); the networks are causal ones.
"""

from functools import partial

import numpy as np

from alphamf.audio.stft import (
    FRAME_HOPS,
    SILENT,
    SYNTHESIS_HOPS,
    Frame,
    frame_of,
    windows,
)
from alphamf.denoising.grids import Grid, nearest_hop
from alphamf.denoising.high_bands import high_pooling
from alphamf.denoising.uncertainty import deviation, faint_levels
from alphamf.learnt.causal import CHAIN_ALONE
from alphamf.native.engine import REASONS, Hops
from tests.support.twin.chain import OnlineChain
from tests.support.twin.constants import C
from tests.support.twin.gains import Bins, OnlineBands, OnlineSecondStage, Presence, Sharing
from tests.support.twin.networks import FrameNetwork

HIGHEST = np.float32(C.HIGHEST_SAMPLE)


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
        self._count = 0  # hops so far
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
        return done if self.is_due else done[:0]

    def forget_speech(self):
        """Forget the frames that were added."""
        self._sum[:] = 0

    @property
    def is_due(self):
        """Whether the oldest hop is of the sound, and not before it."""
        return self._count >= SYNTHESIS_HOPS

    @property
    def reaches_sound(self):
        """Whether the pair of hops reaches into the recording."""
        return self._count >= SYNTHESIS_HOPS - 1


class ReferenceEngine:
    """Does what `alphamf.native.engine.Engine` does, with the same draws where loops are compiled.

    `level`: level of the last hop that was not silent, shape (channels, 1).
    """

    def __init__(self, rate, channels, dictionary, networks=CHAIN_ALONE, *, linked, least, seed):
        frame = dictionary.frame
        self.hop = nearest_hop(frame.n_fft / FRAME_HOPS * rate / dictionary.rate)
        native = Grid(rate, Frame(FRAME_HOPS * self.hop, self.hop))
        model = Grid(dictionary.rate, frame_of(frame))
        self.bins = native.frame.bins
        self._inwards, self._outwards = Bins(native, model), Bins(model, native)
        self._faint = faint_levels(model.frequencies)
        self._frames = Frames(self.hop, channels)
        self.latency = self._frames.latency
        seconds = self.hop / rate
        self._new_chain = partial(OnlineChain, dictionary, channels, seed, seconds)
        self._network, second_stage, high_band = networks
        wide = rate > dictionary.rate and high_pooling(native).inside > 0
        self._new_bands = (
            partial(OnlineBands, high_band, native, channels) if high_band and wide else None
        )
        self._new_second_stage = (
            partial(OnlineSecondStage, second_stage, rate, self.hop, channels)
            if second_stage
            else None
        )
        self._new_sharing = partial(Sharing, channels, seconds) if linked and channels > 1 else None
        self._new_presence = partial(Presence, native, seconds)
        self._least = np.float32(least)
        self._unfit = 0
        self.reset_reason = None
        self.acceptance = 1.0
        self.level = np.zeros((channels, 1), np.float32)
        self._begin()

    def _begin(self):
        """Forget all that was learned from the sound."""
        self._chain = self._new_chain()
        channels = len(self.level)
        self._refiner = FrameNetwork(self._network, channels) if self._network else None
        self._sharing = self._new_sharing() if self._new_sharing else None
        self._presence = self._new_presence()
        self._bands = self._new_bands() if self._new_bands else None
        self._second_stage = self._new_second_stage() if self._new_second_stage else None

    def process(self, sound):
        """See `alphamf.native.engine.Engine.process`."""
        channels = sound.shape[1]
        found = [self._process_hop(block) for block in sound.reshape(-1, self.hop, channels)]
        speech = np.concatenate([np.empty((0, channels), np.float32), *(f[0] for f in found)])
        shape = channels, self.bins, 0
        gain, gain_std = (
            np.stack([f[k] for f in found], axis=-1) if found else np.empty(shape, np.float32)
            for k in (1, 2)
        )
        return Hops(speech, gain, gain_std, np.array([f[3] for f in found], np.float32))

    def _process_hop(self, block):
        """Return speech, gain, its standard deviation and the probability of speech for a hop."""
        block = np.clip(block, -HIGHEST, HIGHEST)
        self._reset_after_unfit(block)
        spectrum = self._frames.analyse(block)
        power = (np.abs(spectrum) ** 2 / np.float32(self._frames.filled_fraction)).astype(
            np.float32
        )
        gain, std = self._gains(spectrum, power)
        probability = self._presence.probability(power, gain)
        gain = np.maximum(gain, self._least)
        speech = self._frames.synthesise(spectrum * gain)
        return self._corrected(speech) * self._frames.is_due, gain, std, probability

    def _corrected(self, speech):
        """Return the speech of a hop, shape (hop, channels), after the second stage."""
        if self._second_stage is None or not self._frames.reaches_sound:
            return speech
        sharing, frames = self._sharing, self._frames
        together = sharing.together if sharing else np.zeros(len(self.level), bool)
        pair = frames.noisy_pair, frames.speech_pair
        found = self._second_stage.correct(*pair, self.level, together, self._least)
        return found[: len(speech)]

    def _reset_after_unfit(self, block):
        """Reset the state once samples that are too large to be sound have left the window."""
        if np.abs(block).max() >= HIGHEST:
            self._unfit = FRAME_HOPS
        elif self._unfit:
            self._unfit -= 1
            if self._unfit == 0:
                self.reset_reason = REASONS[1]
                self._frames.forget_speech()
                self._begin()

    def _gains(self, spectrum, power):
        """Return the gain and its standard deviation on the native bins, shape (channels, bins)."""
        loud = power.mean(axis=-1) > SILENT * len(self._frames.windows.analysis)
        if not loud.any():
            return np.ones_like(power), np.zeros_like(power)
        # A silent channel gets the power of the others; its own gain has no effect.
        filled = np.where(loud[:, None], power, power[loud].mean(axis=0))
        gain, std = (self._outwards(each) for each in self._found(self._inwards(filled)))
        if self._bands is not None:
            gain = self._bands.extend_gains(filled, gain, self.level)
        if self._sharing is not None:
            gain = self._sharing.link_gains(spectrum, gain)
        return gain, std

    def _found(self, power):
        """Return the gain and its standard deviation on the dictionary's bins, given |X|^2."""
        found = self._chain.step(power)
        self.acceptance, self.level = found.acceptance, found.level
        if self._refiner is None:
            return found.gain, found.gain_std
        level = power / found.level
        gain = self._refiner.refine(
            level,
            gain=found.gain,
            gain_std=found.gain_std,
            speech=found.speech,
            noise=found.noise,
        )
        return gain, deviation(gain, level, self._faint)
