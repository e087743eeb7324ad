"""Noises for training mixtures: synthetic, of events, of voices, or of recorded sounds.

All functions that make a sound return shape (samples,), float64. Those in `SYNTHETIC`, which make
the sound of one event, take a generator and the `Span` to fill.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from alphamf.tools.arrays import Reals
from alphamf.training.refiner.config import Mixtures
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
    put,
    rms,
    room,
    shape_spectrum,
)


class Span(NamedTuple):
    """Sample times, level envelope and rate of a short sound."""

    clock: Reals  # Times of its samples in s, from zero, shape (samples,)
    envelope: Reals  # Envelope of its level, shape (samples,)
    rate: int  # Sampling rate in Hz


def span(rng: Rng, samples: int, rate: int) -> Span:
    """Draw a span whose envelope has a fast or slow attack and an exponential decay.

    `samples`, `rate`: length, and sampling rate in Hz.
    """
    clock = np.arange(samples) / rate
    return Span(clock, _envelope(rng, clock, samples / rate), rate)


def knock(rng: Rng, span: Span) -> Reals:
    """Draw a knock: an impulse through one to three resonances in series, 30 to 2000 Hz wide."""
    sound: Reals = np.zeros(len(span.clock))
    sound[0] = 1
    for _ in range(int(rng.integers(1, 4))):
        frequency = rng.uniform(150, 0.45 * span.rate)
        sound = _resonance(sound, span.rate, frequency, log_uniform(rng, 30, 2000))
    return sound


def burst(rng: Rng, span: Span) -> Reals:
    """Draw a burst of coloured noise."""
    return shape_spectrum(rng, rng.standard_normal(len(span.clock)), span.rate) * span.envelope


def chime(rng: Rng, span: Span) -> Reals:
    """Draw a chime: one to five inharmonic tones."""
    clock, envelope, rate = span
    tones = np.zeros(len(clock))
    for _ in range(int(rng.integers(1, 6))):
        tone = np.sin(2 * np.pi * rng.uniform(200, 0.45 * rate) * clock)
        tones += tone * np.exp(rng.normal(0, 0.8))
    return tones * envelope


def cry(rng: Rng, span: Span) -> Reals:
    """Draw a cry: a harmonic tone of gliding pitch with some breath noise.

    Half of the cries swell like a howl; the others pass a random filter, and fade like a bark.
    """
    clock, envelope, rate = span
    seconds = len(clock) / rate
    middle = rng.uniform(120, 1200)
    glide = rng.uniform(-0.5, 0.5) * clock / seconds
    bend = rng.uniform(-0.3, 0.3) * np.sin(np.pi * clock / seconds)
    frequency = middle * (1 + glide + bend)
    phase = 2 * np.pi * np.cumsum(frequency) / rate
    sound: Reals = np.zeros(len(clock))
    for k in range(1, 1 + int(rng.integers(2, 14))):
        if k * frequency.max() < 0.48 * rate:
            sound += k ** -rng.uniform(0.2, 1.5) * np.sin(k * phase)
    sound += rng.uniform(0, 0.6) * rms(sound) * rng.standard_normal(len(sound))
    if rng.random() < 0.5:
        sound *= np.sin(np.pi * (clock / seconds)) ** rng.uniform(0.3, 2)
        return sound
    return shape_spectrum(rng, sound, rate, 8.0, (-0.7, 0.5)) * envelope


def cough(rng: Rng, span: Span) -> Reals:
    """Draw a cough or a laugh: puffs of breath and voice through three to five resonances."""
    clock, envelope, rate = span
    seconds = len(clock) / rate
    pitch = log_uniform(rng, 70, 400) * (1 + rng.uniform(-0.3, 0.3) * clock / seconds)
    cycles = np.cumsum(pitch) / rate
    pulses = np.diff(np.floor(cycles), prepend=0) * np.sqrt(rate / pitch)
    breath = rng.standard_normal(len(clock))
    sound = rng.uniform(0, 1) * pulses + rng.uniform(0.1, 1) * breath
    puffs = np.abs(np.sin(np.pi * rng.uniform(0.5, 4) * clock / seconds)) ** rng.uniform(0.3, 3)
    count, width = int(rng.integers(3, 6)), np.exp(rng.normal(5, 0.6))
    return _resonances(rng, sound, rate, count, (250, 5000), width) * puffs * envelope


def creak(rng: Rng, span: Span) -> Reals:
    """Draw a creak (a door, a zip, paper): impulses of drifting rate through resonances."""
    clock, _, rate = span
    seconds = len(clock) / rate
    speed = log_uniform(rng, 15, 600) * np.exp(rng.uniform(-1.5, 1.5) * clock / seconds)
    if rng.random() < 0.5:
        slips = np.diff(np.floor(np.cumsum(speed) / rate), prepend=0)
    else:
        slips = (rng.random(len(clock)) < speed / rate).astype(float)
    slips[0] = 1
    slips *= np.exp(rng.normal(0, 0.5, len(clock)))
    count, width = int(rng.integers(2, 6)), np.exp(rng.normal(4.5, 1))
    swell = np.sin(np.pi * (clock / seconds)) ** rng.uniform(0.2, 2)
    return _resonances(rng, slips, rate, count, (200, 7000), width) * swell


def _envelope(rng: Rng, clock: Reals, seconds: float) -> Reals:
    """Draw an envelope with a fast or slow attack and an exponential decay."""
    envelope: Reals = np.exp(-clock / seconds * rng.uniform(3, 8))
    envelope *= np.minimum(1, clock / (seconds * rng.uniform(0.005, 0.3)) + 0.02)
    return envelope


def _resonances(
    rng: Rng, sound: Reals, rate: int, count: int, between: tuple[float, float], width: float
) -> Reals:
    """Filter by `count` parallel resonances at frequencies `between`, about `width` wide, in Hz."""
    result: Reals = np.zeros(len(sound))
    for _ in range(count):
        frequency = log_uniform(rng, between[0], min(between[1], 0.45 * rate))
        loud = np.exp(rng.normal(0, 0.8))
        result += loud * _resonance(sound, rate, frequency, width * np.exp(rng.normal(0, 0.4)))
    return result


def _resonance(sound: Reals, rate: int, frequency: float, width: float) -> Reals:
    """Filter by a resonance, in Hz; noise gets a similar level for any `width` < `frequency`."""
    from scipy.signal import lfilter

    radius = np.exp(-np.pi * width / rate)
    poles = [1, -2 * radius * np.cos(2 * np.pi * frequency / rate), radius * radius]
    return lfilter([np.sqrt(1 - radius)], poles, sound)


SPEEDS = tuple(range(60, 165, 5))
"""Playing speeds of a recording in per cent, which scale its pitch as well."""

Maker = Callable[[Rng, Span], Reals]
"""A function that draws a short sound of the length of a span."""

SYNTHETIC: tuple[Maker, ...] = (knock, burst, burst, chime, cry, cry, cough, creak)
"""Makers of synthetic sounds; those that are listed twice are drawn twice as often as others."""


def events(rng: Rng, samples: int, rate: int, sounds: Sequence[Reals]) -> Reals:
    """Make events of one kind, about 0.4 to 25 per second, of one or two parts of 4 to 500 ms each.

    A part is a sound of `SYNTHETIC`, a piece of a recording, or a piece with another's envelope.
    Times are random, regular or in bouts; events are copies, filtered copies or new random draws.

    `samples`, `rate`: length, and sampling rate in Hz. `sounds`: recordings at `rate`, float32 of
    shape (n,) each, of any length. Returns: shape (samples,), float64.
    """
    make = _event_maker(rng, rate, sounds)
    alike = rng.random()
    first = make()
    result = np.zeros(samples)
    for start in _times(rng, samples / rate):
        event = first
        if alike < 0.4:
            event = make()
        elif alike < 0.7:
            event = shape_spectrum(rng, first, rate, 3.0, (-0.3, 0.3))
        put(result, event * decibels_to_amplitude(rng.normal(0, 4)), int(start * rate))
    return result


def crackle(rng: Rng, samples: int, rate: int) -> Reals:
    """Make crackle (fires, records, gravel, keyboards): clicks of 1 to 60 ms, 3 to 600 per second.

    There are one to four kinds of clicks. Their rate varies; their amplitudes have a heavy tail.

    Returns: shape (samples,), float64.
    """
    from scipy.signal import fftconvolve

    per_second, tail = log_uniform(rng, 3, 600), rng.uniform(0.7, 2.2)
    knots = max(2, int(samples / rate / log_uniform(rng, 0.05, 1.5)) + 2)
    levels = rng.normal(0, rng.uniform(0, 1.5), knots)
    trend = np.exp(np.interp(np.linspace(0, knots - 1, samples), np.arange(knots), levels))
    kinds = int(rng.integers(1, 5))
    result = np.zeros(samples)
    for _ in range(kinds):
        hits = np.flatnonzero(rng.random(samples) < trend * per_second / kinds / rate)
        if not len(hits):
            hits = rng.integers(samples, size=1)
        sizes = np.minimum(rng.pareto(tail, len(hits)) + 1, 100)
        train = np.zeros(samples)
        train[hits] = sizes * rng.choice([-1, 1], len(hits))
        length = max(int(rate * log_uniform(rng, 0.001, 0.06)), 16)
        make = (knock, knock, burst)[int(rng.integers(3))]
        click = make(rng, span(rng, length, rate))
        click /= np.abs(click).max() + 1e-9
        result += fftconvolve(train, click)[:samples] * decibels_to_amplitude(rng.normal(0, 5))
    return shape_spectrum(rng, result, rate, 4.0, (-0.7, 0.4))


def _event_maker(rng: Rng, rate: int, sounds: Sequence[Reals]) -> Callable[[], Reals]:
    """Draw a kind of event with one or two parts, and return a function that makes such events."""

    def piece(rng: Rng, span: Span) -> Reals:
        samples = len(span.clock)
        cut = cut_loud_piece(rng, pick(rng, sounds), 2 * samples, 0.3)
        cut = change_speed(rng, cut, SPEEDS)[:samples]
        return shape_spectrum(rng, cut, rate, 5.0, (-0.7, 0.5)) * span.envelope

    def cross(rng: Rng, span: Span) -> Reals:
        other = cut_loud_piece(rng, pick(rng, sounds), len(span.clock), 0.3)
        sound = piece(rng, span._replace(envelope=np.ones_like(span.envelope)))
        return sound * _level(other, rate) / (_level(sound, rate) + 0.01 * rms(sound))

    makers = (*SYNTHETIC, *[piece] * 4, *[cross] * 3)
    parts = [makers[rng.integers(len(makers))] for _ in range(1 + (rng.random() < 0.3))]
    delay, quieter = rng.uniform(0, 0.15), decibels_to_amplitude(rng.normal(-3, 6))

    def make() -> Reals:
        length = max(int(rate * log_uniform(rng, 0.004, 0.5)), 16)
        late = int(delay * rate)
        result = np.zeros((len(parts) - 1) * late + length)
        for k, part in enumerate(parts):
            event = part(rng, span(rng, length, rate))
            event = event / (np.abs(event).max() + 1e-9) * quieter**k
            put(result, event, k * late)
        return result

    return make


def _times(rng: Rng, seconds: float) -> list[float]:
    """Draw onsets in s: random, equally spaced, or in bouts, which may speed up or slow down."""
    per_second = log_uniform(rng, 0.4, 25)
    count = max(1, int(rng.poisson(per_second * seconds)))
    kind = rng.random()
    if kind < 0.4:
        return list(rng.uniform(0, seconds, count))
    if kind < 0.6:
        return list((np.arange(count) + rng.uniform()) / count * seconds)
    times: list[float] = []
    time, apart = -rng.exponential(0.3), log_uniform(rng, 0.04, 0.6)
    size, pause = rng.uniform(1, 8), log_uniform(rng, 0.3, 2)
    acceleration = np.exp(rng.normal(0, 0.15)) if rng.random() < 0.4 else 1.0
    while time < seconds:
        step = apart
        for _ in range(1 + int(rng.poisson(size))):
            times.append(time)
            time += step * np.exp(rng.normal(0, 0.15))
            step *= acceleration
        time += pause * rng.exponential()
    inside = [each for each in times if 0 <= each < seconds]
    return inside or [rng.uniform(0, seconds)]


def _level(sound: Reals, rate: int) -> Reals:
    """Return the root mean square of a sound over 5 ms around each sample, shape (samples,)."""
    from scipy.ndimage import uniform_filter1d

    power = uniform_filter1d(np.asarray(sound, float) ** 2, max(1, rate // 200))
    return np.sqrt(np.maximum(power, 0))


IN_A_ROOM = 0.3
"""Fraction of the layers of noise to which reverberation is added."""


def noise(
    rng: Rng,
    samples: int,
    rate: int,
    voices: Sequence[Reals],
    sounds: Sequence[Reals],
    recipe: Mixtures,
) -> Reals:
    """Draw a noise: layers of the recipe's kinds, some with reverberation, and sometimes rumble.

    `samples`, `rate`: length, and sampling rate in Hz. `voices`, `sounds`: recordings at `rate`,
    float32 of shape (n,) each, of any length: speech for babble, and other sounds for events and
    recorded noise. Returns: shape (samples,), float64.
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
    """Make the noise of wind and handling: white noise through a low-pass filter of 12 to 80 Hz."""
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
    """Make the hum of engines or mains: a slightly drifting tone of 45 to 900 Hz with harmonics."""
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
    """Make the noise of a hall or a street: many speakers and steady noise, often in a room.

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

    `voices`: speech at `rate`, float32 of shape (n,) each. `count`: range of the speakers' number.
    """
    speakers = int(log_uniform(rng, *count))
    result = np.zeros(samples)
    for _ in range(speakers):
        voice = cut_piece(rng, pick(rng, voices), samples)
        voice = voice[::-1] if rng.random() < 0.3 else voice
        result += voice / rms(voice) * decibels_to_amplitude(rng.normal(0, 4))
    return shape_spectrum(rng, result, rate, 3.0, (-0.8, 0.3))


def recorded_noise(rng: Rng, samples: int, rate: int, sounds: Sequence[Reals]) -> Reals:
    """Cut a piece of a recorded noise, played at a random speed; half of the pieces are filtered.

    The recording is drawn with a probability proportional to its length.

    `sounds`: recordings at `rate`, float32 of shape (n,) each.
    """
    lengths = np.array([len(sound) for sound in sounds])
    which = int(rng.choice(len(sounds), p=lengths / lengths.sum()))
    sound = change_speed(rng, sounds[which], SPEEDS)
    sound = cut_loud_piece(rng, sound, samples, 0.1)
    if rng.random() < 0.5:
        sound = shape_spectrum(rng, sound, rate, 3.0, (-0.7, 0.3))
    return sound.astype(float)
