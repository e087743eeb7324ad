r"""Online estimate of the noise of a recording, with forgetting.

A cell either holds noise alone, or speech that is 15 dB louder, with even odds. With N the
noise's variance so far, the probability of speech and the next estimate are

.. math:: p = \left(1 + (1 + \xi) e^{-\frac{|x|^2}{N} \frac{\xi}{1 + \xi}}\right)^{-1}, \qquad
   N \leftarrow N + f \left(p\,N + (1 - p)\,|x|^2 - N\right).

N is never far below the minimum of the smoothed power in the last 1.5 s: speech pauses or changes
within that time, and sound that does not is noise, however suddenly it started. N is never far
above the maximum power of the last .2 s either, because noise is always present.

After a tone, a mute or much fainter sound, N is far too small in most bins, and the minimum over
1.5 s reacts late. If more than half of the bins rise by 30 dB, after a second in which they did
not, the minimum starts again from there.

EM would use the posterior mean of the noise's power under the chain instead of p, which is worse:
if the noise is underestimated, the chain finds speech everywhere, and the estimate stays too small
(docs/quality.md).

References
----------
Gerkmann and Hendriks, IEEE TASLP 20 (2012), eqs. 18 and 22 to 24.
"""

from __future__ import annotations

import numpy as np

from alphamf.tools.arrays import Flags, Floats

START_SECONDS = 0.1
"""Time at the start that counts as noise."""

SPEECH_RATIO = 10**1.5
"""15 dB."""

NOISE_SECONDS = 0.16
"""Time constant of forgetting the noise where there is no speech."""

MOST = 0.99
"""Maximum long-term average of p: if it is higher, the noise has risen."""

SMOOTH_SECONDS = 0.08
PART_SECONDS = 0.25
PARTS = 5
"""Number and length of the parts over which the minimum of the power is taken, smoothed over 80 ms;
the current part is added."""

LEAST_SHARE = np.float32(0.5)
"""Fraction of the minimum power that is a lower limit of the noise; from there p raises the noise
by itself. Soon after a rise the limit is the minimum itself."""

FAINTEST = 1e-8
"""Minimum noise of a bin, as a fraction of the mean."""

LOUD_SECONDS = 0.1
"""Length of the parts over which the maximum of the power is taken: the last one and the current
one."""

MOST_OVER = np.float32(100)
"""Maximum noise, and smoothed power, as a multiple of the largest power."""

RISE = np.float32(1e3)
"""Power over the noise of a bin that rises."""

CALM_SECONDS = 1.0
"""Time without a rise before one counts."""

SOON_SECONDS = 0.2
"""Time after a rise from which on the minimum power is used."""

SETTLED_SECONDS = 0.5
"""Time after a rise for which the noise is not known well."""


def forgetting_factor(hop: float, seconds: float) -> float:
    """Return the weight of the newest frame in a running mean over `seconds`."""
    return float(1 - np.exp(-hop / seconds))


class Extreme:
    """Running minimum or maximum over the last frames.

    `shape`: shape of a frame.
    """

    def __init__(self, function: np.ufunc, shape: tuple[int, ...], parts: int, frames: int) -> None:
        self._function, self._frames, self._count = function, frames, 0
        self._none = np.float32(np.inf if function is np.minimum else -np.inf)
        self._parts = np.full((parts + 1, *shape), self._none)

    def add(self, values: Floats) -> Floats:
        """Add a frame and return the extreme, both of the same shape."""
        self._count += 1
        if self._count % self._frames == 0:
            self._parts[1:] = self._parts[:-1]
            self._parts[0] = self._none
        self._function(self._parts[0], values, out=self._parts[0])
        extreme: Floats = self._function.reduce(self._parts, axis=0)
        return extreme

    def forget(self, channels: Flags) -> None:
        """Forget all frames of some channels."""
        self._parts[:, channels] = self._none


class NoiseVariance:
    """Online estimate of the variance of the noise in each bin.

    `channels`, `bins`: shape of a frame. `hop`: distance between frames in seconds. `power`: shape
    (channels, bins). `risen`: whether most bins rose in the last frame, shape (channels,).
    """

    def __init__(self, channels: int, bins: int, hop: float) -> None:
        shape = channels, bins
        self.power: Floats = np.zeros(shape, np.float32)
        self.risen: Flags = np.zeros(channels, bool)
        self._presence = np.full(shape, np.float32(0.5))
        self._share = np.float32(forgetting_factor(hop, NOISE_SECONDS))
        self._start = max(1, round(START_SECONDS / hop))
        self._frames = 0
        self._smooth_share = np.float32(forgetting_factor(hop, SMOOTH_SECONDS))
        self._smooth = np.zeros(shape, np.float32)
        self._part = max(1, round(PART_SECONDS / hop))
        self._least = Extreme(np.minimum, shape, PARTS, self._part)
        self._loudest = Extreme(np.maximum, shape, 1, max(1, round(LOUD_SECONDS / hop)))
        self._calm, self._soon, self._settled = (
            round(seconds / hop) for seconds in (CALM_SECONDS, SOON_SECONDS, SETTLED_SECONDS)
        )
        self._calm_frames = np.zeros(channels, int)
        self._since = np.full(channels, self._settled)

    @property
    def is_settled(self) -> Flags:
        """Whether the noise has not risen recently, so that it is known well, shape (channels,)."""
        return self._since >= self._settled

    def learn(self, power: Floats) -> None:
        """Update the estimate with a frame, shape (channels, bins)."""
        self._frames += 1
        most = MOST_OVER * self._loudest.add(power)
        self._notice_rise(power)
        self._smooth += max(self._smooth_share, np.float32(1 / self._frames)) * (
            power - self._smooth
        )
        np.minimum(self._smooth, most, out=self._smooth)
        least = self._least.add(self._smooth)
        faint = FAINTEST * power.mean(axis=-1, keepdims=True) + np.finfo(np.float32).tiny
        learnt = np.maximum(
            np.minimum(self.power + self._change(power), most), faint.astype(np.float32)
        )
        if self._frames > PARTS * self._part:
            np.maximum(learnt, self._least_share() * least, out=learnt)
        self.power = learnt

    def _least_share(self) -> Floats | np.float32:
        """Return the lower limit of the noise as a fraction of the minimum power, per channel."""
        if self._since.min() >= PARTS * self._part:
            return LEAST_SHARE
        since = self._since[:, None]
        late = np.where(since < PARTS * self._part, np.float32(1), LEAST_SHARE)
        return np.where(since < self._soon, np.float32(0), late)

    def _change(self, power: Floats) -> Floats:
        """Return the change of the noise with a frame."""
        if self._frames <= self._start:
            return (power - self.power) / np.float32(self._frames)
        least = SPEECH_RATIO / (1 + SPEECH_RATIO)
        ratio = np.minimum(power, np.float32(80) * self.power) / self.power
        p = 1 / (1 + np.float32(1 + SPEECH_RATIO) * np.exp(-np.float32(least) * ratio))
        self._presence += self._share * (p - self._presence)
        p = np.where(self._presence > MOST, np.minimum(p, np.float32(MOST)), p)
        change: Floats = self._share * (1 - p) * (power - self.power)
        return change

    def _notice_rise(self, power: Floats) -> None:
        """Reset the minimum power of channels in which most bins rise."""
        rise = 2 * np.add.reduce(power > RISE * self.power, axis=-1) > power.shape[-1]
        self.risen = rise & (self._calm_frames >= self._calm)
        self._calm_frames += 1
        self._since += 1
        if rise.any():
            self._calm_frames[rise] = 0
            self._since[self.risen] = 0
            self._least.forget(self.risen)
            self._smooth[self.risen] = power[self.risen]
