"""The noise of a recording, with forgetting: ``_noise.h`` of the engine explains it."""

from __future__ import annotations

import numpy as np

from tests.support.twin.constants import C


def forgetting_factor(hop, seconds):
    """Return the weight of the newest frame in a running mean over `seconds`."""
    return float(1 - np.exp(-hop / seconds))


class Extreme:
    """Running minimum or maximum over the last frames of a shape."""

    def __init__(self, function, shape, parts, frames):
        self._function, self._frames, self._count = function, frames, 0
        self._none = np.float32(np.inf if function is np.minimum else -np.inf)
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
