"""Synthetic short sounds: knocks, bursts, chimes, cries, coughs and creaks.

Every maker takes a generator and the `Span` to fill; it returns shape (samples,), float64.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from alphamf.tools.arrays import Reals
from alphamf.training.refiner.shaping import Rng, log_uniform, rms, shape_spectrum


class Span(NamedTuple):
    """Sample times, level envelope and rate of a short sound."""

    clock: Reals  # Times of its samples in s, from zero, shape (samples,)
    envelope: Reals  # Envelope of its level, shape (samples,)
    rate: int


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

    Half of them swell like a howl; the others start abruptly and have resonances like a bark.
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
    result: Reals = _resonances(rng, sound, rate, count, (250, 5000), width) * puffs * envelope
    return result


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
    result: Reals = _resonances(rng, slips, rate, count, (200, 7000), width) * swell
    return result


def _envelope(rng: Rng, clock: Reals, seconds: float) -> Reals:
    """Draw an envelope with a fast or slow attack and an exponential decay."""
    envelope: Reals = np.exp(-clock / seconds * rng.uniform(3, 8))
    envelope *= np.minimum(1, clock / (seconds * rng.uniform(0.005, 0.3)) + 0.02)
    return envelope


def _resonances(
    rng: Rng, sound: Reals, rate: int, count: int, between: tuple[float, float], width: float
) -> Reals:
    """Return the sum of a sound's responses in `count` resonances, each about `width` Hz wide."""
    result: Reals = np.zeros(len(sound))
    for _ in range(count):
        frequency = log_uniform(rng, between[0], min(between[1], 0.45 * rate))
        loud = np.exp(rng.normal(0, 0.8))
        result += loud * _resonance(sound, rate, frequency, width * np.exp(rng.normal(0, 0.4)))
    return result


def _resonance(sound: Reals, rate: int, frequency: float, width: float) -> Reals:
    """Filter by a resonance, `frequency` and `width` in Hz; white noise keeps its level."""
    from scipy.signal import lfilter

    radius = np.exp(-np.pi * width / rate)
    poles = [1, -2 * radius * np.cos(2 * np.pi * frequency / rate), radius * radius]
    result: Reals = lfilter([np.sqrt(1 - radius)], poles, sound)
    return result
