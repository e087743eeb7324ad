"""Noises for training mixtures: synthetic, of voices, or of recorded sounds.

All functions return shape (samples,), float64.
"""

from collections.abc import Callable, Sequence

import numpy as np

from alphamf.tools.arrays import Reals
from alphamf.training.refiner.config import Mixtures
from alphamf.training.refiner.events import SPEEDS, crackle, events
from alphamf.training.refiner.music import music
from alphamf.training.refiner.shaping import (
    Rng,
    change_speed,
    cut_loud_piece,
    cut_piece,
    decibels_to_amplitude,
    log_uniform,
    modulate,
    pick,
    rms,
    room,
    shape_spectrum,
)

IN_A_ROOM = 0.3
"""Fraction of the layers that have reverberation."""


def noise(
    rng: Rng,
    samples: int,
    rate: int,
    voices: Sequence[Reals],
    sounds: Sequence[Reals],
    recipe: Mixtures,
) -> Reals:
    """Draw a noise of one to three layers of eight kinds, sometimes with reverberation.

    `samples`, `rate`: length, and sampling rate in Hz. `voices`, `sounds`: recordings at `rate`,
    float32 of shape (n,) each, of any length: speech for babble, and sounds that are used as they
    are. Returns: shape (samples,), float64.
    """
    makers: dict[str, Callable[[], Reals]] = {
        "place": lambda: place_noise(rng, samples, rate, voices),
        "coloured": lambda: coloured_noise(rng, samples, rate),
        "hum": lambda: hum(rng, samples, rate),
        "babble": lambda: babble(rng, samples, rate, voices),
        "crackle": lambda: crackle(rng, samples, rate),
        "events": lambda: events(rng, samples, rate, sounds),
        "recorded": lambda: recorded_noise(rng, samples, rate, sounds),
        "music": lambda: music(rng, samples, rate),
    }
    kinds, chances = list(recipe.kinds), np.array(list(recipe.kinds.values()))
    result = np.zeros(samples)
    for k in range(1 + sum(rng.random() < chance for chance in recipe.layers)):
        layer = makers[kinds[rng.choice(len(kinds), p=chances / chances.sum())]]()
        if rng.random() < IN_A_ROOM:
            layer = room(rng, layer, rate)
        # All but the first are up to 12 dB softer.
        result += layer / rms(layer) * (decibels_to_amplitude(rng.uniform(-12, 0)) if k else 1)
    if rng.random() < recipe.rumble:
        layer = rumble(rng, samples, rate)
        result += layer / rms(layer) * decibels_to_amplitude(rng.uniform(-10, 12))
    return result


def rumble(rng: Rng, samples: int, rate: int) -> Reals:
    """Make the low-frequency noise of wind and handling, with almost no energy above 80 Hz."""
    frequencies = np.fft.rfftfreq(samples, 1 / rate)
    top = log_uniform(rng, 12, 80)
    gain = 1 / (1 + (frequencies / top) ** rng.uniform(2, 8))
    sound = np.fft.irfft(np.fft.rfft(rng.standard_normal(samples)) * gain, samples)
    return modulate(rng, sound, rate)


def coloured_noise(rng: Rng, samples: int, rate: int) -> Reals:
    """Make noise with a random smooth spectrum and a varying level."""
    white = rng.standard_normal(samples)
    return modulate(rng, shape_spectrum(rng, white, rate, 5.0, (-1.3, 0.3)), rate)


def hum(rng: Rng, samples: int, rate: int) -> Reals:
    """Make the hum of engines or mains: a steady tone of 45 to 900 Hz with harmonics."""
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


def place_noise(rng: Rng, samples: int, rate: int, voices: Sequence[Reals]) -> Reals:
    """Make the noise of a hall or a street: many speakers and steady noise, in a room.

    `voices`: recordings of speech at `rate`, float32 of shape (n,) each.
    """
    white = rng.standard_normal(samples)
    steady = modulate(rng, shape_spectrum(rng, white, rate, 4.0, (-1.2, 0.0)), rate, 3.0)
    crowd = babble(rng, samples, rate, voices, (8, 60))
    result = steady / rms(steady) + crowd / rms(crowd) * decibels_to_amplitude(rng.uniform(-15, 10))
    return room(rng, result, rate) if rng.random() < 0.7 else result


def babble(
    rng: Rng,
    samples: int,
    rate: int,
    voices: Sequence[Reals],
    count: tuple[float, float] = (3, 40),
) -> Reals:
    """Make babble of many speakers at different levels, some played backwards.

    `voices`: recordings of speech at `rate`, float32 of shape (n,) each.
    """
    speakers = int(log_uniform(rng, *count))
    result = np.zeros(samples)
    for _ in range(speakers):
        voice = cut_piece(rng, pick(rng, voices), samples)
        voice = voice[::-1] if rng.random() < 0.3 else voice
        result += voice / rms(voice) * decibels_to_amplitude(rng.normal(0, 4))
    return shape_spectrum(rng, result, rate, 3.0, (-0.8, 0.3))


def recorded_noise(rng: Rng, samples: int, rate: int, sounds: Sequence[Reals]) -> Reals:
    """Cut a piece of a recorded noise, at a random speed; half of them are filtered.

    Sounds are drawn in proportion to their lengths.

    `sounds`: recordings at `rate`, float32 of shape (n,) each.
    """
    lengths = np.array([len(sound) for sound in sounds])
    which = int(rng.choice(len(sounds), p=lengths / lengths.sum()))
    sound = change_speed(rng, sounds[which], SPEEDS)
    sound = cut_loud_piece(rng, sound, samples, 0.1)
    if rng.random() < 0.5:
        sound = shape_spectrum(rng, sound, rate, 3.0, (-0.7, 0.3))
    return sound.astype(float)
