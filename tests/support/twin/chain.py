"""The online chain and its noise in NumPy, as ``_chain.c``, ``_frame.h`` and ``_noise.h`` say."""

from typing import NamedTuple

import numpy as np

from alphamf.audio.stft import frame_of
from alphamf.factorization import cells, compiled
from alphamf.factorization.cells import FLOOR, TINY, CellOutput, Cells
from alphamf.inference.random import START, Key, generator
from alphamf.native.engine import unit_columns
from tests.support.twin.constants import C


def forgetting_factor(hop, seconds):
    """Return the weight of the newest frame in a running mean over `seconds`."""
    return float(1 - np.exp(-hop / seconds))


class Extreme:
    """Running minimum or maximum over the last frames of a shape."""

    def __init__(self, function, shape, parts, frames):
        self._function, self._frames, self._count = function, frames, 0
        most = np.finfo(np.float32).max
        self._none = most if function is np.minimum else -most
        self._parts = np.full((parts + 1, *shape), self._none)

    def add(self, values):
        """Add a frame and return the extreme."""
        self._count += 1
        if self._count % self._frames == 0:
            self._parts[1:] = self._parts[:-1]
            self._parts[0] = self._none
        self._function(self._parts[0], values, out=self._parts[0])
        return self._function.reduce(self._parts, axis=0)

    def forget(self, channels):
        """Forget all frames of some channels."""
        self._parts[:, channels] = self._none


class NoiseVariance:
    """Online estimate of the variance of the noise, shape (channels, bins)."""

    def __init__(self, channels, bins, hop):
        shape = channels, bins
        self.power = np.zeros(shape, np.float32)
        self.risen = np.zeros(channels, bool)
        self._presence = np.full(shape, np.float32(0.5))
        self._share = np.float32(forgetting_factor(hop, C.NOISE_SECONDS))
        self._start = max(1, round(C.START_SECONDS / hop))
        self._frames = 0
        self._smooth_share = np.float32(forgetting_factor(hop, C.SMOOTH_SECONDS))
        self._smooth = np.zeros(shape, np.float32)
        self._part = max(1, round(C.PART_SECONDS / hop))
        self._least = Extreme(np.minimum, shape, C.PARTS, self._part)
        loud = max(1, round(C.LOUD_PART_SECONDS / hop))
        self._loudest = Extreme(np.maximum, shape, 1, loud)
        self._calm, self._soon, self._settled = (
            round(seconds / hop) for seconds in (C.CALM_SECONDS, C.SOON_SECONDS, C.SETTLED_SECONDS)
        )
        self._calm_frames = np.zeros(channels, int)
        self._since = np.full(channels, self._settled)

    @property
    def is_settled(self):
        """Whether the noise has not risen recently, shape (channels,)."""
        return self._since >= self._settled

    def learn(self, power):
        """Update the estimate with a frame, shape (channels, bins)."""
        self._frames += 1
        most = np.float32(C.MOST_OVER_NOISE) * self._loudest.add(power)
        self._notice_rise(power)
        share = max(self._smooth_share, np.float32(1 / self._frames))
        self._smooth += share * (power - self._smooth)
        np.minimum(self._smooth, most, out=self._smooth)
        least = self._least.add(self._smooth)
        faint = C.FAINTEST * power.mean(axis=-1, keepdims=True) + np.finfo(np.float32).tiny
        learnt = np.minimum(self.power + self._change(power), most)
        learnt = np.maximum(learnt, faint.astype(np.float32))
        if self._frames > C.PARTS * self._part:
            np.maximum(learnt, self._least_share() * least, out=learnt)
        self.power = learnt

    def _least_share(self):
        """Return the lower limit of the noise as a fraction of the minimum power."""
        since, share = self._since[:, None], np.float32(C.LEAST_SHARE)
        late = np.where(since < C.PARTS * self._part, np.float32(1), share)
        return np.where(since < self._soon, np.float32(0), late)

    def _change(self, power):
        if self._frames <= self._start:
            return (power - self.power) / np.float32(self._frames)
        ratio = np.minimum(power, np.float32(80) * self.power) / self.power
        rise = np.float32(C.SPEECH_RATIO)
        p = 1 / (1 + (1 + rise) * np.exp(-rise / (1 + rise) * ratio))
        self._presence += self._share * (p - self._presence)
        most = np.float32(C.MOST_PRESENCE)
        p = np.where(self._presence > most, np.minimum(p, most), p)
        return self._share * (1 - p) * (power - self.power)

    def _notice_rise(self, power):
        """Reset the minimum power of channels in which most bins rise."""
        above = power > np.float32(C.RISE) * self.power
        rise = 2 * np.add.reduce(above, axis=-1) > power.shape[-1]
        self.risen = rise & (self._calm_frames >= self._calm)
        self._calm_frames += 1
        self._since += 1
        self._calm_frames[rise] = 0
        self._since[self.risen] = 0
        self._least.forget(self.risen)
        self._smooth[self.risen] = power[self.risen]


class Estimate(NamedTuple):
    """What was found of a frame, shape (channels, bins); `level` has the shape (channels, 1)."""

    gain: np.ndarray
    gain_std: np.ndarray
    acceptance: float
    speech: np.ndarray  # Variances in units of `level`
    noise: np.ndarray
    level: np.ndarray


class Response:
    """The recording's frequency response, by which W is multiplied."""

    def __init__(self, channels, bins, spacing, hop):
        reach = max(1, int(3 * C.SMOOTH_HZ / spacing))
        distance = np.arange(-reach, reach + 1) * (spacing / C.SMOOTH_HZ)
        self._kernel = np.exp(-0.5 * distance**2).astype(np.float32)
        self._share = np.float32(forgetting_factor(hop, C.RESPONSE_SECONDS))
        self._sums = np.zeros((2, channels, bins), np.float32)
        self._frames = np.zeros(channels, int)
        self.gain = np.ones((channels, bins), np.float32)

    def begin(self, channels):
        """Reset some channels."""
        self._sums[:, channels] = 0
        self._frames[channels] = 0
        self.gain[channels] = 1

    def learn(self, parts, channels):
        """Learn from both parts of the newest frame's gradient in the log gain."""
        self._frames += channels
        for held, new in zip(self._sums, parts, strict=True):
            held += np.where(channels[:, None], self._share * (new - held), np.float32(0))
        moved = channels & (self._frames > C.RESPONSE_START)
        moved &= self._frames % C.RESPONSE_EVERY == 0
        if not moved.any():
            return
        up, down = (np.log(self._smooth(each[moved]) + np.float32(1e-12)) for each in self._sums)
        change = down - up
        change -= change.mean(axis=-1, keepdims=True)
        gain = self.gain[moved] * np.exp(np.float32(C.RESPONSE_EVERY * C.RESPONSE_RATE) * change)
        least, most = np.float32(C.RESPONSE_LEAST), np.float32(C.RESPONSE_MOST)
        self.gain[moved] = np.clip(gain, least, most)

    def _smooth(self, values):
        reach = len(self._kernel) // 2
        padded = np.pad(values, ((0, 0), (reach, reach)), mode="edge")
        return np.stack([np.convolve(row, self._kernel, mode="valid") for row in padded])


class OnlineChain:
    """Computes gains frame by frame; `hop` is the distance between frames in seconds."""

    def __init__(self, dictionary, channels, seed, hop):
        frame, context = frame_of(dictionary.frame), dictionary.context
        basis = dictionary.basis.reshape(context, dictionary.bins, -1).swapaxes(1, 2)
        stride = max(1, round(dictionary.frame.hop_length / frame.hop_length))
        self._basis = unit_columns(basis)
        self._back = np.ascontiguousarray(self._basis.swapaxes(1, 2))
        self._alpha, self._hop = dictionary.alpha, hop
        self._places = [stride * k for k in range(context)]
        shape = (self._places[-1] + 1, channels, dictionary.bins)
        self._loops = compiled if compiled.AVAILABLE else cells
        self._rng = generator(seed, Key.CHAIN, START)
        self._powers, self._noises = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        self._phi = self._loops.fill_stable(self._rng, self._alpha, np.empty(shape, np.float32))
        self._state = self._loops.states(self._rng, [self._alpha])[0]
        self._h = np.full((channels, basis.shape[1]), np.float32(C.LEAST_H))
        self._level = np.zeros((channels, 1), np.float32)
        part = max(1, round(C.LEVEL_PART_SECONDS / hop))
        self._loudest = Extreme(np.maximum, (channels, 1), 1, part)
        self._frames = np.zeros(channels, int)
        self.noise = NoiseVariance(channels, dictionary.bins, hop)
        self._response = Response(channels, shape[-1], dictionary.rate / frame.n_fft, hop)

    def step(self, power):
        """Process |X|^2 of a frame, shape (channels, bins), in no channel zero throughout."""
        self._take(power)
        cells_of = self._powers[self._places] / self._level
        noise = self._noises[self._places] / (2 * self._level)
        phi, response = self._phi[self._places], self._response.gain
        # The amplitude ratio to the noise that h = 1 of a column stands for.
        ratio = np.einsum("tcf,tfk->ck", response / np.sqrt(2 * noise + FLOOR), self._back)
        rate = np.float32(C.PRIOR_RATE) * ratio / np.float32(len(noise) * power.shape[1])
        h = np.maximum(np.float32(C.H_DECAY) * self._h, np.float32(C.LEAST_H))
        v, plus, minus = (np.empty_like(noise) for _ in range(3))
        total, square = np.zeros_like(power), np.zeros_like(power)
        accepted, alpha = 0, self._alpha
        exponent = np.float32(C.RELAXATION * alpha / (alpha + 2))
        for step in range(C.STEPS_OF_FRAME):
            np.multiply(np.matmul(h, self._basis), response, out=v)
            accepted += self._evaluate(cells_of, v, phi, noise, [plus, minus])
            if step >= C.STEPS_OF_FRAME - C.KEEP:
                gain = plus[-1] * v[-1] * np.float32(alpha / 2)
                total += gain
                square += gain * gain
            up, down = (
                np.matmul(part * response, self._back).sum(axis=0) for part in (plus, minus)
            )
            up += rate + np.float32(1 - C.PRIOR_SHAPE) / h
            h = np.maximum(h * ((down + np.float32(TINY)) / up) ** exponent, np.float32(TINY))
        self._h, self._phi[-1] = h, phi[-1]
        mean = np.minimum(total / C.KEEP, 1)
        share = np.float32(C.SPEECH_SHARE)
        spoken = (mean * cells_of[-1]).sum(axis=-1) > share * cells_of[-1].sum(axis=-1)
        self._response.learn([plus[-1] * v[-1], minus[-1] * v[-1]], spoken & self.noise.is_settled)
        std = np.sqrt(np.maximum(square / C.KEEP - mean * mean, 0))
        acceptance = accepted / (C.STEPS_OF_FRAME * power.size)
        return Estimate(mean, std, acceptance, 2 * v[-1], 2 * noise[-1], self._level.copy())

    def _evaluate(self, power, v, phi, noise, out):
        """Move Phi of the newest frame, and compute both parts of dU/dv of the speech."""
        accepted = [0]
        for part, state in ((slice(None, -1), None), (slice(-1, None), self._state)):
            if not len(power[part]):
                continue
            own = None if self._alpha == 2 else phi[part]
            speech = Cells(self._alpha, v[part], own, [each[part] for each in out])
            sources = [speech, Cells(2.0, noise[part], None)]
            states = None if state is None else [state, None]
            accepted = self._loops.evaluate(CellOutput.SLOPES, power[part], sources, states=states)
        return int(accepted[0])

    def _take(self, power):
        """Shift in the newest frame, and update its noise and the level."""
        self.noise.learn(power)
        self._frames += 1
        self._response.begin(self.noise.risen)
        self._frames[self.noise.risen] = 1
        share = np.maximum(1 / self._frames, forgetting_factor(self._hop, C.LEVEL_SECONDS))
        mean = power.mean(axis=-1, keepdims=True)
        self._level += share[:, None].astype(np.float32) * (mean - self._level)
        most = np.float32(C.MOST_OVER_LEVEL) * self._loudest.add(mean)
        np.minimum(self._level, most, out=self._level)
        np.maximum(self._level, np.finfo(np.float32).tiny / FLOOR, out=self._level)
        new = self._loops.fill_stable(self._rng, self._alpha, np.empty(power.shape, np.float32))
        past = (self._powers, power), (self._noises, self.noise.power), (self._phi, new)
        for held, newest in past:
            held[:-1] = held[1:]
            held[-1] = newest
            held[:-1, self._frames == 1] = newest[self._frames == 1]
