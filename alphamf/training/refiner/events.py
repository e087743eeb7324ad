"""Noise of events: short sounds, synthetic or recorded, at random or regular times."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from alphamf.tools.arrays import Reals
from alphamf.training.refiner.event_sounds import (
    Span,
    burst,
    chime,
    cough,
    creak,
    cry,
    knock,
    span,
)
from alphamf.training.refiner.shaping import (
    Rng,
    change_speed,
    cut_loud_piece,
    decibels_to_amplitude,
    log_uniform,
    pick,
    put,
    rms,
    shape_spectrum,
)

SPEEDS = tuple(range(60, 165, 5))
"""Playing speeds of a recording in per cent, which scale its pitch as well."""

Maker = Callable[[Rng, Span], Reals]
"""Makes a short sound."""

SYNTHETIC: tuple[Maker, ...] = (knock, burst, burst, chime, cry, cry, cough, creak)
"""Makers, one of which is drawn at random; those that are listed twice are twice as frequent."""


def events(rng: Rng, samples: int, rate: int, sounds: Sequence[Reals]) -> Reals:
    """Make events of one kind: 0.4 to 25 per second, each lasting 4 to 500 ms.

    Knocks, bursts, chimes, cries, coughs, creaks, pieces of recordings or crosses of two, some of
    two parts; at random times, regular or in bouts; all alike, variations of one, or all different.

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

    Clicks have one to four kinds; their rate varies, and their amplitudes have a heavy tail.

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
    """Draw onsets in s: at random, regular, or in bouts, even, slowing or accelerating."""
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
    """Return a sound's level over time, smoothed over 5 ms."""
    from scipy.ndimage import uniform_filter1d

    power = uniform_filter1d(np.asarray(sound, float) ** 2, max(1, rate // 200))
    level: Reals = np.sqrt(np.maximum(power, 0))
    return level
