"""What happens before a voice in a call, and the voice's SI-SDR second by second."""

import numpy as np

from alphamf.audio.resample import resample
from alphamf.scores.score import si_sdr

PAUSE_DB = 20.0
"""A second this far below the mean power of the voice is a pause."""


def sines(sound, rate, *waves):
    """Return a sum of sines, each of an amplitude, a frequency in Hz and a phase."""
    time = np.arange(len(sound)) / rate
    return sum(a * np.sin(2 * np.pi * hertz * time + phase) for a, hertz, phase in waves)


def tone(sound, rate, rng):
    """Return an exact tone."""
    return sines(sound, rate, (0.1, rng.choice([440, 1000, 1004.3]), 0))


def hum(sound, rate, rng):
    """Return the mains with harmonics."""
    first = rng.choice([50, 60])
    return sines(sound, rate, *((0.1 / k, first * k, k) for k in range(1, 12)))


def dial_tone(sound, rate, rng):
    """Return the dial tone of a telephone."""
    pair = (350, 440) if rng.random() < 0.5 else (425, 425)
    return sines(sound, rate, *((0.1, hertz, 0) for hertz in pair))


def replaced(sound, start, stop, value):
    """Return the part with some of its samples replaced."""
    sound = sound.copy()
    sound[start:stop] = value
    return sound


def dropouts(sound, rate, rng):
    """Return the part with 20 to 100 ms missing four times a second."""
    for start in range(0, len(sound), rate // 4):
        sound = replaced(sound, start, start + int(rate * rng.uniform(0.02, 0.1)), 0)
    return sound


def resampled_silence(sound, rate, rng):
    """Return what resampling leaves of silence that follows a sound, and single precision of it."""
    faint = np.float32(10 ** rng.uniform(-8, -5) * rng.standard_normal(len(sound)))
    return resample(faint, rate, 2 * rate)[: len(sound)]


def bursts(sound, rate, rng):
    """Return DC with bursts of samples near the end of single precision."""
    sound = np.full_like(sound, 0.01)
    for start in range(rate // 2, len(sound) - rate // 4, rate // 2):
        sound[start : start + rate // 100] = 1e30 * rng.choice([-1, 1])
    return sound


EVENTS = {
    "tone": tone,
    "hum": hum,
    "dial tone": dial_tone,
    "DC": lambda sound, rate, rng: np.full_like(sound, 0.01),
    "click": lambda sound, rate, rng: replaced(
        sound, -rate // 10, -rate // 10 + max(1, rate // 1000), 1
    ),
    "sample of 1e6": lambda sound, rate, rng: replaced(sound, -rate // 10, -rate // 10 + 1, 1e6),
    "60 dB louder": lambda sound, rate, rng: 1000 * sound,
    "60 dB fainter": lambda sound, rate, rng: sound / 1000,
    "mute": lambda sound, rate, rng: np.zeros_like(sound),
    "dropouts": dropouts,
    "resampled silence": resampled_silence,
    "dither": lambda sound, rate, rng: np.rint(rng.uniform(-1, 1, (2, len(sound))).sum(0)) / 2**15,
    "bursts of 1e30": bursts,
    "none": lambda sound, rate, rng: sound,
}
"""Each changes noisy speech, shape (samples,), given its rate in Hz and a generator."""


def by_second(clean, out, rate):
    """Return the SI-SDR in dB of every whole second, NaN of a pause."""
    count, power = len(clean) // rate, np.mean(clean.astype(float) ** 2)
    found = np.full(count, np.nan)
    for k in range(count):
        part = slice(k * rate, (k + 1) * rate)
        if np.mean(clean[part].astype(float) ** 2) > power * 10 ** (-PAUSE_DB / 10):
            found[k] = si_sdr(clean[part], out[part])
    return found
