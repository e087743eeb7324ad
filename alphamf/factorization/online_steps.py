"""The steps of the online chain for one frame, in NumPy.

The engine of low latency (`alphamf.native.engine`) has the same, several times as fast. Arrays of
cells have the shape (context, channels, bins), the newest frame last.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from alphamf.factorization import cells, compiled
from alphamf.factorization.cells import TINY, CellOutput, Cells
from alphamf.tools.arrays import Floats


class Moves(NamedTuple):
    """Settings of the online chain: steps, alpha of the speech, and the prior and rule of h."""

    # steps, keep: steps for a frame, and how many of the last ones are added up.
    steps: int
    keep: int
    alpha: float  # Index of the speech
    shape: float  # Shape of the Gamma prior of h
    exponent: float  # Exponent of the multiplicative rule


class FrameState(NamedTuple):
    """The newest frames, and the arrays that the steps update."""

    power: Floats  # |X|^2
    noise: Floats  # Dispersion of the noise, half of its variance; raised to `TINY` in place
    phi: Floats | None  # Phi of the speech; the newest frame's moves in place. None if alpha is 2.
    state: Any  # Random state for the moves of Phi, from `states`; None if alpha is 2.
    # basis, back: W, shape (context, columns, bins), and its transpose, (context, bins, columns).
    basis: Floats
    back: Floats
    response: Floats  # Factor of W, shape (channels, bins)
    rate: Floats  # Rate of the prior of h, shape (channels, columns)
    h: Floats  # Activations, of the same shape; moved in place
    # total, square: the newest frame's gain of the kept steps, and its square, are added to these,
    # shape (channels, bins).
    total: Floats
    square: Floats
    # v, plus, minus: dispersion of the speech and both positive parts of dU/dv as the last step met
    # them; any content before.
    v: Floats
    plus: Floats
    minus: Floats


def move(frame: FrameState, moves: Moves) -> int:
    """Run the steps for one frame, and return the number of accepted Phi proposals."""
    count = 0
    for step in range(moves.steps):
        np.matmul(frame.h, frame.basis, out=frame.v)
        np.multiply(frame.v, frame.response, out=frame.v)
        count += _evaluated(frame, moves.alpha)
        if step >= moves.steps - moves.keep:
            gain = frame.plus[-1] * frame.v[-1] * np.float32(moves.alpha / 2)
            np.add(frame.total, gain, out=frame.total)
            np.add(frame.square, gain * gain, out=frame.square)
        up, down = (
            np.matmul(part * frame.response, frame.back).sum(axis=0)
            for part in (frame.plus, frame.minus)
        )
        up += frame.rate + np.float32(1 - moves.shape) / frame.h
        ratio = (down + np.float32(TINY)) / up
        np.multiply(frame.h, ratio ** np.float32(moves.exponent), out=frame.h)
        np.maximum(frame.h, np.float32(TINY), out=frame.h)
    return count


def _evaluated(frame: FrameState, alpha: float) -> int:
    """Move Phi of the newest frame, and compute both parts of dU/dv of the speech."""
    loops: ModuleType = compiled if compiled.supports(frame.power, 2) else cells
    accepted = 0
    for part, state in ((slice(None, -1), None), (slice(-1, None), frame.state)):
        if not len(frame.power[part]):
            continue
        phi = None if frame.phi is None else frame.phi[part]
        speech = Cells(alpha, frame.v[part], phi, [frame.plus[part], frame.minus[part]])
        noise = Cells(2.0, frame.noise[part], None)
        states = None if state is None else [state, None]
        accepted = loops.evaluate(
            CellOutput.SLOPES, frame.power[part], [speech, noise], states=states
        )[0]
    return int(accepted)
