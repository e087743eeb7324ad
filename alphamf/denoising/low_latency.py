"""Denoising at 40 ms of latency: frame by frame, with the online chain.

The steps for a frame: the spectrum of its channels at their own rate (`asymmetric_windows`), power
on the dictionary's bins, the gain of the online chain (`alphamf.factorization.online`),
interpolation to the rate's bins, one gain for channels that share a voice, limit, sound. These are
links 1 to 4 and 6 of the chain of gains (`gain`); the network of link 2 is a causal one.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from functools import partial

import numpy as np

from alphamf.audio.stft import Complexes, Frame
from alphamf.denoising.asymmetric_windows import FRAME_HOPS, Frames, frame_of
from alphamf.denoising.gain import least_gain, mix_dry
from alphamf.denoising.grids import Bins, Grid, nearest_hop
from alphamf.denoising.real_time import Presence, Sharing
from alphamf.denoising.segments import Segment
from alphamf.denoising.settings import Settings
from alphamf.denoising.stream_options import SoundProgress, StreamOptions
from alphamf.denoising.uncertainty import deviation, faint_levels
from alphamf.denoising.weights import Weights, find_online
from alphamf.factorization.online import OnlineAlphaMF
from alphamf.inference.random import START, Key, generator
from alphamf.learnt.dictionary import Dictionary
from alphamf.tools.arrays import Floats

SILENT = 1e-14
"""Mean power of a sample, 140 dB below full scale, below which a hop is digital silence: it is
passed through, and nothing is learned from it."""

HIGHEST = np.float32(1e12)
"""Full scales that larger samples are read as, so that squares of their sums do not overflow."""

_LOGGER = logging.getLogger(__name__)


def online_chain(
    dictionary: Dictionary, channels: int, seed: int, hop: float | None = None
) -> OnlineAlphaMF:
    """Return the online chain for a dictionary.

    Parameters
    ----------
    dictionary
        Dictionary of the speech.
    channels
        Side by side.
    seed
        Seed of the chain.
    hop
        Distance between frames in seconds; None: that of `asymmetric_windows.frame_of`.
    """
    frame, context = frame_of(dictionary.frame), dictionary.context
    return OnlineAlphaMF(
        dictionary.basis.reshape(context, dictionary.bins, -1).swapaxes(1, 2),
        dictionary.alpha,
        spacing=dictionary.rate / frame.n_fft,
        hop=frame.hop_length / dictionary.rate if hop is None else hop,
        stride=max(1, round(dictionary.frame.hop_length / frame.hop_length)),
        channels=channels,
        rng=generator(seed, Key.CHAIN, START),
    )


class LowLatency:
    """Denoises sound in blocks of any size at low latency.

    Parameters
    ----------
    rate
        Sampling rate in Hz.
    channels
        Number of channels.
    weights
        Dictionary of the speech, and causal refiner.
    settings
        Settings of the run: dry, max_attenuation and channels are used.
    seed
        Seed of the chain.

    Attributes
    ----------
    latency
        Samples that are held back, at most.
    """

    def __init__(
        self,
        rate: int,
        channels: int,
        weights: Weights,
        settings: Settings,
        seed: int,
    ) -> None:
        dictionary, refiner = weights.dictionary, weights.causal
        frame = dictionary.frame
        hop = nearest_hop(frame.n_fft / FRAME_HOPS * rate / dictionary.rate)
        self._native = Grid(rate, Frame(FRAME_HOPS * hop, hop))
        self._model = Grid(dictionary.rate, frame_of(dictionary.frame))
        self._inwards = Bins(self._native, self._model)
        self._outwards = Bins(self._model, self._native)
        self._faint = faint_levels(self._model.frequencies)
        self._frames = Frames(hop, channels)
        self.latency: int = self._frames.latency
        seconds = hop / rate
        self._new_chain = partial(online_chain, dictionary, channels, seed, seconds)
        self._refiner = refiner
        self._was_reset = False
        self._note: str | None = None
        self._unfit = 0
        self._begin()
        linked = settings.channels == "linked" and channels > 1
        self._sharing = Sharing(channels, seconds) if linked else None
        self._presence = Presence(self._native, seconds)
        self._settings, self._least = settings, least_gain(settings)
        self._acceptance = 1.0
        self._waiting = np.empty((0, channels), np.float32)
        self._delayed = np.empty((0, channels), np.float32)

    def _begin(self) -> None:
        """Forget all that was learned from the sound."""
        self._chain = self._new_chain()
        channels = len(self._chain.noise)
        self._memories = self._refiner.memories(channels) if self._refiner else None

    def _reset(self, reason: str) -> None:
        """Forget everything that was learned, and add a note the first time."""
        if not self._was_reset:
            self._note = f"low-latency processing was reset because {reason}"
            _LOGGER.warning(self._note)
        self._was_reset = True
        self._begin()

    def push(self, block: Floats) -> Segment:
        """Process samples, shape (samples, channels), and return the output that is ready."""
        self._delayed = np.concatenate([self._delayed, block])
        return self._ready(np.clip(block, -HIGHEST, HIGHEST))

    def finish(self) -> Segment:
        """End the recording and return the output that is still held back."""
        left = len(self._delayed)
        silence = np.zeros((self.latency + self._native.frame.hop_length, 1), np.float32)
        return self._ready(np.broadcast_to(silence, (len(silence), self._waiting.shape[1])), left)

    def _ready(self, block: Floats, most: int | None = None) -> Segment:
        sound = np.concatenate([self._waiting, block])
        hop = self._native.frame.hop_length
        whole = len(sound) // hop * hop
        self._waiting = sound[whole:].copy()
        found = list(self._hops(sound[:whole].reshape(-1, hop, sound.shape[1])))
        speech = np.concatenate([np.empty((0, sound.shape[1]), np.float32), *(f[0] for f in found)])
        speech = speech[:most]
        audio, self._delayed = self._delayed[: len(speech)], self._delayed[len(speech) :].copy()
        shape = sound.shape[1], self._native.frame.bins, 0
        gain, std = (
            np.stack([f[k] for f in found], axis=-1) if found else np.empty(shape, np.float32)
            for k in (1, 2)
        )
        activity = np.array([f[3] for f in found], np.float32)
        mixed = mix_dry(audio, speech, self._settings)
        acceptance = [self._acceptance, 1.0]
        note, self._note = self._note, None
        return Segment(mixed, audio - speech, gain, std, acceptance, activity, note=note)

    def _hops(self, hops: Floats) -> Iterator[tuple[Floats, Floats, Floats, float]]:
        """Yield speech, gain, its standard deviation and the probability of speech for each hop."""
        for block in hops:
            self._reset_after_unfit(block)
            spectrum = self._frames.analyse(block)
            power: Floats = (
                np.abs(spectrum) ** 2 / np.float32(self._frames.filled_fraction)
            ).astype(np.float32)
            gain, std = self._gains(spectrum, power)
            probability = self._presence.probability(power, gain)
            gain = np.maximum(gain, self._least)
            yield self._frames.synthesise(spectrum * gain), gain, std, probability

    def _reset_after_unfit(self, block: Floats) -> None:
        """Reset the state once samples that are too large to be sound have left the window."""
        if np.abs(block).max() >= HIGHEST:
            self._unfit = FRAME_HOPS
        elif self._unfit:
            self._unfit -= 1
            if self._unfit == 0:
                self._reset("samples were too large to be sound")

    def _gains(self, spectrum: Complexes, power: Floats) -> tuple[Floats, Floats]:
        """Return the gain and its standard deviation on the native bins, shape (channels, bins)."""
        loud = power.mean(axis=-1) > SILENT * len(self._frames.windows.analysis)
        if not loud.any():
            return np.ones_like(power), np.zeros_like(power)
        # A silent channel gets the power of the others; its own gain has no effect.
        filled = np.where(loud[:, None], power, power[loud].mean(axis=0))
        gain, std = (self._outwards(each) for each in self._found(self._inwards(filled)))
        if self._sharing is not None:
            gain = self._sharing.link_gains(spectrum, gain)
        return gain, std

    def _found(self, power: Floats) -> tuple[Floats, Floats]:
        """Return the gain and its standard deviation on the dictionary's bins, given |X|^2."""
        gain, std = self._refined(power)
        if not np.isfinite(gain + std).all():
            self._reset("its state was no longer finite")
            gain, std = self._refined(power)
        return gain, std

    def _refined(self, power: Floats) -> tuple[Floats, Floats]:
        """Return gain and standard deviation as `_found` does, which may not be finite."""
        found = self._chain.step(power)
        self._acceptance = found.acceptance
        if self._refiner is None or self._memories is None:
            return found.gain, found.gain_std
        level = power / found.level
        gain = self._refiner.refine(
            self._memories,
            level,
            gain=found.gain,
            gain_std=found.gain_std,
            speech=found.speech,
            noise=found.noise,
        )
        return gain, deviation(gain, level, self._faint)


class FrameDenoiser:
    """Denoises a stream at low latency; the methods are those of `segments.SegmentDenoiser`.

    Parameters
    ----------
    rate
        Sampling rate in Hz.
    channels
        Number of channels.
    options
        Options of the stream.
    progress
        Adds up what has been done.

    Attributes
    ----------
    latency
        The most samples that are held back.
    """

    def __init__(
        self, rate: int, channels: int, options: StreamOptions, progress: SoundProgress
    ) -> None:
        weights = find_online(rate, options.model, refine=options.settings.refine)
        self._low = LowLatency(rate, channels, weights, options.settings, options.seed)
        self.latency: int = self._low.latency
        self._rate, self._progress = rate, progress
        self._blocks: deque[Floats] = deque()
        self._finished = False

    def push(self, block: Floats) -> None:
        """Add a block, shape (samples, channels)."""
        self._blocks.append(block)

    def next(self, *, ended: bool) -> Segment | None:
        """Return the output for the next block, or None; `ended` means that no block follows."""
        if self._blocks:
            segment = self._low.push(self._blocks.popleft())
        elif ended and not self._finished:
            self._finished = True
            segment = self._low.finish()
        else:
            return None
        self._progress.add(len(segment.audio) / self._rate)
        return segment

    def close(self) -> None:
        """Stop the work in progress."""
        self._progress.stopped = True
