r"""Online alpha-MF of a spectrogram frame by frame; the noise is learned with forgetting.

The model is that of `alphamf.factorization.alpha_mf` for the newest frames: the speech, of index
alpha with a fixed W over `context` frames, has activations h of the newest column; the noise is
Gaussian, with one spectrum per frame, learned online (`forgetting`). Each frame takes a few
steps. Each moves Phi by Metropolis, but only in the newest frame, whose gain is used: in the frames
before, Phi stays as it was. Each then moves h by the multiplicative rule of EM, with a Gamma
prior on the amplitude ratio of speech to noise. The gain is averaged over the last steps.
"""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

import numpy as np

from alphamf.factorization import cells, compiled
from alphamf.factorization.cells import FLOOR
from alphamf.factorization.forgetting import Extreme, NoiseVariance, forgetting_factor
from alphamf.factorization.online_steps import FrameState, Moves, move
from alphamf.factorization.response import Response
from alphamf.tools.arrays import Floats
from alphamf.tools.bfloat16 import round_to_bfloat16

STEPS, KEEP = 12, 8
"""Steps for a frame, and how many of the last ones are averaged."""

LEVEL_SECONDS = 3.0
"""Time constant of the level that defines the model's units."""

LOUD_SECONDS = 0.25
MOST_OVER = np.float32(10)
"""Maximum level, as a multiple of the loudest frame of one or two parts of so long."""

SPEECH_SHARE = np.float32(0.01)
"""Minimum fraction of speech in a frame's power for learning the response."""

RATE = np.float32(100.0)
SHAPE = 0.1
"""Shape of the Gamma prior of h, in units in which speech with h = 1 is as loud as the noise."""

DECAY, LEAST = np.float32(0.5), np.float32(2e-3)
"""Initial h, as a fraction of the last frame's, and its minimum. It must be below the noise, or EM
would find a mode in which speech explains everything."""

RELAXATION = 1.5


class OnlineEstimate(NamedTuple):
    """Results for one frame."""

    # gain, gain_std: gain of the speech in the newest frame and its standard deviation, shape
    # (channels, bins).
    gain: Floats
    gain_std: Floats
    acceptance: float  # Proportion of accepted Phi proposals of the speech
    # speech, noise: variance of the speech where Phi is one, and of the noise, in units of `level`;
    # shape (channels, bins).
    speech: Floats
    noise: Floats
    level: Floats  # Mean power of the last seconds, shape (channels, 1)


def unit_columns(basis: Floats) -> Floats:
    """Return W, shape (context, columns, bins), with columns of mean one, in bfloat16 numbers."""
    return round_to_bfloat16(basis / basis.mean(axis=(0, 2), keepdims=True))


class OnlineAlphaMF:
    """Computes gains frame by frame.

    `basis`: W of the speech, shape (context, columns, bins). `spacing`: distance between bins in
    Hz. `hop`: distance between frames in seconds.
    """

    def __init__(
        self,
        basis: Floats,
        alpha: float,
        *,
        spacing: float,
        hop: float,
        stride: int,
        channels: int,
        rng: np.random.Generator,
    ) -> None:
        context, columns, bins = basis.shape
        self._basis = unit_columns(basis)
        self._back = np.ascontiguousarray(self._basis.swapaxes(1, 2))
        self._alpha, self._hop = alpha, hop
        self._moves = Moves(STEPS, KEEP, alpha, SHAPE, RELAXATION * alpha / (alpha + 2))
        self._places = [stride * k for k in range(context)]
        shape = (self._places[-1] + 1, channels, bins)
        loops = self._loops
        self._powers, self._noises = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        self._phi = loops.fill_stable(rng, alpha, np.empty(shape, np.float32))
        self._rng, self._states = rng, loops.states(rng, [alpha, 2.0])
        self._h = np.full((channels, columns), LEAST)
        self._level = np.zeros((channels, 1), np.float32)
        self._loudest = Extreme(np.maximum, (channels, 1), 1, max(1, round(LOUD_SECONDS / hop)))
        self._frames = np.zeros(channels, int)
        self._noise = NoiseVariance(channels, bins, hop)
        self._response = Response(channels, bins, spacing, hop)

    @property
    def _loops(self) -> ModuleType:
        return compiled if compiled.AVAILABLE else cells

    @property
    def noise(self) -> Floats:
        """Current estimate of the noise power, shape (channels, bins)."""
        return self._noise.power

    def step(self, power: Floats) -> OnlineEstimate:
        """Process a frame and return its gain.

        `power`: |X|^2, shape (channels, bins), in no channel zero throughout.
        """
        self._take(power)
        context, _, bins = self._basis.shape
        noise = self._noises[self._places] / (2 * self._level)
        response = self._response.gain
        # The prior's units: the amplitude ratio to the noise that h = 1 of a column stands for.
        # By einsum, not by BLAS, whose threads would cost more than this and change its last bit.
        ratio = np.einsum("tcf,tfk->ck", response / np.sqrt(2 * noise + FLOOR), self._back)
        frame = FrameState(
            power=self._powers[self._places] / self._level,
            noise=noise,
            phi=self._phi[self._places],
            state=self._states[0],
            basis=self._basis,
            back=self._back,
            response=response,
            rate=RATE * ratio / np.float32(context * bins),
            h=np.maximum(DECAY * self._h, LEAST),
            total=np.zeros(power.shape, np.float32),
            square=np.zeros(power.shape, np.float32),
            v=np.empty_like(noise),
            plus=np.empty_like(noise),
            minus=np.empty_like(noise),
        )
        accepted = move(frame, self._moves)
        self._h = frame.h
        if frame.phi is not None:
            self._phi[-1] = frame.phi[-1]
        mean = np.minimum(frame.total / KEEP, 1)
        spoken = (mean * frame.power[-1]).sum(axis=-1) > SPEECH_SHARE * frame.power[-1].sum(axis=-1)
        plus, minus = (each[-1] * frame.v[-1] for each in (frame.plus, frame.minus))
        self._response.learn(plus, minus, spoken & self._noise.is_settled)
        std = np.sqrt(np.maximum(frame.square / KEEP - mean * mean, 0))
        return OnlineEstimate(
            gain=mean,
            gain_std=std,
            acceptance=accepted / (STEPS * power.size),
            speech=2 * frame.v[-1],
            noise=2 * frame.noise[-1],
            level=self._level.copy(),
        )

    def _take(self, power: Floats) -> None:
        """Shift in the newest frame, and update its noise and the level.

        After a rise the level starts again, as in the first frame; otherwise it would need seconds
        to follow.
        """
        self._noise.learn(power)
        self._frames += 1
        if self._noise.risen.any():
            self._response.begin(self._noise.risen)
            self._frames[self._noise.risen] = 1
        share = np.maximum(1 / self._frames, forgetting_factor(self._hop, LEVEL_SECONDS))[:, None]
        mean = power.mean(axis=-1, keepdims=True)
        self._level += share.astype(np.float32) * (mean - self._level)
        np.minimum(self._level, MOST_OVER * self._loudest.add(mean), out=self._level)
        np.maximum(self._level, np.finfo(np.float32).tiny / FLOOR, out=self._level)
        begins = self._frames == 1
        new = self._loops.fill_stable(self._rng, self._alpha, np.empty(power.shape, np.float32))
        past = (self._powers, power), (self._noises, self._noise.power), (self._phi, new)
        for held, newest in past:
            held[:-1] = held[1:]
            held[-1] = newest
            if begins.any():
                held[:-1, begins] = newest[begins]
