"""Events to learn the refiner from: short sounds, some regular, made up or cut from recordings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from alphamf.tools.arrays import Reals
from alphamf.training.refiner.shaping import (
    Rng,
    at_speed,
    decibels,
    log_uniform,
    loud_cut,
    pick,
    rms,
    shape_spectrum,
)

SPEEDS = tuple(range(60, 165, 5))
"""Per cent of a recorded sound's speed, and with it of its pitch."""


def events(rng: Rng, samples: int, rate: int, sounds: Sequence[Reals]) -> Reals:
    """Make events of one kind, 0.4 to 25 a second, each of 4 to 500 ms.

    Knocks, bursts, chimes, cries, coughs, creaks, scraps of recordings or crosses of two, some of
    two parts; at any time, regular or in bouts; and all alike, all akin or each another. All that
    is drawn comes from `rng`.

    Parameters
    ----------
    rng
        Where all is drawn from.
    samples, rate
        Length, and samples per second.
    sounds
        Recordings at `rate`, float32 of shape (samples,) each, of any length.

    Returns
    -------
    ndarray
        Shape (samples,), float64.
    """

    def scrap(rng: Rng, clock: Reals, envelope: Reals, rate: int) -> Reals:
        piece = loud_cut(rng, pick(rng, sounds), 2 * len(clock), 0.3)
        piece = at_speed(rng, piece, SPEEDS)[: len(clock)]
        return shape_spectrum(rng, piece, rate, 5.0, (-0.7, 0.5)) * envelope

    def cross(rng: Rng, clock: Reals, envelope: Reals, rate: int) -> Reals:
        other = loud_cut(rng, pick(rng, sounds), len(clock), 0.3)
        sound = scrap(rng, clock, np.ones_like(envelope), rate)
        return sound * _course(other, rate) / (_course(sound, rate) + 0.01 * rms(sound))

    made_up = (_knock, _burst, _burst, _chime, _cry, _cry, _cough, _creak)
    makers = (*made_up, *[scrap] * 4, *[cross] * 3)
    parts = [makers[rng.integers(len(makers))] for _ in range(1 + (rng.random() < 0.3))]
    delay, quieter = rng.uniform(0, 0.15), decibels(rng.normal(-3, 6))

    def make() -> Reals:
        length = max(int(rate * log_uniform(rng, 0.004, 0.5)), 16)
        clock = np.arange(length) / rate
        late = int(delay * rate)
        result = np.zeros((len(parts) - 1) * late + length)
        for k, part in enumerate(parts):
            event = part(rng, clock, _envelope(rng, clock, length / rate), rate)
            event = event / (np.abs(event).max() + 1e-9) * quieter**k
            result[k * late : k * late + length] += event
        return result

    alike = rng.random()
    first = make()
    result = np.zeros(samples)
    for start in _times(rng, samples / rate):
        event = first
        if alike < 0.4:
            event = make()
        elif alike < 0.7:
            event = shape_spectrum(rng, first, rate, 3.0, (-0.3, 0.3))
        begin = int(start * rate)
        heard = event[: samples - begin] * decibels(rng.normal(0, 4))
        result[begin : begin + len(heard)] += heard
    return result


def crackle(rng: Rng, samples: int, rate: int) -> Reals:
    """Make crackle of one to four kinds of click, 3 to 600 a second in all, each of 1 to 60 ms.

    As fires, records, gravel and keyboards have it: how often they come wanders, and their sizes
    have a heavy tail, so that a few stand out.
    """
    from scipy.signal import fftconvolve

    per_second, tail = log_uniform(rng, 3, 600), rng.uniform(0.7, 2.2)
    knots = max(2, int(samples / rate / log_uniform(rng, 0.05, 1.5)) + 2)
    levels = rng.normal(0, rng.uniform(0, 1.5), knots)
    course = np.exp(np.interp(np.linspace(0, knots - 1, samples), np.arange(knots), levels))
    kinds = int(rng.integers(1, 5))
    result = np.zeros(samples)
    for _ in range(kinds):
        hits = np.flatnonzero(rng.random(samples) < course * per_second / kinds / rate)
        if not len(hits):
            hits = rng.integers(samples, size=1)
        sizes = np.minimum(rng.pareto(tail, len(hits)) + 1, 100)
        train = np.zeros(samples)
        train[hits] = sizes * rng.choice([-1, 1], len(hits))
        length = max(int(rate * log_uniform(rng, 0.001, 0.06)), 16)
        clock = np.arange(length) / rate
        make = (_knock, _knock, _burst)[int(rng.integers(3))]
        click = make(rng, clock, _envelope(rng, clock, length / rate), rate)
        click /= np.abs(click).max() + 1e-9
        result += fftconvolve(train, click)[:samples] * decibels(rng.normal(0, 5))
    return shape_spectrum(rng, result, rate, 4.0, (-0.7, 0.4))


def _times(rng: Rng, seconds: float) -> list[float]:
    """Draw when events begin: at any time, regularly, or in bouts, even, slowing or hastening."""
    per_second = log_uniform(rng, 0.4, 25)
    count = max(1, int(rng.poisson(per_second * seconds)))
    way = rng.random()
    if way < 0.4:
        return list(rng.uniform(0, seconds, count))
    if way < 0.6:
        return list((np.arange(count) + rng.uniform()) / count * seconds)
    times: list[float] = []
    time, apart = -rng.exponential(0.3), log_uniform(rng, 0.04, 0.6)
    size, pause = rng.uniform(1, 8), log_uniform(rng, 0.3, 2)
    haste = np.exp(rng.normal(0, 0.15)) if rng.random() < 0.4 else 1.0
    while time < seconds:
        step = apart
        for _ in range(1 + int(rng.poisson(size))):
            times.append(time)
            time += step * np.exp(rng.normal(0, 0.15))
            step *= haste
        time += pause * rng.exponential()
    inside = [each for each in times if 0 <= each < seconds]
    return inside or [rng.uniform(0, seconds)]


def _course(sound: Reals, rate: int) -> Reals:
    """Return the course of a sound's level, smoothed over 5 ms."""
    from scipy.ndimage import uniform_filter1d

    power = uniform_filter1d(np.asarray(sound, float) ** 2, max(1, rate // 200))
    course: Reals = np.sqrt(np.maximum(power, 0))
    return course


def _envelope(rng: Rng, clock: Reals, seconds: float) -> Reals:
    """Rise, suddenly or slowly, and decay exponentially."""
    envelope: Reals = np.exp(-clock / seconds * rng.uniform(3, 8))
    envelope *= np.minimum(1, clock / (seconds * rng.uniform(0.005, 0.3)) + 0.02)
    return envelope


def _knock(rng: Rng, clock: Reals, envelope: Reals, rate: int) -> Reals:
    """Strike one to three resonances in a row, 30 to 2000 Hz wide, which decay by themselves."""
    sound: Reals = np.zeros(len(clock))
    sound[0] = 1
    for _ in range(int(rng.integers(1, 4))):
        frequency = rng.uniform(150, 0.45 * rate)
        sound = _resonance(sound, rate, frequency, log_uniform(rng, 30, 2000))
    return sound


def _burst(rng: Rng, clock: Reals, envelope: Reals, rate: int) -> Reals:
    """Let coloured noise rise and decay."""
    return shape_spectrum(rng, rng.standard_normal(len(clock)), rate) * envelope


def _chime(rng: Rng, clock: Reals, envelope: Reals, rate: int) -> Reals:
    """Let one to five tones that are no harmonics rise and decay."""
    tones = np.zeros(len(clock))
    for _ in range(int(rng.integers(1, 6))):
        tone = np.sin(2 * np.pi * rng.uniform(200, 0.45 * rate) * clock)
        tones += tone * np.exp(rng.normal(0, 0.8))
    return tones * envelope


def _cry(rng: Rng, clock: Reals, envelope: Reals, rate: int) -> Reals:
    """Glide and bend a harmonic tone with some breath, as animals and sirens do.

    It swells, as a howl does, or begins at once and has resonances, as a bark.
    """
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


def _cough(rng: Rng, clock: Reals, envelope: Reals, rate: int) -> Reals:
    """Push puffs of breath and voice through three to five resonances: a cough, a laugh."""
    seconds = len(clock) / rate
    pitch = log_uniform(rng, 70, 400) * (1 + rng.uniform(-0.3, 0.3) * clock / seconds)
    turns = np.cumsum(pitch) / rate
    pulses = np.diff(np.floor(turns), prepend=0) * np.sqrt(rate / pitch)
    breath = rng.standard_normal(len(clock))
    sound = rng.uniform(0, 1) * pulses + rng.uniform(0.1, 1) * breath
    puffs = np.abs(np.sin(np.pi * rng.uniform(0.5, 4) * clock / seconds)) ** rng.uniform(0.3, 3)
    count, width = int(rng.integers(3, 6)), np.exp(rng.normal(5, 0.6))
    heard: Reals = _resonances(rng, sound, rate, count, (250, 5000), width) * puffs * envelope
    return heard


def _creak(rng: Rng, clock: Reals, envelope: Reals, rate: int) -> Reals:
    """Let something stick and slip, evenly or not, ever faster or slower: a door, a zip, paper."""
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
    heard: Reals = _resonances(rng, slips, rate, count, (200, 7000), width) * swell
    return heard


def _resonances(
    rng: Rng, sound: Reals, rate: int, count: int, between: tuple[float, float], width: float
) -> Reals:
    """Add up what `count` resonances, each about `width` Hz wide, make of a sound."""
    result: Reals = np.zeros(len(sound))
    for _ in range(count):
        frequency = log_uniform(rng, between[0], min(between[1], 0.45 * rate))
        loud = np.exp(rng.normal(0, 0.8))
        result += loud * _resonance(sound, rate, frequency, width * np.exp(rng.normal(0, 0.4)))
    return result


def _resonance(sound: Reals, rate: int, frequency: float, width: float) -> Reals:
    """Strike a resonance, both in Hz; one of white noise is as loud whatever its width."""
    from scipy.signal import lfilter

    radius = np.exp(-np.pi * width / rate)
    poles = [1, -2 * radius * np.cos(2 * np.pi * frequency / rate), radius * radius]
    heard: Reals = lfilter([np.sqrt(1 - radius)], poles, sound)
    return heard
