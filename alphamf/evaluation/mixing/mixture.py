"""Speech and noise, added at a chosen signal-to-noise ratio."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphamf.audio.speech_level import active_power
from alphamf.errors import AlphaMFError
from alphamf.tools.arrays import Floats

LEVELS = ("plain", "active")
"""Ways to measure the power of speech: over the whole recording, or over active speech."""

SHORTEST = 0.1
"""Minimum length of a noise in seconds."""

FADE = 0.05
"""Overlap in seconds of the end and the start of a noise that is repeated."""

QUIET_DB = 40.0
"""Pieces more than this many dB below the loudest one are pauses of the noise."""

MOST_SILENT = 0.5
"""Maximum proportion of digital silence in a piece of noise."""

_STEP = 0.01


class Noise(NamedTuple):
    """A noise to cut pieces from; made by `noise`."""

    audio: Floats  # Samples without their mean, shape (samples,)
    energy: NDArray[np.float64]  # Energy of the first k steps, at index k; shape (steps + 1,)
    # step, fade: pieces of a noise that is not repeated begin at multiples of `step` samples; if it
    # is repeated, its end and its start overlap by `fade` samples.
    step: int
    fade: int


def noise(audio: Floats, rate: int) -> Noise:
    """Prepare a noise, shape (samples,), for `mix`; raise AlphaMFError if too short or silent."""
    if len(audio) < SHORTEST * rate:
        raise AlphaMFError(
            f"a noise must last at least {SHORTEST:g} s, not {len(audio) / rate:.3f} s"
        )
    if audio.min() == audio.max():
        raise AlphaMFError("a noise must not be completely silent")
    audio = audio - np.mean(audio, dtype=np.float64).astype(audio.dtype)
    step = max(1, round(_STEP * rate))
    energy = np.add.reduceat(np.square(audio, dtype=np.float64), np.arange(0, len(audio), step))
    fade = min(round(FADE * rate), len(audio) // 2)
    return Noise(audio, np.concatenate([[0.0], np.cumsum(energy)]), step, fade)


def power(speech: Floats, rate: int, level: str) -> float:
    """Return the power of speech without its mean; if `level` is "active", of active speech only.

    `speech`: shape (samples,); if it is constant, an AlphaMFError is raised. `level`: see `LEVELS`.
    """
    if speech.min() == speech.max():
        raise AlphaMFError("speech must not be completely silent")
    if level == "active":
        return active_power(speech, rate)
    return float(np.var(speech, dtype=np.float64))


def mix(speech: Floats, power: float, noise: Noise, snr: float, rng: Any) -> tuple[Floats, int]:
    """Add noise to speech.

    A piece of the noise as long as the speech is drawn among those that are not pauses, and scaled
    by its own power; a noise that is shorter than the speech is repeated, from any sample on.
    Constant offsets of the whole speech and of the whole noise do not count as power; the mean of
    the drawn piece of noise does.

    Parameters
    ----------
    speech
        Shape (samples,).
    power
        Power of the speech, from the function `power`.
    noise
        Made by the function `noise` at the same sampling rate.
    snr
        Ratio of the powers, in dB.
    rng
        Generator that draws the piece.

    Returns
    -------
    noisy : ndarray
        Shape (samples,).
    offset : int
        The sample of the noise, or of its repetition, that the piece begins at.

    Raises
    ------
    AlphaMFError
        The piece of the noise is silent, or more than half of it is digital silence.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> speech, hiss = rng.standard_normal((2, 16000)).astype(np.float32)
    >>> noisy, offset = mix(speech, 1.0, noise(hiss, 16000), 20.0, rng)
    >>> round(float(np.std(noisy - speech)), 1)  # 20 dB below
    0.1
    """
    piece, offset = _cut(noise, len(speech), rng)
    mean_square = float(np.mean(np.square(piece, dtype=np.float64)))
    if not mean_square > 0:
        raise AlphaMFError(
            "the part of the noise that was drawn is silent; the speech is too short for this noise"
        )
    steps = piece[: len(piece) // noise.step * noise.step].reshape(-1, noise.step)
    silent = float(np.mean(np.ptp(steps, axis=1) == 0)) if len(steps) else 0.0
    if silent > MOST_SILENT:
        raise AlphaMFError(
            f"{100 * silent:.0f} % of the noise is digital silence, so that the rest would be "
            "louder than the ratio says; cut the silence off"
        )
    scale = math.sqrt(power / mean_square) * 10 ** (-snr / 20)
    return speech + piece * np.float32(scale), offset


def _cut(noise: Noise, samples: int, rng: Any) -> tuple[Floats, int]:
    if len(noise.audio) < samples:
        ring = _ring(noise.audio, noise.fade)
        offset = int(rng.integers(len(ring)))
        return np.take(ring, np.arange(offset, offset + samples), mode="wrap"), offset
    starts = (len(noise.audio) - samples) // noise.step + 1
    within = max(1, samples // noise.step)
    energy = noise.energy[within : within + starts] - noise.energy[:starts]
    loud = np.flatnonzero(energy >= energy.max() * 10 ** (-QUIET_DB / 10))
    offset = int(loud[rng.integers(len(loud))]) * noise.step
    return noise.audio[offset : offset + samples], offset


def _ring(audio: Floats, fade: int) -> Floats:
    """Return a noise, shortened by `fade`: its end is crossfaded into its start at equal power."""
    phase = (np.arange(fade, dtype=np.float32) + np.float32(0.5)) * np.float32(np.pi / 2 / fade)
    ring = audio[: len(audio) - fade].copy()
    ring[:fade] = ring[:fade] * np.sin(phase) + audio[len(audio) - fade :] * np.cos(phase)
    return ring
