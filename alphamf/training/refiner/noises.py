"""Noises to learn the refiner from: made up of nothing, of voices, or of recorded sounds.

No noise in the world is one of these, but the world's should lie among them. All that is drawn
comes from `rng`, so that a generator of the same seed makes the same sound.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from alphamf.tools.arrays import Reals
from alphamf.training.refiner.events import SPEEDS, crackle, events
from alphamf.training.refiner.shaping import (
    NARROW,
    Rng,
    at_speed,
    cut,
    decibels,
    log_uniform,
    loud_cut,
    modulate,
    pick,
    rms,
    room,
    shape_spectrum,
)

NARROW_SHARES = {
    "place": 0.36,
    "coloured": 0.20,
    "hum": 0.03,
    "babble": 0.16,
    "events": 0.10,
    "recorded": 0.15,
}
"""How often a layer of noise is of each kind, for telephones: calls come from halls and streets."""

WIDE_SHARES = {
    "place": 0.07,
    "coloured": 0.08,
    "hum": 0.02,
    "babble": 0.08,
    "crackle": 0.17,
    "events": 0.25,
    "recorded": 0.33,
}
"""The same above the rate of telephones."""

NARROW_LAYERS, WIDE_LAYERS = (0.5, 0.25), (0.3, 0.1)
"""Chances of a second layer of noise, and of one more."""

RUMBLING = 0.3
"""Share of the noises with rumble below the voice, up to 12 dB above the rest."""


def noise(
    rng: Rng, samples: int, rate: int, voices: Sequence[Reals], sounds: Sequence[Reals]
) -> Reals:
    """Make a noise of one to three layers, each of one of seven kinds, some in a room; some rumble.

    Parameters
    ----------
    rng
        Where all is drawn from.
    samples, rate
        Length, and samples per second.
    voices, sounds
        Recordings at `rate`, float32 of shape (samples,) each, of any length: speech for babble,
        and sounds that are taken as they are.

    Returns
    -------
    ndarray
        Shape (samples,), float64.
    """
    wide = rate > NARROW
    shares = WIDE_SHARES if wide else NARROW_SHARES
    result = np.zeros(samples)
    layers = 1 + sum(rng.random() < chance for chance in (WIDE_LAYERS if wide else NARROW_LAYERS))
    for k in range(layers):
        kind = list(shares)[rng.choice(len(shares), p=list(shares.values()))]
        if kind == "place":
            layer = place(rng, samples, rate, voices)
        elif kind == "coloured":
            layer = coloured(rng, samples, rate)
        elif kind == "hum":
            layer = hum(rng, samples, rate)
        elif kind == "babble":
            layer = babble(rng, samples, rate, voices)
        elif kind == "crackle":
            layer = crackle(rng, samples, rate)
        elif kind == "events":
            layer = events(rng, samples, rate, sounds)
        else:
            layer = recorded(rng, samples, rate, sounds)
        if rng.random() < 0.3:
            layer = room(rng, layer, rate)
        # All but the first are up to 12 dB softer.
        result += layer / rms(layer) * (decibels(rng.uniform(-12, 0)) if k else 1)
    if rng.random() < RUMBLING:
        layer = rumble(rng, samples, rate)
        result += layer / rms(layer) * decibels(rng.uniform(-10, 12))
    return result


def rumble(rng: Rng, samples: int, rate: int) -> Reals:
    """Make what wind, handling and hums leave in a microphone: next to nothing above 80 Hz."""
    frequencies = np.fft.rfftfreq(samples, 1 / rate)
    top = log_uniform(rng, 12, 80)
    gain = 1 / (1 + (frequencies / top) ** rng.uniform(2, 8))
    sound = np.fft.irfft(np.fft.rfft(rng.standard_normal(samples)) * gain, samples)
    return modulate(rng, sound, rate)


def coloured(rng: Rng, samples: int, rate: int) -> Reals:
    """Make white noise with a spectrum laid over it, whose level wanders."""
    white = rng.standard_normal(samples)
    return modulate(rng, shape_spectrum(rng, white, rate, 5.0, (-1.3, 0.3)), rate)


def hum(rng: Rng, samples: int, rate: int) -> Reals:
    """Make a steady tone of 45 to 900 Hz with harmonics, as engines and mains have it."""
    from scipy.signal import lfilter

    frequency = log_uniform(rng, 45, 900)
    # A frequency that drifts over a thousand samples, by a few per cent at most.
    drift = lfilter([1], [1, -0.999], rng.standard_normal(samples)) * 1e-3
    wander = np.cumsum(drift) / rate * frequency * rng.uniform(0, 0.6)
    phase = 2 * np.pi * (frequency * (np.arange(samples) / rate) + wander)
    decay = rng.uniform(0.3, 1.6)
    result = np.zeros(samples)
    for k in range(1, int(min(40, 0.45 * rate / frequency)) + 1):
        level = k**-decay * np.exp(rng.normal(0, 0.7))
        result += level * np.sin(k * phase + rng.uniform(0, 6.28))
    return modulate(rng, result, rate)


def place(rng: Rng, samples: int, rate: int, voices: Sequence[Reals]) -> Reals:
    """Make what is heard in a hall or a street: many people and a steady rush, in a room."""
    white = rng.standard_normal(samples)
    rush = modulate(rng, shape_spectrum(rng, white, rate, 4.0, (-1.2, 0.0)), rate, 3.0)
    crowd = babble(rng, samples, rate, voices, (8, 60))
    result = rush / rms(rush) + crowd / rms(crowd) * decibels(rng.uniform(-15, 10))
    return room(rng, result, rate) if rng.random() < 0.7 else result


def babble(
    rng: Rng,
    samples: int,
    rate: int,
    voices: Sequence[Reals],
    count: tuple[float, float] = (3, 40),
) -> Reals:
    """Make a crowd of `count` speakers, at distances of their own, some played backwards."""
    speakers = int(log_uniform(rng, *count))
    result = np.zeros(samples)
    for _ in range(speakers):
        voice = cut(rng, pick(rng, voices), samples)
        voice = voice[::-1] if rng.random() < 0.3 else voice
        result += voice / rms(voice) * decibels(rng.normal(0, 4))
    return shape_spectrum(rng, result, rate, 3.0, (-0.8, 0.3))


def recorded(rng: Rng, samples: int, rate: int, sounds: Sequence[Reals]) -> Reals:
    """Take a stretch of a recorded sound, faster or slower, half of them through a filter.

    The longer a sound, the more often it is taken: the short ones are for `events`.
    """
    lengths = np.array([len(sound) for sound in sounds])
    which = int(rng.choice(len(sounds), p=lengths / lengths.sum()))
    sound = at_speed(rng, sounds[which], SPEEDS)
    sound = loud_cut(rng, sound, samples, 0.1)
    if rng.random() < 0.5:
        sound = shape_spectrum(rng, sound, rate, 3.0, (-0.7, 0.3))
    return sound.astype(float)
