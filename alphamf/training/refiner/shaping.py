"""Random processing of sounds for training mixtures: cuts, filters, rooms and telephones."""

from collections.abc import Sequence

import numpy as np

from alphamf.audio.resample import resample
from alphamf.tools.arrays import Reals

Rng = np.random.Generator

TRIES = 6
"""Number of attempts to cut a piece that is loud enough; the last one is used in any case."""

TELEPHONE_RATE = 8000
"""Sampling rate in Hz of telephones."""

KNOTS = 9
"""Number of frequencies with a random filter level; between two, the level is linear in octaves."""

LOWEST = 40.0
"""Frequency in Hz below which a filter's level does not change."""

DB_PER_OCTAVE = 6.02
"""Slope of a spectrum whose magnitude is proportional to the frequency."""


def rms(sound: Reals) -> float:
    """Return the root mean square; slightly above zero for silence."""
    return float(np.sqrt(np.mean(sound * sound)) + 1e-12)


def spoken(sound: Reals) -> Reals:
    """Return the voice: the last row of a sound whose first row is the target of training.

    `sound`: shape (rows, samples), or (samples,), which is returned as it is.
    """
    return sound[-1] if sound.ndim > 1 else sound


def decibels_to_amplitude(level: float) -> float:
    """Return the amplitude factor of a level in dB."""
    return float(10 ** (level / 20))


def log_uniform(rng: Rng, low: float, high: float) -> float:
    """Draw a number from `low` to `high`, both positive, with a uniform logarithm."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def pick(rng: Rng, sounds: Sequence[Reals]) -> Reals:
    """Draw one of the sounds at random."""
    return sounds[int(rng.integers(len(sounds)))]


def change_speed(rng: Rng, sound: Reals, speeds: Sequence[int]) -> Reals:
    """Change the speed of a sound, and its pitch with it, by a random choice of `speeds`.

    `sound`: shape (..., samples), float32. `speeds`: in per cent.
    """
    speed = int(rng.choice(speeds))
    return sound if speed == 100 else resample(sound.T, 100, 10000 // speed).T


def cut_piece(rng: Rng, sound: Reals, samples: int) -> Reals:
    """Cut a piece at a random position of a sound; a sound that is too short is repeated.

    `sound`: shape (..., n).
    """
    length = sound.shape[-1]
    if length < samples:
        sound = np.tile(sound, -(-samples // length))
    start = int(rng.integers(sound.shape[-1] - samples + 1))
    return sound[..., start : start + samples]


def put(result: Reals, sound: Reals, start: int) -> None:
    """Add a sound to another at a sample position; what lies outside of the other is dropped.

    `result`: shape (n,); it is changed. `sound`: shape (samples,).
    """
    sound = sound[max(-start, 0) :]
    start = max(start, 0)
    part = sound[: max(len(result) - start, 0)]
    result[start : start + len(part)] += part


def cut_loud_piece(rng: Rng, sound: Reals, samples: int, fraction: float) -> Reals:
    """Cut a random piece above `fraction` of the sound's level, or the last of `TRIES` pieces."""
    for _ in range(TRIES):
        piece = cut_piece(rng, sound, samples)
        if rms(spoken(piece)) > fraction * rms(spoken(sound)):
            break
    return piece


def shape_spectrum(
    rng: Rng,
    sound: Reals,
    rate: int,
    spread: float = 6.0,
    slope: tuple[float, float] = (-2.0, 0.3),
) -> Reals:
    """Apply a random smooth filter to a sound.

    `sound`, `rate`: shape (..., samples), and its sampling rate in Hz. `spread`: standard deviation
    of the level at `KNOTS` frequencies, in dB. `slope`: range, in units of `DB_PER_OCTAVE`.
    """
    samples = sound.shape[-1]
    frequencies = np.fft.rfftfreq(samples, 1 / rate)
    octaves = np.log2(np.maximum(frequencies, LOWEST) / 1000.0)  # from 1 kHz
    knots = np.linspace(octaves[0], octaves[-1], KNOTS)
    level = np.interp(octaves, knots, rng.normal(0, spread, KNOTS))
    # The slope ends 2.5 octaves below 1 kHz, or nothing but rumble would be left.
    level = level + rng.uniform(*slope) * DB_PER_OCTAVE * np.clip(octaves, -2.5, None)
    return np.fft.irfft(np.fft.rfft(sound) * 10 ** (level / 20), samples)


def modulate(rng: Rng, sound: Reals, rate: int, deepest: float = 7.0) -> Reals:
    """Vary a sound's level randomly, every 0.06 to 2 s, in one to five bands.

    `deepest`: largest standard deviation of the level in dB.
    """
    samples = len(sound)
    depth = rng.uniform(0, deepest)
    seconds = log_uniform(rng, 0.06, 2.0)
    knots = max(2, int(samples / rate / seconds) + 2)
    bands = int(rng.integers(1, 6))
    levels = rng.normal(0, depth, (bands, knots))
    times = np.linspace(0, knots - 1, samples)
    factors = [10 ** (np.interp(times, np.arange(knots), level) / 20) for level in levels]
    result: Reals = np.zeros(samples)
    if bands == 1:
        result += sound * factors[0]
        return result
    spectrum = np.fft.rfft(sound)
    # Narrower at low frequencies, as in the ear; neighbours overlap.
    centres = np.linspace(0, 1, bands) ** 1.7 * (len(spectrum) - 1)
    for factor, weight in zip(factors, np.eye(bands), strict=True):
        band = np.interp(np.arange(len(spectrum)), centres, weight)
        result += np.fft.irfft(spectrum * band, samples) * factor
    return result


def room(rng: Rng, sound: Reals, rate: int) -> Reals:
    """Add reverberation; the response is decaying noise with a T60 of 0.1 to 0.9 s."""
    length = int(rate * rng.uniform(0.1, 0.9))
    decay = np.exp(-6.9 * np.arange(length) / length)  # e^-6.9 is -60 dB
    response = rng.standard_normal(length) * decay * rng.uniform(0.05, 0.5)
    response[0] = 1
    return convolved(sound, response)[..., : sound.shape[-1]]


def convolved(sound: Reals, response: Reals) -> Reals:
    """Convolve sounds, shape (..., samples), with a response, shape (n,), and keep the tail."""
    from scipy.signal import fftconvolve

    return fftconvolve(sound, response.reshape((1,) * (sound.ndim - 1) + (-1,)), axes=-1)


def filter_telephone(rng: Rng, sound: Reals, rate: int) -> Reals:
    """Filter a sound like a telephone: pass a band with random ends, 150-350 Hz and 3-3.7 kHz."""
    samples = sound.shape[-1]
    frequencies = np.fft.rfftfreq(samples, 1 / rate)
    low, high = rng.uniform(150, 350), rng.uniform(3000, 3700)
    below = 1 + (low / np.maximum(frequencies, 1)) ** rng.uniform(4, 10)
    above = 1 + (frequencies / high) ** rng.uniform(10, 40)
    return np.fft.irfft(np.fft.rfft(sound) * np.sqrt(1 / below / above), samples)


def begin_late(rng: Rng, sound: Reals, rate: int) -> Reals:
    """Silence a voice before the quietest moment within 0.1 s of a random time; fade in over 20 ms.

    The random time is 0.3 to 1.5 s after the start, but not after the middle.
    """
    from scipy.ndimage import uniform_filter1d

    samples, fade = sound.shape[-1], rate // 50
    drawn = min(int(rate * rng.uniform(0.3, 1.5)), samples // 2)
    first = max(0, drawn - rate // 10)
    power = uniform_filter1d(spoken(sound) ** 2, fade)
    begin = first + np.argmin(power[first : drawn + rate // 10])
    return sound * uniform_filter1d((np.arange(samples) >= begin).astype(float), fade)


def add_pauses(rng: Rng, sound: Reals, rate: int) -> Reals:
    """Attenuate a sound in pauses of 0.2 to 1.5 s, by 15 to 60 dB, with fades of 5 to 100 ms."""
    from scipy.ndimage import uniform_filter1d

    heard = np.ones(len(sound))
    start = int(rate * rng.uniform(0.0, 1.0))
    while start < len(sound):
        end = start + int(rate * log_uniform(rng, 0.2, 1.5))
        heard[start:end] = decibels_to_amplitude(-rng.uniform(15, 60))
        start = end + int(rate * log_uniform(rng, 0.2, 2.0))
    fade = max(1, int(rate * log_uniform(rng, 0.005, 0.1)))
    return sound * uniform_filter1d(heard, fade)
